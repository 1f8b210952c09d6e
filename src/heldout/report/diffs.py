"""What changed between two candidate folders, line by line and, inside a changed line, word by word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from heldout.report.untrusted import legible

__all__ = ["DiffLine", "FileDiff", "LineKind", "Span", "diff_files"]

_WORDS = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
"""Words and signs, each with the space before it, so that a run of changed words is one piece."""

_CONTEXT_LINES = 2
_MAX_LINES = 400
"""Lines of one file that are compared and shown; candidate files can be of any size."""
_MAX_WORDS = 600
"""Words of a line up to which changed words are sought; matching them is quadratic."""
_SIMILAR = 0.3
"""Lines with less in common than this are shown as removed and added, not as edited."""


class LineKind(StrEnum):
    """How a line stands in the difference."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"
    GAP = "gap"
    """Unchanged lines that are not shown; the text counts them."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line; `changed` words are what to look at."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a difference."""

    kind: LineKind
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file that differs."""

    path: str
    status: str
    """`added`, `removed` or `changed`."""
    lines: tuple[DiffLine, ...]
    cut: int = 0
    """Lines beyond the limit, not compared."""


def diff_files(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[FileDiff, ...]:
    """Every file whose text differs, in the order of paths."""
    return tuple(
        _diff_file(path, old.get(path), new=new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    )


def _diff_file(path: str, old: str | None, *, new: str | None) -> FileDiff:
    before, after = _legible_lines(old), _legible_lines(new)
    status = "added" if old is None else "removed" if new is None else "changed"
    lines = tuple(_lines(before[:_MAX_LINES], after[:_MAX_LINES]))
    if all(line.kind in (LineKind.SAME, LineKind.GAP) for line in lines):
        lines = (DiffLine(LineKind.GAP, (Span("the lines shown are the same; only line ends or later lines differ"),)),)
    return FileDiff(path, status, lines, cut=max(0, len(before) - _MAX_LINES, len(after) - _MAX_LINES))


def _legible_lines(text: str | None) -> list[str]:
    """Lines as a person must see them: what is invisible in a candidate's file is written out."""
    return [legible(line) for line in (text or "").splitlines()]


def _lines(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "equal":
            yield from _shared(before[a:a_end], first=a == 0, last=a_end == len(before))
        else:
            yield from _changed(before[a:a_end], after[b:b_end])


def _shared(lines: Sequence[str], *, first: bool, last: bool) -> Iterator[DiffLine]:
    head = 0 if first else _CONTEXT_LINES
    tail = 0 if last else _CONTEXT_LINES
    hidden = len(lines) - head - tail
    if hidden <= 1:
        yield from (DiffLine(LineKind.SAME, (Span(line),)) for line in lines)
        return
    yield from (DiffLine(LineKind.SAME, (Span(line),)) for line in lines[:head])
    yield DiffLine(LineKind.GAP, (Span(f"{hidden} unchanged lines"),))
    yield from (DiffLine(LineKind.SAME, (Span(line),)) for line in lines[len(lines) - tail :])


def _changed(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    removed, added = [], []
    for old, new in zip_longest(before, after):
        old_spans, new_spans = _spans(old, new)
        if old is not None:
            removed.append(DiffLine(LineKind.REMOVED, old_spans))
        if new is not None:
            added.append(DiffLine(LineKind.ADDED, new_spans))
    yield from removed
    yield from added


def _spans(old: str | None, new: str | None) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Both sides cut at changed words; whole lines where they have too little in common or are too long."""
    whole = (Span(old or ""),), (Span(new or ""),)
    if old is None or new is None:
        return whole
    a, b = _WORDS.findall(old), _WORDS.findall(new)
    if max(len(a), len(b)) > _MAX_WORDS:
        return whole
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < _SIMILAR:
        return whole
    old_spans: list[Span] = []
    new_spans: list[Span] = []
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        changed = tag != "equal"
        old_spans.append(Span("".join(a[i:i_end]), changed))
        new_spans.append(Span("".join(b[j:j_end]), changed))
    return _filled(old_spans), _filled(new_spans)


def _filled(spans: Sequence[Span]) -> tuple[Span, ...]:
    return tuple(span for span in spans if span.text)
