"""Durable steps: what the journal already holds is read back, never done twice."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from heldout.errors import StoreError
from heldout.harness.base import Preparation
from heldout.records import Outcome, OutcomeStatus, Record
from heldout.store import EventLog
from heldout.store.events import PAYLOADS, Event, Prepared

__all__ = ["Recorder"]

R = TypeVar("R", bound=Record)

_REPEATABLE = frozenset({"run.resumed", "run.finished", "audit.opened", "audit"})
"""Kinds that may come any number of times: they are kept in order and never deduplicated."""

_EVERYTHING = ""
_RESTS_ON: Mapping[str, str] = {
    "generation.started": "feedback",
    "noise.measured": _EVERYTHING,
    "noise.estimated": _EVERYTHING,
    "decision": _EVERYTHING,
    "round.started": _EVERYTHING,
    "ledger.signature": _EVERYTHING,
    "screen": _EVERYTHING,
    "flips": _EVERYTHING,
    "selected": _EVERYTHING,
    "prediction.scored": "train",
    "replay": "train",
    "attribution": "train",
    "probe": "probe",
    "smoke": "smoke",
    "skill.round": _EVERYTHING,
    "skill.table": _EVERYTHING,
    "retention": _EVERYTHING,
    "diagnosis": _EVERYTHING,
    "training.noise": _EVERYTHING,
    "attempt": _EVERYTHING,
    "abilities": _EVERYTHING,
    "audit": _EVERYTHING,
    "run.finished": _EVERYTHING,
}
"""Kinds that were computed from the outcomes before them, and of which purpose those are."""


@dataclass(slots=True)
class Recorder:
    """A journal with a memory of its own past.

    A loop is a deterministic program: run again over the same journal it asks for the same steps in
    the same order, and gets the recorded answers until the record ends.
    """

    journal: EventLog
    steps: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    trail: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    """Repeatable kinds, each in the order of the journal."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    prepared: dict[str, Preparation] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    """Keys of missing outcomes that something was decided from: they stay missing, or the decision would not hold."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def replay(cls, journal: EventLog, events: Iterable[Event]) -> Recorder:
        """A recorder that knows `events`. Missing outcomes, and proposals for which the model did not answer, are
        forgotten where nothing was decided from them yet: they are asked for again, since a person who resumes after
        an outage wants them."""
        recorder = cls(journal)
        with _without_collector():
            recorder._remember(events)
        return recorder

    def _remember(self, events: Iterable[Event]) -> None:
        unsettled: dict[str, str] = {}
        unanswered: list[tuple[str, str]] = []
        for event in events:
            if event.kind == "outcome":
                outcome = Outcome.model_validate(event.data)
                self.outcomes[outcome.key] = outcome
                if outcome.status is OutcomeStatus.NOT_MEASURED:
                    unsettled[outcome.key] = outcome.purpose
            elif event.kind == "prepared":
                entry = Prepared.model_validate(event.data)
                self.prepared[entry.key] = Preparation(values=entry.values, spend=entry.spend)
            elif event.kind in _REPEATABLE:
                self.trail.setdefault(event.kind, []).append(event.data)
            else:
                step = (event.kind, _step_key(event.kind, event.data))
                self.steps[step] = event.data
            used = _RESTS_ON.get(event.kind)
            if used is not None:
                unsettled = {key: purpose for key, purpose in unsettled.items() if used not in (_EVERYTHING, purpose)}
            if used == _EVERYTHING or event.kind == "smoke":  # which judged the repair that came before it
                unanswered.clear()
            if event.data.get("unanswered") or event.data.get("proposal", {}).get("unanswered"):
                unanswered.append((event.kind, _step_key(event.kind, event.data)))
        self.forget(unsettled)
        self._settle()
        for step in unanswered:
            self.steps.pop(step, None)

    def _settle(self) -> None:
        self.settled |= {key for key, outcome in list(self.outcomes.items()) if outcome.score is None}

    def forget(self, keys: Iterable[str]) -> None:
        """Have these outcomes measured again where they are missing; a score is never forgotten."""
        for key in keys:
            if key in self.outcomes and self.outcomes[key].score is None:
                del self.outcomes[key]

    def find(self, kind: str, key: str, record: type[R]) -> R | None:
        """The recorded step of this kind and key, or None."""
        data = self.steps.get((kind, key))
        return None if data is None else record.model_validate(data)

    def reopen(self, kind: str, key: str) -> None:
        """Let a step be recorded anew; of its two events the later one counts."""
        with self._lock:
            self.steps.pop((kind, key), None)

    def every(self, kind: str, record: type[R]) -> list[R]:
        """All recorded steps of a kind, in the order of the journal."""
        with self._lock:
            found = [data for (name, _), data in self.steps.items() if name == kind]
        return [record.model_validate(data) for data in found]

    def last(self, kind: str, record: type[R]) -> R | None:
        """The newest event of a repeatable kind, or None."""
        found = self.trail.get(kind)
        return record.model_validate(found[-1]) if found else None

    def add(self, kind: str, payload: Record) -> None:
        """Append an event of a repeatable kind."""
        self.journal.append(kind, payload)
        self.trail.setdefault(kind, []).append(json.loads(payload.model_dump_json()))

    def record(self, kind: str, payload: R) -> R:
        """Append the step, or check that it equals the recorded one and return that.

        Raises `StoreError` when a recomputed step differs from the journal: code or data changed under the run.
        """
        data = json.loads(payload.model_dump_json())
        key = _step_key(kind, data)
        with self._lock:
            old = self.steps.get((kind, key))
            if old is None:
                self.journal.append(kind, payload)
                self.steps[(kind, key)] = data
                if _RESTS_ON.get(kind) == _EVERYTHING:
                    self._settle()
                return payload
        recorded = type(payload).model_validate(old)
        if recorded != payload:
            raise StoreError(
                f"{kind} {key!r} was recorded as {recorded!r} and is now {payload!r}: the code or the tasks changed "
                "since this run began, so it cannot be continued; start a new run"
            )
        return recorded


@contextmanager
def _without_collector() -> Iterator[None]:
    """A hundred thousand new records that all stay are what the cycle collector is slowest at."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_KEYS: Mapping[str, tuple[str, ...]] = {
    "run.started": (),
    "split": (),
    "noise.measured": (),
    "candidate": ("digest",),
    "proposal": ("generation", "index"),
    "generation.started": ("generation",),
    "noise.estimated": ("generation",),
    "decision": ("generation",),
    "track.moved": ("track", "generation"),
    "role.scored": ("role", "candidate"),
    "round.started": ("round",),
    "submission": ("round", "episode", "attempt"),
    "probe": ("round", "episode", "ordinal"),
    "screen": ("round",),
    "smoke": ("round", "attempt"),
    "flips": ("round",),
    "prediction.scored": ("round",),
    "attribution": ("round", "task"),
    "ledger.signature": ("round", "signature"),
    "method.edited": ("round",),
    "card": ("round",),
    "replay": ("round", "key"),
    "selected": (),
    "meta_audit": (),
    "skill.round": ("round",),
    "fault.attributed": ("round", "index"),
    "skill.edit": ("round", "index"),
    "skill.table": ("round", "index"),
    "retention": ("role",),
    "judge": ("candidate", "judge"),
    "diagnosis": ("round",),
    "strategies": ("round",),
    "dataset": ("round", "attempt"),
    "preflight": ("round", "attempt", "stage"),
    "training": ("round", "attempt", "repeat"),
    "training.noise": ("round",),
    "trusted.hash": ("round", "moment"),
    "attempt": ("round",),
    "asset.added": ("round", "name"),
    "abilities": ("candidate",),
}
"""The fields that tell one step of a kind from another."""


def _step_key(kind: str, data: Mapping[str, Any]) -> str:
    defaults = PAYLOADS[kind].model_fields
    return "/".join(str(data.get(name, defaults[name].default)) for name in _KEYS[kind])
