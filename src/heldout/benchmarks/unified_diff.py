"""Git patches of text files, read and applied without fuzz."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FilePatch", "apply_patch", "read_patch"]

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""Lines end at a line feed and nowhere else, whatever Python's `splitlines` thinks of form feeds."""


@dataclass(slots=True)
class _Hunk:
    start: int
    """First line of the old text that it covers, from 0."""
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FilePatch:
    """What a patch does to one file. Lines keep their ends; a last line without one has none."""

    old: str | None
    """Path before; None for a new file."""
    new: str | None
    """Path after; None for a deleted file."""
    hunks: list[_Hunk] = field(default_factory=list)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that it touches."""
        return tuple(dict.fromkeys(path for path in (self.old, self.new) if path is not None))


@dataclass(slots=True)
class _Reader:
    """The lines of a patch, with a look at the next one."""

    lines: list[str]
    at: int = 0

    @property
    def peek(self) -> str:
        """Empty at the end."""
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def take(self) -> str:
        line = self.peek
        self.at += 1
        return line


def read_patch(text: str) -> list[FilePatch]:
    """The files of a patch in `git diff` or plain unified form; `ValueError` says what cannot be read."""
    patches: list[FilePatch] = []
    reader = _Reader(_LINE.findall(text))
    while line := reader.take():
        if line.startswith("diff --git "):
            patches.append(_named(line))
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise ValueError(f"it changes a binary file: {line.strip()[:80]!r}")
        elif line.startswith("rename from ") and patches:
            patches[-1].old = _path(line.removeprefix("rename from "), "")
        elif line.startswith("rename to ") and patches:
            patches[-1].new = _path(line.removeprefix("rename to "), "")
        elif line.startswith("new file mode") and patches:
            patches[-1].old = None
        elif line.startswith("deleted file mode") and patches:
            patches[-1].new = None
        elif line.startswith("--- "):
            _take_names(line, reader.take(), patches)
        elif (found := _HUNK.match(line)) and patches:
            patches[-1].hunks.append(_read_hunk(found, reader))
    if not patches:
        raise ValueError("it names no file")
    return patches


def apply_patch(files: Mapping[str, str], text: str) -> dict[str, str | None]:
    """What the patch makes of the files that it touches; None for one that is gone. `ValueError` where it does not fit.

    Every hunk must stand exactly where it says: there is no fuzz, so the result is the one that its author saw.
    """
    changed: dict[str, str | None] = {}
    for patch in read_patch(text):
        before = ""
        if patch.old is not None:
            known = changed.get(patch.old, files.get(patch.old))
            if known is None:
                raise ValueError(f"it changes {patch.old!r}, which is not there")
            before = known
            if patch.new != patch.old:
                changed[patch.old] = None
        if patch.new is not None:
            changed[patch.new] = _patched(before, patch)
    return changed


def _named(line: str) -> FilePatch:
    """From `diff --git a/x b/x`; `---`, `+++` and `rename` say it again where they stand."""
    words = line.rstrip("\n").removeprefix("diff --git ")
    if words.endswith('"'):
        new = re.findall(_QUOTED, words)[-1]
        words = f"{words[: -len(new) - 2]}{_unquoted(new)}"
    if words.startswith('"') and (old := _QUOTED.match(words)):
        words = f"{_unquoted(old[1])}{words[old.end() :]}"
    half = (len(words) - 1) // 2
    if words[:half].startswith("a/") and words[half] == " " and words[2:half] == words[half + 3 :]:
        return FilePatch(words[2:half], words[2:half])
    before, _, after = words.partition(" b/")
    return FilePatch(before.removeprefix("a/"), after)


def _take_names(line: str, following: str, patches: list[FilePatch]) -> None:
    """`---` and `+++`, which stand alone in patches that git did not make."""
    if not following.startswith("+++ "):
        raise ValueError(f"a line with +++ must follow {line.strip()!r}, got {following.strip()[:60]!r}")
    old, new = _path(line[4:], "a/"), _path(following[4:], "b/")
    fresh = not patches or patches[-1].hunks or new not in (patches[-1].new, None) or old not in (patches[-1].old, None)
    if fresh:
        patches.append(FilePatch(old, new))
    else:
        patches[-1].old, patches[-1].new = old, new


def _path(text: str, prefix: str) -> str | None:
    name = text.rstrip("\n").split("\t", 1)[0].strip()
    if quoted := _QUOTED.fullmatch(name):
        name = _unquoted(quoted[1])
    return None if name == "/dev/null" else name.removeprefix(prefix)


def _unquoted(name: str) -> str:
    """Git writes what is not ASCII as octal bytes."""
    return name.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1").decode()


def _read_hunk(found: re.Match[str], reader: _Reader) -> _Hunk:
    old_left, new_left = (int(count) if count is not None else 1 for count in (found[2], found[4]))
    # A hunk without old lines stands after the line that it names.
    hunk = _Hunk(int(found[1]) - (1 if old_left else 0))
    while old_left > 0 or new_left > 0:
        line = reader.take()
        sign = line[:1]
        if sign not in (" ", "-", "+", "\n"):
            raise ValueError(f"{line[:60]!r} is no line of the hunk {found[0]!r}")
        body = line if sign == "\n" else line[1:]  # some tools strip the blank of an empty line
        if reader.peek.startswith("\\"):
            reader.take()
            body = body.removesuffix("\n")
        if sign != "+":
            hunk.old.append(body)
            old_left -= 1
        if sign != "-":
            hunk.new.append(body)
            new_left -= 1
    return hunk


def _patched(before: str, patch: FilePatch) -> str:
    lines: list[str] = _LINE.findall(before)
    result: list[str] = []
    at = 0
    for hunk in patch.hunks:
        end = hunk.start + len(hunk.old)
        if hunk.start < at or lines[hunk.start : end] != hunk.old:
            raise ValueError(f"a hunk does not fit {patch.old or patch.new!r} at line {hunk.start + 1}")
        result += lines[at : hunk.start] + hunk.new
        at = end
    return "".join(result + lines[at:])
