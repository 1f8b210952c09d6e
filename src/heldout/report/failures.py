"""Failures over rounds: the ledger of signatures with their minimal commands, and predictions that were scored."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from heldout.probes.base import SignatureEntry
from heldout.probes.ledger import FailureLedger
from heldout.report.queries import payloads
from heldout.report.rounds import AgentHistory
from heldout.store.agent_events import RoundStarted, SignatureSeen, TraceMinimised

__all__ = ["FailureRow", "Failures", "PredictionRow", "failures", "predictions"]

OUTCOMES = ("flipped", "still_T", "still_F", "regressed", "absent")
"""What may become of a predicted fix; `still_T` and `still_F` passed, or failed, before and after."""


@dataclass(frozen=True, slots=True)
class FailureRow:
    """One signature."""

    entry: SignatureEntry
    hits: tuple[int, ...]
    """Train tasks that failed with it, by sweep."""
    minimised: tuple[TraceMinimised, ...]
    """Its failing traces that were minimised."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The failure ledger, and what was minimised beside it."""

    sweeps: tuple[int, ...]
    """Rounds whose train sweep is in the ledger."""
    rows: tuple[FailureRow, ...]
    successes: tuple[TraceMinimised, ...]
    """Passing traces: the smallest commands that still pass."""


@dataclass(frozen=True, slots=True)
class PredictionRow:
    """What became of the fixes that a kept edit predicted."""

    round: int
    predicted: int
    counts: Mapping[str, int]
    """Outcome to tasks, every outcome named."""


def failures(connection: sqlite3.Connection) -> Failures:
    """Replay the ledger; the start's own sweep belongs to round 1, in which it was read."""
    started = [one for one in payloads(connection, RoundStarted) if one.round > 0]
    ledger = FailureLedger.replay(
        payloads(connection, SignatureSeen), sweeps=(one.round for one in started if one.swept or one.round == 1)
    )
    minimised = payloads(connection, TraceMinimised)
    rows = tuple(
        FailureRow(
            entry,
            tuple(len(entry.hits.get(number, ())) for number in ledger.sweeps),
            tuple(one for one in minimised if not one.passed and one.signature == entry.signature),
        )
        for entry in ledger.entries()
    )
    return Failures(tuple(ledger.sweeps), rows, tuple(one for one in minimised if one.passed))


def predictions(agents: AgentHistory) -> tuple[PredictionRow, ...]:
    """One row for each kept edit whose predictions were scored in the next train sweep."""
    rows = []
    for one in agents.rounds:
        if one.predictions is not None:
            counts = Counter(one.predictions.values())
            rows.append(PredictionRow(one.number, len(one.predictions), {name: counts[name] for name in OUTCOMES}))
    return tuple(rows)
