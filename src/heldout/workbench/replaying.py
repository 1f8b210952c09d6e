"""What a resumed run already spent and how long it took, from its journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from heldout.config import RunConfig
from heldout.ledger import Ledger
from heldout.records import Evidence, Outcome, Spend
from heldout.store.agent_events import CommandsReplayed, MethodEdited, Submitted, TraceMinimised
from heldout.store.events import Event, Prepared, Proposed
from heldout.store.skill_events import FaultAttributed, Judged, ModuleEdited
from heldout.store.training_events import DatasetBuilt, Diagnosed, Preflighted, StrategiesWeighed, TrainingEnded

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
        elif event.kind in _SPENDS:
            purpose, spend = _SPENDS[event.kind](event)
            ledger.record(purpose, spend)
    return ledger


def _proposal(event: Event) -> tuple[str, Spend]:
    return "propose", Proposed.model_validate(event.data).spend


def _submission(event: Event) -> tuple[str, Spend]:
    submitted = Submitted.model_validate(event.data)
    return "repair" if submitted.attempt else "propose", submitted.proposal.spend


def _method(event: Event) -> tuple[str, Spend]:
    return "reflect", MethodEdited.model_validate(event.data).spend


def _probe(event: Event) -> tuple[str, Spend]:
    return "probe", Evidence.model_validate(event.data).spend


def _attribution(event: Event) -> tuple[str, Spend]:
    return "attribute", TraceMinimised.model_validate(event.data).spend


def _replay(event: Event) -> tuple[str, Spend]:
    return "attribute", CommandsReplayed.model_validate(event.data).spend


def _fault(event: Event) -> tuple[str, Spend]:
    return "attribute", FaultAttributed.model_validate(event.data).spend


def _edit(event: Event) -> tuple[str, Spend]:
    return "edit", ModuleEdited.model_validate(event.data).proposal.spend


def _judged(event: Event) -> tuple[str, Spend]:
    return "judge", Judged.model_validate(event.data).spend


def _diagnosis(event: Event) -> tuple[str, Spend]:
    return "diagnose", Diagnosed.model_validate(event.data).spend


def _strategies(event: Event) -> tuple[str, Spend]:
    return "research", StrategiesWeighed.model_validate(event.data).spend


def _dataset(event: Event) -> tuple[str, Spend]:
    return "build", DatasetBuilt.model_validate(event.data).spend


def _preflight(event: Event) -> tuple[str, Spend]:
    return "preflight", Preflighted.model_validate(event.data).spend


def _training(event: Event) -> tuple[str, Spend]:
    return "training", TrainingEnded.model_validate(event.data).spend


_SPENDS: Mapping[str, Callable[[Event], tuple[str, Spend]]] = {
    "proposal": _proposal,
    "submission": _submission,
    "method.edited": _method,
    "probe": _probe,
    "attribution": _attribution,
    "replay": _replay,
    "fault.attributed": _fault,
    "skill.edit": _edit,
    "judge": _judged,
    "diagnosis": _diagnosis,
    "strategies": _strategies,
    "dataset": _dataset,
    "preflight": _preflight,
    "training": _training,
}
"""Kinds, other than outcomes and preparations, that were paid for."""
