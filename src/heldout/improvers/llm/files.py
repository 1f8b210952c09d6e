"""What the improver may read: texts by path, in memory, listed, searched and read in pieces."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from pydantic import Field

from heldout.improvers.llm.tools import Answer, Tool
from heldout.records import Record

__all__ = ["ReadOnlyFiles"]

_MOST_LISTED = 300
_MOST_HITS = 60
_LINE_SHOWN = 240


class _ListFiles(Record):
    folder: str = Field(default="", description="a folder such as evidence/traces; empty for everything")


class _ReadFile(Record):
    path: str = Field(description="a path that list_files shows")
    offset: int = Field(default=0, ge=0, description="character to begin at")


class _Search(Record):
    pattern: str = Field(min_length=1, description="plain text, upper and lower case alike; a|b finds either")


class ReadOnlyFiles:
    """The three reading tools over a tree of texts; `result_chars` bounds each answer."""

    def __init__(self, tree: Mapping[str, str], *, result_chars: int) -> None:
        self.tree = dict(sorted(tree.items()))
        self._result_chars = result_chars

    def tools(self) -> list[Tool]:
        """`list_files`, `read_file` and `search`."""
        return [
            Tool("list_files", "List the files that you may read, with their sizes.", _ListFiles, self._list),
            Tool("read_file", "Read a file, from a character on.", _ReadFile, self._read),
            Tool("search", "Find lines in all files that contain a text.", _Search, self._search),
        ]

    def index(self) -> str:
        """Every folder with its number of files."""
        folders: dict[str, int] = {}
        for path in self.tree:
            folder = path.rpartition("/")[0]
            folders[folder] = folders.get(folder, 0) + 1
        return "\n".join(f"{folder or '.'}/: {count} file{'s' * (count > 1)}" for folder, count in folders.items())

    def _list(self, asked: _ListFiles) -> Answer:
        folder = _plain(asked.folder)
        inside = [path for path in self.tree if not folder or path == folder or path.startswith(f"{folder}/")]
        if not inside:
            return Answer(f"There is no folder {asked.folder!r}; there is\n{self.index()}", fault=True)
        lines = [f"{path} ({len(self.tree[path])} characters)" for path in inside[:_MOST_LISTED]]
        if len(inside) > _MOST_LISTED:
            lines.append(f"… and {len(inside) - _MOST_LISTED} more; name a folder")
        return Answer("\n".join(lines))

    def _read(self, asked: _ReadFile) -> Answer:
        path = _plain(asked.path)
        if path not in self.tree:
            near = difflib.get_close_matches(path, self.tree, n=3, cutoff=0.4)
            hint = f"; did you mean {', '.join(near)}?" if near else "; list_files shows what there is"
            return Answer(f"There is no file {asked.path!r}{hint}", fault=True)
        text = self.tree[path]
        if asked.offset and asked.offset >= len(text):
            return Answer(f"{path} has {len(text)} characters; offset {asked.offset} is past its end", fault=True)
        end = min(len(text), asked.offset + self._result_chars)
        rest = f"\n[{len(text) - end} more characters; read on with offset {end}]" if end < len(text) else ""
        return Answer(f"[{path}, characters {asked.offset} to {end} of {len(text)}]\n{text[asked.offset : end]}{rest}")

    def _search(self, asked: _Search) -> Answer:
        sought = [part.casefold() for part in asked.pattern.split("|") if part]
        hits = list(self._hits(sought or [asked.pattern.casefold()]))
        if not hits:
            return Answer(f"No line contains {asked.pattern!r}.")
        shown = ""
        count = 0
        for hit in hits[:_MOST_HITS]:
            if len(shown) + len(hit) > self._result_chars:
                break
            shown += f"{hit}\n"
            count += 1
        more = f"[{len(hits) - count} more lines; look for something narrower]" if count < len(hits) else ""
        return Answer((shown + more).rstrip())

    def _hits(self, sought: list[str]) -> Iterator[str]:
        for path, text in self.tree.items():
            for number, line in enumerate(text.splitlines(), start=1):
                if any(part in line.casefold() for part in sought):
                    yield f"{path}:{number}: {line.strip()[:_LINE_SHOWN]}"


def _plain(path: str) -> str:
    bare = path.strip().removeprefix("./").strip("/")
    return "" if bare == "." else bare
