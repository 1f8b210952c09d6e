"""The guide for writing skills: a folder of six modules, each written as Inputs, State, Policy and Output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Literal

from heldout.errors import HarnessError
from heldout.records import Candidate
from heldout.skills.modules import MODULES, NO_SKILL_FILE, SKILL_FILE
from heldout.skills.text_marks import control_character

__all__ = [
    "MODULE_BYTES",
    "NO_SKILL",
    "SECTIONS",
    "Kind",
    "changed_modules",
    "check_guide",
    "guide_text",
    "kind_of",
    "start_guide",
]

Kind = Literal["guide", "skill", "none"]

SECTIONS = ("Inputs", "State", "Policy", "Output")
"""Headings (`## Inputs`) that each module has."""

MODULE_BYTES = 8192
"""Largest module."""

NO_SKILL: Mapping[str, str] = MappingProxyType({NO_SKILL_FILE: "No skill: the solver works from the request alone.\n"})
"""The candidate without a guide and without a skill."""


@cache
def start_guide() -> Mapping[str, str]:
    """The hand-written guide that a search begins with, the same for all tasks (m⁽⁰⁾ of the specification, §4)."""
    folder = resources.files("heldout.skills").joinpath("start_guide")
    return MappingProxyType({name: folder.joinpath(name).read_text(encoding="utf-8") for name in MODULES})


def kind_of(candidate: Candidate) -> Kind:
    """What a candidate's folder is; `HarnessError` for one that would be two things at once.

    A folder that is neither a skill nor without one is taken for a guide, whose faults `check_guide` tells.
    """
    names = candidate.files.keys()
    modules = sorted(names & MODULES.keys())
    if NO_SKILL_FILE in names:
        if len(names) > 1:
            beside = min(names - {NO_SKILL_FILE})
            raise HarnessError(f"{NO_SKILL_FILE} stands alone in its folder; beside it is {beside!r}")
        return "none"
    if SKILL_FILE in names:
        if modules:
            raise HarnessError(f"the folder is a skill ({SKILL_FILE}) and a guide ({modules[0]}) at once; keep one")
        return "skill"
    return "guide"


def check_guide(files: Mapping[str, str]) -> None:
    """`HarnessError`, which names file and fault, for what is no guide."""
    for name in files:
        if name not in MODULES:
            raise HarnessError(f"{name!r} is no module of a guide; there is {', '.join(MODULES)}")
    for name, title in MODULES.items():
        if name not in files:
            raise HarnessError(f"the guide has no module {name} ({title}); it needs {', '.join(MODULES)}")
        _check_module(name, files[name])


def guide_text(files: Mapping[str, str]) -> str:
    """The six modules in their order, each under its title."""
    titled = (f"# Module {number}: {title}\n\n{files[name].strip()}" for number, name, title in _numbered())
    return "\n\n".join(titled)


def changed_modules(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """Files that differ, those that only one side has included: modules in their order, then others by name."""
    differ = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return (*(name for name in MODULES if name in differ), *sorted(differ - MODULES.keys()))


def _numbered() -> list[tuple[int, str, str]]:
    return [(number, name, title) for number, (name, title) in enumerate(MODULES.items(), start=1)]


def _check_module(name: str, text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as cause:
        raise HarnessError(f"{name} is no valid text: {cause.reason}") from cause
    if size > MODULE_BYTES:
        raise HarnessError(f"{name} has {size} bytes; at most {MODULE_BYTES} are allowed")
    odd = control_character(text)
    if odd:
        raise HarnessError(f"{name} holds the control character {odd}")
    found = re.findall(r"^##[ \t]+(\w+)[ \t]*\r?$", text, re.MULTILINE)
    missing = [section for section in SECTIONS if section not in found]
    if missing:
        wanted = ", ".join(f"'## {section}'" for section in SECTIONS)
        raise HarnessError(f"{name} has no section '## {missing[0]}'; a module has {wanted}")
