"""A run's result as an Agent Skills folder, which any agent can use without Heldout."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

from heldout.errors import HarnessError, SetupError
from heldout.records import Candidate
from heldout.skills.folder import Skill, read_skill, write_skill_folder
from heldout.skills.front_matter import NAME_CHARACTERS, is_skill_name, renamed, skill_text
from heldout.skills.guide import check_guide, kind_of
from heldout.skills.modules import MODULES, NO_SKILL_FILE, SKILL_FILE

__all__ = ["GUIDE_NAME", "check_new_folder", "free_folder", "guide_as_skill", "skill_files", "write_skill_as"]

GUIDE_NAME = "task-skill-writer"
"""Name of an exported guide where its folder gives none."""

_DESCRIPTION = (
    "Writes one short skill for the task at hand and carries the task out with it: classify the task, find evidence "
    "for every binding, write the procedure with its checks, validate the result, attribute the first fault, repair "
    "once. "
    "Use it at the beginning of a task with input files and a stated output."
)

_HOW = """# How to use this

This skill is a guide for writing skills. It holds no rules for any single task; you write those anew for each task, \
and throw them away when the task is done. Read the six modules in their order; each says what it takes in, what it \
keeps, its rules, and what it hands on.

{modules}

For every task:

1. Write the task's profile after module 1, and the ledger of evidence after module 2. Look at the inputs before you \
bind anything to them.
2. Write exactly one skill for this task after module 3: procedure, bindings with their sources, output contract, \
checks that can fail, what is not to be done, when to stop. Keep it for yourself; it is no output of the task.
3. Carry it out, and validate the result after module 4.
4. Where a check fails, name the first fault after module 5, and repair it at most once after module 6. Then validate \
again, or say what is verified and what is open.
5. Take nothing over from one task's skill to another's."""


def skill_files(candidate: Candidate, *, name: str) -> dict[str, str]:
    """The candidate as the files of a skill of this name; `SetupError` for one that has neither a guide nor a skill.

    A skill stays as it is but for its name; a guide becomes a skill about writing skills.
    """
    try:
        kind = kind_of(candidate)
        if kind == "guide":
            check_guide(candidate.files)
            return guide_as_skill(candidate.files, name=name)
        if kind == "skill":
            return _named(read_skill(candidate.files), name)
    except HarnessError as fault:
        raise SetupError(f"this candidate cannot be exported as a skill: {fault}") from fault
    raise SetupError(f"there is no skill to export: the final candidate is {NO_SKILL_FILE}, which solves without one")


def guide_as_skill(files: Mapping[str, str], *, name: str = GUIDE_NAME) -> dict[str, str]:
    """A guide as a skill: how to use the six modules, and the modules under `references/`."""
    listed = "\n".join(
        f"{number}. [{title}](references/{module})" for number, (module, title) in enumerate(MODULES.items(), start=1)
    )
    text = skill_text(name, _DESCRIPTION, _HOW.format(modules=listed))
    modules = {f"references/{module}": f"# {title}\n\n{files[module].strip()}\n" for module, title in MODULES.items()}
    return {SKILL_FILE: text, **modules}


def write_skill_as(candidate: Candidate, to: Path | None) -> Path:
    """Write a candidate as a skill to a folder that does not exist, whose name becomes the skill's; without a folder,
    under the skill's own name in the working folder. `SetupError` where that cannot be."""
    folder = Path(_own_name(candidate)) if to is None else to
    check_new_folder(folder)
    return write_skill_folder(skill_files(candidate, name=folder.resolve().name), folder)


def check_new_folder(folder: Path) -> None:
    """`SetupError` where no skill can be written to this folder."""
    name = folder.resolve().name
    if not is_skill_name(name):
        raise SetupError(
            f"{name!r} cannot be the name of a skill, and so not of its folder: 1 to {NAME_CHARACTERS} lower-case "
            "letters, digits and single hyphens; for example --out my-skill"
        )
    if folder.exists() or folder.is_symlink():
        raise SetupError(f"{str(folder)!r} exists; name a folder that does not with --out")


def free_folder(name: str) -> Path:
    """A folder in the working folder that does not exist, of this name or, where that is taken, with a number."""
    taken = (Path(f"{name[: NAME_CHARACTERS - 6].rstrip('-')}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([Path(name)], taken) if not path.exists())


def _own_name(candidate: Candidate) -> str:
    try:
        return read_skill(candidate.files).head.name if SKILL_FILE in candidate.files else GUIDE_NAME
    except HarnessError as fault:
        raise SetupError(f"this candidate cannot be exported as a skill: {fault}") from fault


def _named(skill: Skill, name: str) -> dict[str, str]:
    text = skill.text if skill.head.name == name else renamed(skill.text, name)
    return {**skill.files, SKILL_FILE: text}
