"""What a solver is told: how it works, the skill, how it declares a fault, and its one recovery."""

from __future__ import annotations

from collections.abc import Mapping

from heldout.skills.faults import FAULT_MARKER
from heldout.skills.folder import Skill
from heldout.skills.modules import Stage

__all__ = ["RECOVERY_NOTE", "SOLVER_RULES", "skill_section", "solver_system"]

_STAGES = ", ".join(f"`{stage.value}`" for stage in Stage)

SOLVER_RULES = f"""You are given one request and a work folder, and carry the request out there.

- Look before you change: what is in the work folder is evidence, and a guess is none.
- Where a skill stands below, follow it. Where it binds something to a source that you do not find, look at what is \
there, decide by what you see, and say so.
- Before you submit, check the result itself, with checks that can fail. That a program ended without an error is no \
check, and neither is your own account of what it did.
- Where your checks pass, submit.
- Where a check fails and you cannot put it right within the steps that you have planned, submit with a record of the \
first fault instead: `echo '{FAULT_MARKER} STAGE: WHAT'; echo HELDOUT_SUBMIT`, where STAGE is where the fault lies, \
one of {_STAGES}, and WHAT is the check and what it showed, in one line."""

RECOVERY_NOTE = """# One recovery

Your submission names a fault, and nothing has been graded. You may repair it once.

- Aim the repair at the fault that you named, and at no other part of the work; leave as it is what your checks have \
verified.
- Carry out again only what depends on the repaired part.
- Run the check that failed once more, and submit. If it fails again, submit with the record of the fault. There is no \
further recovery."""


def solver_system(skill: str, protocol: str) -> str:
    """The system message; an empty `skill` is none, and `protocol` is what the tool loop says of its turns."""
    given = f"\n\n# Skill\n\n{skill}" if skill else ""
    return f"# Solve one task\n\n{SOLVER_RULES}{given}\n\n{protocol}"


def skill_section(skill: Skill) -> str:
    """A skill for the system message: `SKILL.md`, and further files of its folder under their names."""
    return "\n\n".join([skill.text.strip(), *_further(skill.further)])


def _further(files: Mapping[str, str]) -> list[str]:
    return [f"## File of the skill: {path}\n\n{text.strip()}" for path, text in sorted(files.items())]
