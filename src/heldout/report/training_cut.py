"""The round in which the budget ended a run: it has no attempt on record, and costs what its events did."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import replace

from heldout.records import Spend
from heldout.report.queries import finished, first_event, ledger_rows, payloads
from heldout.report.training_rounds import Cut, TrainingRound
from heldout.store.training_events import TrustedHash

__all__ = ["with_cut"]

_NO_ROUND = frozenset({"check", "final"})
"""Purposes that a search pays for in no round: the first request of each opening, and the final selection."""


def with_cut(
    connection: sqlite3.Connection, rounds: Sequence[TrainingRound], *, sealed: Collection[str]
) -> tuple[TrainingRound, ...]:
    """The rounds, the one that the budget ended among them with its cost. `sealed`: roles that are opened after the
    last decision, so that what they cost is none of it."""
    ended, number = finished(connection), _last(connection)
    if ended is None or ended.status != "stopped" or number is None:
        return tuple(rounds)
    known = {one.number: one for one in rounds}
    begun = known.get(number, TrainingRound(number))
    if begun.attempt is not None:
        return tuple(rounds)
    rows = ledger_rows(connection, since=first_event(connection, TrustedHash, round=number) or 0)
    spend = sum((row.spend for row in rows if row.purpose not in {*sealed, *_NO_ROUND}), start=Spend())
    known[number] = replace(begun, cut=Cut(ended.stop_reason, spend))
    return tuple(known[one] for one in sorted(known))


def _last(connection: sqlite3.Connection) -> int | None:
    """The last round that was begun."""
    begun = [one.round for one in payloads(connection, TrustedHash) if one.moment == "before"]
    return begun[-1] if begun else None
