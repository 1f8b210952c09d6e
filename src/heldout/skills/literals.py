"""Names that belong to single train tasks, and the search for them in a module's text (invariant 5)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from heldout.errors import SandboxError, TaskError
from heldout.records import Task
from heldout.sandbox import Scene
from heldout.sandbox.encoding import as_bytes
from heldout.skills.workbook import SEPARATED, WORKBOOKS, Sheet, read_separated, read_workbook
from heldout.tasks.environment import Environment

__all__ = ["LEAST_CHARACTERS", "literals_in", "request_literals", "scene_literals", "train_literals"]

LEAST_CHARACTERS = 3
"""Shorter names are not searched for: they stand in any text."""

_WORD = re.compile(r"[^\W_]+")
_RUN_TOGETHER = 6
"""Characters of a name of several words from which it is also one where nothing stands between them."""
_QUOTES = "\"'`“”„‘’«»*"

_QUOTED = re.compile(
    r"""“[^”\n]{1,80}”|"[^"\n]{1,80}"|`[^`\n]{1,80}`|‘[^’\n]{1,80}’|«[^»\n]{1,80}»|(?<!\w)'[^'\n]{1,80}'(?!\w)"""
)
_FILE = re.compile(r"(?<![\w./\\])[\w-]+(?:[/\\.][\w-]+)*\.(?:[A-Za-z]{3,5}|[a-z]{2}|[a-z]\w{1,3})(?!\w)")
_LANGUAGE = re.compile(r"[a-z]*")

_HEADER_ROWS = 8
"""Rows among which the headers of a sheet are looked for."""


def train_literals(tasks: Iterable[Task], environment: Environment | None) -> tuple[str, ...]:
    """Every id, file name, sheet name and header of these tasks, sorted: of what is in their folders, where they begin
    in one, and of what their requests name, such as the output file.

    A file that cannot be read gives its name alone.
    """
    found: set[str] = set()
    for task in tasks:
        found |= {task.id, *request_literals(task.input)}
        if environment is not None:
            found.update(scene_literals(environment.scene(task, seed=0)))
    return tuple(sorted(name for name in found if len(name) >= LEAST_CHARACTERS))


def request_literals(text: str) -> set[str]:
    """What a request names: file names, and what it puts into quotes, the parts of a list one by one. A single word
    without capitals or digits between quotes is language, and no name."""
    quoted = {part.strip() for found in _QUOTED.findall(text) for part in (found[1:-1], *found[1:-1].split(","))}
    return {name for name in quoted if not _LANGUAGE.fullmatch(name)} | set(_FILE.findall(text))


def scene_literals(scene: Scene) -> set[str]:
    """Paths, file names, sheet names and headers of one task's work folder."""
    found: set[str] = set()
    for path in scene.files:
        found |= {path, path.rpartition("/")[2]}
        for sheet in _sheets(path, scene):
            found |= {sheet.name, *sheet.headers}
    return found - {""}


def literals_in(text: str, forbidden: Iterable[str], allowed_text: str = "") -> tuple[str, ...]:
    """Those of `forbidden` that stand in the text as whole words, sorted.

    Compared are the characters that a reader sees: compatible forms are one, invisible ones none. A name of one word
    counts in the same case, or in any case between quotes. The words of any other name count in any case and up to six
    characters apart (run together, unless they are short), so that neither a line break, nor emphasis, nor an
    underscore hides them. What `allowed_text` (the start guide) holds too is no hit: it came from no task.
    """
    seen, allowed = _Text.of(text), _Text.of(allowed_text)
    names = (name for name in set(forbidden) if len(name) >= LEAST_CHARACTERS)
    return tuple(sorted(name for name in names if seen.holds(name) and not allowed.holds(name)))


@dataclass(frozen=True, slots=True)
class _Text:
    """A text as its reader sees it."""

    shown: str
    folded: str

    @classmethod
    def of(cls, text: str) -> _Text:
        shown = _seen(text)
        return cls(shown, shown.casefold())

    def holds(self, name: str) -> bool:
        """See `literals_in`."""
        words = [re.escape(word) for word in _WORD.findall(_seen(name).casefold())]
        if not words or words[0] not in self.folded:  # quick, and rare enough for the rest to cost nothing
            return False
        if len(words) > 1:
            least = 0 if sum(map(len, words)) >= _RUN_TOGETHER else 1
            apart = rf"[\W_]{{{least},6}}".join(words)
            return re.search(rf"(?<![^\W_]){apart}(?![^\W_])", self.folded) is not None
        plain, quoted = re.escape(_seen(name)), rf"[{_QUOTES}]\s*{words[0]}\s*[{_QUOTES}]"
        same_case = re.search(rf"(?<!\w){plain}(?!\w)", self.shown)
        return same_case is not None or re.search(quoted, self.folded) is not None


def _seen(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text)
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Cf")


def _sheets(path: str, scene: Scene) -> Iterator[Sheet]:
    name = path.lower()
    try:
        if name.endswith(WORKBOOKS):
            yield from read_workbook(as_bytes(path, scene.files[path], scene.encoded), rows=_HEADER_ROWS)
        elif name.endswith(SEPARATED):
            yield read_separated(scene.files[path], rows=_HEADER_ROWS)
    except (TaskError, SandboxError):
        return
