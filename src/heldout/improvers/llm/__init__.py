"""The improver with a language model as an agent: it reads, experiments, edits a harness, and edits its own method."""

from heldout.improvers.llm.improver import LlmImprover
from heldout.improvers.llm.settings import LlmOptions
from heldout.probes.base import Suggestion

__all__ = ["LlmImprover", "LlmOptions", "Suggestion"]
