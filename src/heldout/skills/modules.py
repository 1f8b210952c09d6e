"""The six modules of a guide for writing skills, and the stages of a task that they are answerable for.

Specification: `systems/gso.md`, section 4; arXiv 2609.39148, which introduces generalizable skill optimization (GSO).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

__all__ = ["MODULES", "MODULE_OF_STAGE", "NO_SKILL_FILE", "SKILL_FILE", "Stage"]

SKILL_FILE = "SKILL.md"
"""The file of an Agent Skill, and so of a candidate that is one skill for all tasks."""

NO_SKILL_FILE = "NO_SKILL.md"
"""The only file of the candidate that has neither a guide nor a skill; its text is shown to nobody."""

MODULES: Mapping[str, str] = {
    "m1_task.md": "Task classification",
    "m2_sources.md": "Sources and tools",
    "m3_skill.md": "Skill construction",
    "m4_validation.md": "Executable validation",
    "m5_attribution.md": "Failure attribution",
    "m6_repair.md": "Bounded repair and abstention",
}
"""File of each module, in order, and its title. A guide is a folder of exactly these files."""


class Stage(StrEnum):
    """Where the first actionable fault of a task lies."""

    CONTRACT_PARSING = "contract parsing"
    SOURCE_SELECTION = "source selection"
    SKILL_COMPILATION = "skill compilation"
    EXECUTION = "execution"
    ARTIFACT_VALIDATION = "artifact validation"
    BOUNDED_RECOVERY = "bounded recovery"


MODULE_OF_STAGE: Mapping[Stage, str] = {
    Stage.CONTRACT_PARSING: "m1_task.md",
    Stage.SOURCE_SELECTION: "m2_sources.md",
    Stage.SKILL_COMPILATION: "m3_skill.md",
    Stage.EXECUTION: "m4_validation.md",
    Stage.ARTIFACT_VALIDATION: "m4_validation.md",
    Stage.BOUNDED_RECOVERY: "m6_repair.md",
}
"""The module that should have prevented a fault (our choice, section 5). `m5_attribution.md` is named only where a
recovery was aimed at a stage that the failed second check contradicts."""
