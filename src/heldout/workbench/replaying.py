"""What a resumed run already spent and how long it took, from its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from heldout.config import RunConfig
from heldout.ledger import Ledger
from heldout.records import Outcome
from heldout.store.events import Event, Prepared, Proposed

__all__ = ["elapsed_s", "replay_ledger"]


def elapsed_s(events: Iterable[Event]) -> float:
    """Seconds of all parts of a run; the pauses between a part's last event and the next part count for nothing."""
    total, begun, last = 0.0, 0.0, 0.0
    for event in events:
        if event.kind in ("run.started", "run.resumed"):
            total += max(0.0, last - begun)
            begun = event.at
        last = event.at
    return total + max(0.0, last - begun)


def replay_ledger(config: RunConfig, events: Iterable[Event], *, elapsed_s: Callable[[], float]) -> Ledger:
    """A ledger that holds everything that the journal says was paid for."""
    ledger = Ledger(config.budget, elapsed_s)
    for event in events:
        if event.kind == "outcome":
            outcome = Outcome.model_validate(event.data)
            ledger.record(outcome.purpose, outcome.spend)
        elif event.kind == "prepared":
            entry = Prepared.model_validate(event.data)
            ledger.record(entry.purpose, entry.spend)
        elif event.kind == "proposal":
            ledger.record("propose", Proposed.model_validate(event.data).spend)
    return ledger
