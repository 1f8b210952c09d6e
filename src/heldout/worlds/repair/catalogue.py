"""Twenty-four edits of a coder's workspace, from which the simulated improver chooses.

An edit says what it addresses (`edit_class`), never whether it works: that is in `truth`, which no improver reads.
The texts are in `catalogue.toml`, the hook functions in `hook_parts`.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from heldout.records import Edit
from heldout.worlds.repair import hook_parts

__all__ = ["CATALOGUE", "EDIT_CLASSES", "HOOKS_FILE", "LOOP_FILE", "CatalogueEdit", "hook_parts_in", "settings_in"]

EDIT_CLASSES = ("tests", "keep_mend", "shell", "traceback", "locate")
"""What an edit may say that it addresses."""

HOOKS_FILE = "harness_code/hooks.py"
LOOP_FILE = "harness_code/loop.toml"

_HEADER = '"""Hooks of this workspace, one function for each part."""\n'
_PART = re.compile(r"^# part: (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CatalogueEdit:
    """One edit, as a function of the folder that it is made to. Edits of the same file compose, in any order."""

    name: str
    edit_class: str
    text: str
    """What it does, in a sentence for a person."""
    path: str
    sentence: str = ""
    """Of text edits: the line by which it is recognised."""
    content: str = ""
    """Of text edits: the section that is appended."""
    part: str = ""
    """Of hook edits: the function's name."""
    hook: Literal["", "before_tool", "after_tool"] = ""
    call: str = ""
    """Of hook edits: the statement with which the hook calls its part."""
    setting: str = ""
    """Of settings: the key of `loop.toml`."""
    value: int = 0

    def apply(self, folder: Mapping[str, str]) -> tuple[Edit, ...]:
        """The whole-file writes that make this edit; none where it is made already.

        None either where the workspace has hooks that are not from this catalogue: they are not ours to rewrite.
        """
        if self.in_place(folder):
            return ()
        old = folder.get(self.path, "")
        if self.part:
            foreign = bool(old) and not old.startswith(_HEADER)
            return () if foreign else (self._write(_hooks({*hook_parts_in(old), self.part})),)
        if self.setting:
            return (self._write(_loop_toml({**settings_in(old), self.setting: self.value})),)
        return (self._write(f"{old.rstrip()}\n\n{self.content}\n".lstrip()),)

    def in_place(self, folder: Mapping[str, str]) -> bool:
        """Whether the folder has this edit."""
        old = folder.get(self.path, "")
        if self.part:
            return self.part in hook_parts_in(old)
        if self.setting:
            return settings_in(old).get(self.setting) == self.value
        return self.sentence in old

    def _write(self, content: str) -> Edit:
        return Edit(path=self.path, content=content)


def hook_parts_in(source: str) -> tuple[str, ...]:
    """The parts of this catalogue that a `hooks.py` has, in the order in which they act; none of a foreign file."""
    return tuple(_PART.findall(source)) if source.startswith(_HEADER) else ()


def settings_in(text: str) -> dict[str, int]:
    """The settings of a `loop.toml`; none of a file that is no TOML, which the harness will refuse."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}
    return {key: value for key, value in found.items() if isinstance(value, int)}


def _loop_toml(settings: Mapping[str, int]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in sorted(settings.items()))


def _hooks(parts: set[str]) -> str:
    """`hooks.py` with these parts: a function of the set, so the order of edits leaves no trace."""
    chosen = [edit for edit in CATALOGUE if edit.part in parts and edit.part]
    pieces = [_HEADER]
    for edit in chosen:
        pieces.append(f"# part: {edit.part}\n{inspect.getsource(getattr(hook_parts, edit.part))}")
    before = [edit.call for edit in chosen if edit.hook == "before_tool"]
    if before:
        pieces.append(_function("before_tool(command)", before, returns="command"))
    after = [edit.call for edit in chosen if edit.hook == "after_tool"]
    if after:
        pieces.append(_function("after_tool(command, output, exit_code)", after, returns="output"))
    return "\n\n".join(pieces)


def _function(head: str, calls: list[str], *, returns: str) -> str:
    body = "".join(f"    {call}\n" for call in calls)
    return f"def {head}:\n{body}    return {returns}\n"


def _read() -> tuple[CatalogueEdit, ...]:
    listed = tomllib.loads(files("heldout.worlds.repair").joinpath("catalogue.toml").read_text(encoding="utf-8"))
    return tuple(_edit(name, entry) for name, entry in listed.items())


def _edit(name: str, entry: Mapping[str, Any]) -> CatalogueEdit:
    rest = {key: value for key, value in entry.items() if key != "class"}
    sentence = rest.get("sentence", "")
    rest["content"] = rest.get("content", "").replace("{sentence}", sentence).strip()
    return CatalogueEdit(name=name, edit_class=entry["class"], **rest)


CATALOGUE: tuple[CatalogueEdit, ...] = _read()
"""In a fixed order, class by class."""
