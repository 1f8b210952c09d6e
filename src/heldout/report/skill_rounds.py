"""The rounds of a loop over skills, each put together from its events."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic_core import from_json

from heldout.records import Spend, Verdict
from heldout.report.queries import payloads
from heldout.report.skill_use import spend_by_round
from heldout.store.events import Decided
from heldout.store.skill_events import FaultAttributed, ModuleEdited, SelectTable, SkillRoundStarted

__all__ = ["SkillEdit", "SkillRound", "skill_rounds"]

_InRound = TypeVar("_InRound", FaultAttributed, ModuleEdited, SelectTable)

_CELLS: Mapping[str, tuple[str, ...]] = {
    "repaired": ("repair", "better"),
    "broken": ("regression", "worse"),
    "missing": ("missing",),
}
_WEIGHED: Mapping[Verdict, str] = {
    Verdict.ACCEPT: "accepted",
    Verdict.REJECT: "rejected",
    Verdict.UNDECIDED: "undecided",
    Verdict.CONFIRM: "to be confirmed",
}
_BEST_FIRST = (*_WEIGHED.values(), "outscored", "refused", "no answer", "open")


@dataclass(frozen=True, slots=True)
class SkillEdit:
    """One edit of a round, with its paired select table where it was run."""

    edited: ModuleEdited | None
    """None where only its table is on record."""
    table: SelectTable | None
    fate: str
    """`accepted`, `rejected`, `undecided`, `to be confirmed`; `outscored` by another of the round; `refused` before it
    was run; `no answer` of the editor; or `open`."""

    @property
    def repaired(self) -> tuple[str, ...]:
        """Select ids that the parent fails and the candidate passes; of graded scores, those that rose."""
        return self._with("repaired")

    @property
    def broken(self) -> tuple[str, ...]:
        return self._with("broken")

    @property
    def missing(self) -> tuple[str, ...]:
        """Measured on one side at most: neither repaired nor broken."""
        return self._with("missing")

    @property
    def paths(self) -> tuple[str, ...]:
        """Files that it changes."""
        return () if self.edited is None else self.edited.edited

    @property
    def why_not_run(self) -> str:
        """Empty where it was run."""
        if self.edited is None or self.table is not None:
            return ""
        error = self.edited.proposal.error or ""
        return self.edited.fault or error or ("the editor returned no edit" if self.edited.digest is None else "")

    def _with(self, name: str) -> tuple[str, ...]:
        cells = {} if self.table is None else self.table.cells
        return tuple(task for task, cell in cells.items() if cell in _CELLS[name])


@dataclass(frozen=True, slots=True)
class SkillRound:
    """One round; what did not happen in it is None or empty."""

    number: int
    started: SkillRoundStarted | None
    """None for a first draft, and where a loop draws no batches."""
    faults: tuple[FaultAttributed, ...]
    edits: tuple[SkillEdit, ...]
    decided: Decided | None
    head_after: str | None
    """Digest of the track's head once the round was decided; None before the first move, and before a decision."""
    spend: Spend
    """Of its episodes, its attributions and its edits."""
    over: bool
    """Whether the run went on to something else."""

    @property
    def state(self) -> str:
        """A fate of its best edit; without one `no failure`, `nothing to learn`, `no attribution`, `no edit`."""
        if self.edits:
            return min((one.fate for one in self.edits), key=_BEST_FIRST.index)
        if not self.over:
            return "open"
        if self.faults:
            return "no attribution" if all(one.error for one in self.faults) else _without_edit(self.faults)
        return "no edit" if self.started is None or self.started.failed else "no failure"

    @property
    def tables(self) -> tuple[SelectTable, ...]:
        """Paired select tables, by edit."""
        return tuple(one.table for one in self.edits if one.table is not None)


def skill_rounds(connection: sqlite3.Connection, *, ended: bool) -> tuple[SkillRound, ...]:
    """Every round in order; `ended` says that the last one is over too."""
    started = {one.round: one for one in payloads(connection, SkillRoundStarted)}
    faults = _by_round(payloads(connection, FaultAttributed))
    edits = _by_round(payloads(connection, ModuleEdited))
    tables = _by_round(payloads(connection, SelectTable))
    decided = {one.generation: one for one in payloads(connection, Decided)}
    costs, heads = spend_by_round(connection), _heads(connection)
    numbers = sorted({*started, *faults, *edits, *tables, *decided})
    rounds = []
    for number in numbers:
        blamed, made = faults.get(number, []), edits.get(number, [])
        asked = sum((*(one.spend for one in blamed), *(one.proposal.spend for one in made)), start=Spend())
        rounds.append(
            SkillRound(
                number=number,
                started=started.get(number),
                faults=tuple(sorted(blamed, key=lambda one: one.index)),
                edits=_edits(made, tables.get(number, []), decided.get(number)),
                decided=decided.get(number),
                head_after=heads.get(number),
                spend=costs.get(number, Spend()) + asked,
                over=ended or number in decided or number < numbers[-1],
            )
        )
    return tuple(rounds)


def _heads(connection: sqlite3.Connection) -> dict[int, str]:
    """The head after each decision. An accepted candidate need not be it: a frontier accepts what does not lead it, and
    best-of-N moves after the last decision."""
    head, number, found = "", 0, {}
    query = "SELECT kind, data FROM events WHERE kind IN ('decision', 'track.moved') ORDER BY seq"
    for kind, data in connection.execute(query):
        step = from_json(data)
        if kind == "decision":
            number = step["generation"]
        else:
            head = step["target"]
        if head:
            found[number] = head
    return found


def _by_round(records: Iterable[_InRound]) -> dict[int, list[_InRound]]:
    found: defaultdict[int, list[_InRound]] = defaultdict(list)
    for one in records:
        found[one.round].append(one)
    return dict(found)


def _edits(
    edits: Sequence[ModuleEdited], tables: Sequence[SelectTable], decided: Decided | None
) -> tuple[SkillEdit, ...]:
    """Each edit with the table of the candidate that it made, then tables of which no edit is on record."""
    by_candidate = {one.candidate: one for one in sorted(tables, key=lambda one: one.index)}
    found = [
        SkillEdit(one, by_candidate.pop(one.digest or "", None), _fate(one, one.digest, decided))
        for one in sorted(edits, key=lambda one: one.index)
    ]
    return (*found, *(SkillEdit(None, one, _fate(None, digest, decided)) for digest, one in by_candidate.items()))


def _fate(edited: ModuleEdited | None, digest: str | None, decided: Decided | None) -> str:
    if edited is not None and edited.unanswered:
        return "no answer"
    if edited is not None and (edited.fault or digest is None):
        return "refused"
    if decided is None or digest not in decided.candidates:
        return "open"
    verdict = decided.decision.verdict
    chosen = decided.winner == digest or verdict is Verdict.UNDECIDED
    return _WEIGHED[verdict] if chosen else "outscored"


def _without_edit(faults: Sequence[FaultAttributed]) -> str:
    return "no edit" if any(one.stage and not one.error for one in faults) else "nothing to learn"
