"""What an improver believes mends what, as Beta counts in a Markdown table that a person can read and edit.

A row says how often a remedy (a class of edits, or one edit) helped against a failure signature, and how often it did
not. Both counts begin at 1 (an even Beta), so a pair without a row is an open question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random

__all__ = ["CLASS_TABLE", "EDIT_TABLE", "Beliefs", "believed_classes", "wrong_beliefs"]

CLASS_TABLE = "Beliefs"
"""Heading, in `notes.md`, of the counts by signature and class of edits."""

EDIT_TABLE = "Drafts"
"""Heading of the counts by signature and single edit."""

_HEADER = "| signature | remedy | helped | did not |\n|---|---|---|---|\n"
_CELL = re.compile(r"((?:[^\\|]|\\.)*)\|")
_TABLE_ROW = re.compile(r"\|(?:(?:[^\\|]|\\.)*\|)+")
_COUNT = re.compile(r"[1-9][0-9]{0,6}")
_SIGNS: Mapping[str, str] = {"n": "\n", "s": " "}


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Beta counts by (signature, remedy)."""

    counts: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """Both parameters of the Beta, at least 1."""

    @classmethod
    def read(cls, notes: str, heading: str) -> Beliefs:
        """The table under `## heading`. Lines that are no row of it are passed over, so that no text breaks it."""
        found = {}
        start, end = _span(notes, heading)
        for line in notes[start:end].split("\n"):
            row = _row(line)
            if row is not None:
                signature, remedy, helped, did_not = row
                found[signature, remedy] = (helped, did_not)
        return cls(found)

    def written(self, notes: str, heading: str, *, limit_bytes: int) -> str:
        """`notes` with its section `## heading` replaced (or added) and everything else kept.

        Rows with the fewest counts are left out where the section would pass the limit.
        """
        rows = sorted(self.counts.items(), key=lambda item: (-sum(item[1]), item[0]))
        kept, size = [], len(heading) + len(_HEADER) + 5
        for (signature, remedy), (helped, did_not) in rows:
            line = f"| {_escaped(signature)} | {_escaped(remedy)} | {helped} | {did_not} |\n"
            size += len(line.encode())
            if size > limit_bytes:
                break
            kept.append(line)
        section = f"## {heading}\n\n{_HEADER}{''.join(sorted(kept))}"
        start, end = _span(notes, heading)
        before, after = notes[:start].rstrip(), notes[end:]
        return (f"{before}\n\n" if before else "") + section + (f"\n{after}" if after else "")

    def helped(self, signature: str, remedy: str, times: int = 1) -> Beliefs:
        """With so many more successes."""
        a, b = self.parameters(signature, remedy)
        return Beliefs({**self.counts, (signature, remedy): (a + times, b)})

    def did_not(self, signature: str, remedy: str, times: int = 1) -> Beliefs:
        """With so many more failures."""
        a, b = self.parameters(signature, remedy)
        return Beliefs({**self.counts, (signature, remedy): (a, b + times)})

    def parameters(self, signature: str, remedy: str) -> tuple[int, int]:
        """Both parameters of the Beta; (1, 1) where nothing is known."""
        return self.counts.get((signature, remedy), (1, 1))

    def mean(self, signature: str, remedy: str, *, prior: float = 0.0) -> float:
        """Expected chance of helping, with `prior` further successes."""
        a, b = self.parameters(signature, remedy)
        return (a + prior) / (a + prior + b)

    def draw(self, signature: str, remedy: str, rng: Random, *, prior: float = 0.0) -> float:
        """One draw of that chance (Thompson sampling)."""
        a, b = self.parameters(signature, remedy)
        return rng.betavariate(a + prior, b)

    def best(self, signature: str) -> str | None:
        """The remedy that is believed in: of those that helped at least once, the one with the highest mean. None
        where two share that place, and where none helped."""
        helped = [remedy for (sign, remedy), (a, _) in self.counts.items() if sign == signature and a > 1]
        means = {remedy: self.mean(signature, remedy) for remedy in helped}
        leading = [remedy for remedy, mean in means.items() if mean == max(means.values())]
        return leading[0] if len(leading) == 1 else None

    @property
    def signatures(self) -> tuple[str, ...]:
        """Those with a row, in order."""
        return tuple(sorted({signature for signature, _ in self.counts}))


def believed_classes(notes: str) -> dict[str, str]:
    """Signature to the class of edits that `notes.md` holds to be its remedy, where it holds one to be."""
    beliefs = Beliefs.read(notes, CLASS_TABLE)
    best = {signature: beliefs.best(signature) for signature in beliefs.signatures}
    return {signature: remedy for signature, remedy in best.items() if remedy is not None}


def wrong_beliefs(
    believed: Mapping[str, str], true_classes: Callable[[str], str | Collection[str] | None]
) -> tuple[int, int]:
    """(wrong, total) of these beliefs; `true_classes` says what really mends a signature (one class or several),
    and None for a signature that it does not know, which is not counted."""
    wrong = total = 0
    for signature, remedy in believed.items():
        truth = true_classes(signature)
        if truth is None:
            continue
        total += 1
        wrong += remedy not in ({truth} if isinstance(truth, str) else truth)
    return wrong, total


def _span(notes: str, heading: str) -> tuple[int, int]:
    """Where the section `## heading` begins and ends (at the next such heading); the end twice where there is none."""
    found = re.search(rf"^## {re.escape(heading)}[ \t]*$.*?(?=^## |\Z)", notes, re.MULTILINE | re.DOTALL)
    return found.span() if found else (len(notes), len(notes))


def _row(line: str) -> tuple[str, str, int, int] | None:
    cells = [_unescaped(cell) for cell in _cells(line)]
    if len(cells) != 4:
        return None
    signature, remedy, *counts = cells
    if not remedy or not all(_COUNT.fullmatch(count) for count in counts):
        return None
    return signature, remedy, int(counts[0]), int(counts[1])


def _cells(line: str) -> list[str]:
    """The cells of a table row, still escaped; empty for a line that is no row."""
    row = line.rstrip()
    if not _TABLE_ROW.fullmatch(row):
        return []
    return [cell.strip(" ") for cell in _CELL.findall(row[1:])]


def _escaped(text: str) -> str:
    """As a table cell, in which blanks at the ends are kept."""
    body = text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", "\\n")
    kept = body.strip(" ")
    if not kept:
        return "\\s" * len(body)
    start = len(body) - len(body.lstrip(" "))
    return "\\s" * start + kept + "\\s" * (len(body) - start - len(kept))


def _unescaped(cell: str) -> str:
    return re.sub(r"\\(.)", lambda found: _SIGNS.get(found[1], found[1]), cell)
