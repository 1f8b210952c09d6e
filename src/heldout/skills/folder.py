"""Agent Skills folders: `SKILL.md` with its front matter, and further text files; checked, read, written and compared.

Format: https://agentskills.io/specification.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from heldout.errors import HarnessError, SetupError
from heldout.records import Candidate
from heldout.skills.front_matter import SkillHead, head_faults, read_head, split
from heldout.skills.modules import SKILL_FILE
from heldout.skills.text_marks import control_character as _control
from heldout.store import export_candidate, fault_of_files, read_folder

__all__ = [
    "FURTHER_BYTES",
    "FURTHER_FILES",
    "SKILL_BYTES",
    "Skill",
    "diff_skills",
    "read_skill",
    "read_skill_folder",
    "skill_faults",
    "write_skill_folder",
]

SKILL_BYTES = 32768
"""Largest `SKILL.md`."""

FURTHER_FILES = 24
"""Files beside `SKILL.md`: references, scripts, assets."""

FURTHER_BYTES = 65536
"""All of them together."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A folder that passed every check."""

    head: SkillHead
    body: str
    """The instructions: what stands after the front matter."""
    text: str
    """`SKILL.md` as it is."""
    further: Mapping[str, str] = field(default_factory=dict)
    """Every other file, by its path."""

    @property
    def files(self) -> dict[str, str]:
        """The whole folder."""
        return {SKILL_FILE: self.text, **self.further}


def skill_faults(files: Mapping[str, str], *, folder: str | None = None) -> tuple[str, ...]:
    """Everything that keeps files from being a skill, in words with the rule and the value; `folder` is their
    folder's name, where they have one."""
    text = files.get(SKILL_FILE)
    if text is None:
        return (f"there is no {SKILL_FILE}; there is {', '.join(sorted(files)) or 'nothing'}",)
    outside = fault_of_files(files)
    if outside is not None:
        return (outside,)
    sizes = _size_faults(files)
    if sizes:
        return sizes
    try:
        front, body = split(text)
        head = read_head(front)
    except HarnessError as fault:
        return (str(fault),)
    faults = list(head_faults(head))
    name = head.get("name")
    if folder is not None and isinstance(name, str) and name != folder:
        faults.append(f"name: {name!r} must be the name of its folder, which is {folder!r}")
    if not body.strip():
        faults.append(f"{SKILL_FILE} has no instructions after its front matter")
    return tuple(faults)


def read_skill(files: Mapping[str, str], *, folder: str | None = None) -> Skill:
    """The skill that files are; `HarnessError` with every fault where they are none."""
    return _read(tuple(sorted(files.items())), folder)


def read_skill_folder(path: Path) -> Skill:
    """The skill in a folder on disk; `SetupError` with every fault."""
    files = read_folder(path).files
    try:
        return read_skill(files, folder=path.resolve().name)
    except HarnessError as fault:
        raise SetupError(f"{str(path)!r} is no skill: {fault}") from fault


def write_skill_folder(files: Mapping[str, str], to: Path) -> Path:
    """Write a skill to a new or empty folder of its own name, whole or not at all; `SetupError` where it is none."""
    try:
        read_skill(files, folder=to.resolve().name)
    except HarnessError as fault:
        raise SetupError(f"not written to {str(to)!r}: {fault}") from fault
    return export_candidate(Candidate(files=files), to)


def diff_skills(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """A unified diff of each file that differs, by path; a file that one side lacks is empty there."""
    differ = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    return {path: _diff(path, old.get(path, ""), new.get(path, "")) for path in differ}


@lru_cache(maxsize=256)
def _read(files: tuple[tuple[str, str], ...], folder: str | None) -> Skill:
    """Pure, remembered because every rollout of a skill needs it."""
    found = dict(files)
    faults = skill_faults(found, folder=folder)
    if faults:
        raise HarnessError("; ".join(faults))
    text = found.pop(SKILL_FILE)
    front, body = split(text)
    return Skill(SkillHead.of(read_head(front)), body, text, found)


def _size_faults(files: Mapping[str, str]) -> tuple[str, ...]:
    faults = [f"{path} holds the control character {odd}" for path, text in files.items() if (odd := _control(text))]
    size = len(files[SKILL_FILE].encode())
    if size > SKILL_BYTES:
        faults.append(f"{SKILL_FILE} has {size} bytes; at most {SKILL_BYTES} are allowed")
    further = [text for path, text in files.items() if path != SKILL_FILE]
    if len(further) > FURTHER_FILES:
        faults.append(f"{len(further)} files lie beside {SKILL_FILE}; at most {FURTHER_FILES} are allowed")
    total = sum(len(text.encode()) for text in further)
    if total > FURTHER_BYTES:
        faults.append(f"the files beside {SKILL_FILE} have {total} bytes; at most {FURTHER_BYTES} are allowed together")
    return tuple(faults)


def _diff(path: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), fromfile=f"a/{path}", tofile=f"b/{path}", lineterm=""
    )
    return "".join(f"{line}\n" for line in lines)
