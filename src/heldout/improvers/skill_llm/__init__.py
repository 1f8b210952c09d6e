"""The improver of skills with a language model: it blames a module, rewrites it, or writes one skill for all tasks."""

from heldout.improvers.skill_llm.improver import SkillLlm
from heldout.improvers.skill_llm.settings import SkillLlmOptions

__all__ = ["SkillLlm", "SkillLlmOptions"]
