"""Skills: Agent Skills folders, the guide that they are written with, and the harness that uses both."""

from heldout.skills.folder import (
    Skill,
    diff_skills,
    read_skill,
    read_skill_folder,
    skill_faults,
    write_skill_folder,
)
from heldout.skills.guide import NO_SKILL, changed_modules, check_guide, guide_text, kind_of, start_guide
from heldout.skills.harness import SkilledHarness, SkilledOptions
from heldout.skills.literals import literals_in, train_literals
from heldout.skills.modules import MODULE_OF_STAGE, MODULES, NO_SKILL_FILE, SKILL_FILE, Stage
from heldout.skills.visible import visible

__all__ = [
    "MODULES",
    "MODULE_OF_STAGE",
    "NO_SKILL",
    "NO_SKILL_FILE",
    "SKILL_FILE",
    "Skill",
    "SkilledHarness",
    "SkilledOptions",
    "Stage",
    "changed_modules",
    "check_guide",
    "diff_skills",
    "guide_text",
    "kind_of",
    "literals_in",
    "read_skill",
    "read_skill_folder",
    "skill_faults",
    "start_guide",
    "train_literals",
    "visible",
    "write_skill_folder",
]
