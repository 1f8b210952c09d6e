"""The rounds of a loop over model weights, each put together from its events."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from heldout.records import Spend
from heldout.report.queries import payloads
from heldout.store.events import Decided
from heldout.store.training_events import (
    AssetAdded,
    AttemptEnded,
    Cluster,
    DatasetBuilt,
    Diagnosed,
    Preflighted,
    StrategiesWeighed,
    TrainingEnded,
    TrainingNoise,
    WeighedStrategy,
)

__all__ = ["CUT", "STATES", "Cut", "TrainingRound", "dominant_errors", "training_rounds"]

_InRound = TypeVar("_InRound", DatasetBuilt, Preflighted, TrainingEnded, AssetAdded)

STATES: Mapping[str, str] = {
    "accepted": "accepted",
    "rejected": "rejected",
    "undecided": "undecided",
    "preflight_failed": "failed preflight",
    "contaminated": "contaminated data",
    "no_data": "no data",
    "training_failed": "training died",
    "not_measured": "not measured",
    "no_strategy": "no strategy left",
    "repeated": "tried before",
}
"""How an attempt ended (`AttemptEnded.status`), in words."""


CUT = "cut by the budget"
"""The state of a round in which the budget ended the run."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How the budget ended a round."""

    reason: str
    spend: Spend
    """Of everything that is on record of it."""


@dataclass(frozen=True, slots=True)
class TrainingRound:
    """One round; what did not happen in it is None or empty."""

    number: int
    diagnosed: Diagnosed | None = None
    weighed: StrategiesWeighed | None = None
    datasets: tuple[DatasetBuilt, ...] = ()
    """The first, then one for each repair, and one where the builder gave up or did not answer."""
    ladder: tuple[Preflighted, ...] = ()
    """Stages a and b of each of them, in the order in which they were run."""
    trainings: tuple[TrainingEnded, ...] = ()
    """Full runs: the child's, then the same recipe with another seed."""
    noise: TrainingNoise | None = None
    decided: Decided | None = None
    attempt: AttemptEnded | None = None
    """None while the round goes on, or where the budget ended in it."""
    assets: tuple[AssetAdded, ...] = ()
    cut: Cut | None = None
    """Where the budget ended in it."""

    @property
    def state(self) -> str:
        """One of `STATES`' words, `CUT` or `open`."""
        if self.attempt is None:
            return "open" if self.cut is None else CUT
        return STATES[self.attempt.status]

    @property
    def status(self) -> str:
        """One of `STATES`' keys, `cut` or `open`."""
        if self.attempt is None:
            return "open" if self.cut is None else "cut"
        return self.attempt.status

    @property
    def reason(self) -> str:
        if self.attempt is None:
            return "the run ended before the round did" if self.cut is None else self.cut.reason
        return self.attempt.reason

    @property
    def focal(self) -> str:
        """Code of the focal problem; empty where there is none."""
        return (self.diagnosed.focal or "") if self.diagnosed else ""

    @property
    def focal_cluster(self) -> Cluster | None:
        clusters = self.diagnosed.clusters if self.diagnosed else ()
        return next((one for one in clusters if one.code == self.focal), None)

    @property
    def dominant(self) -> Cluster | None:
        """The cluster with the most failures, which need not be the focal one."""
        clusters = self.diagnosed.clusters if self.diagnosed else ()
        return min(clusters, key=lambda one: (-one.count, one.code), default=None)

    @property
    def strategy(self) -> str:
        """Id of the chosen strategy; empty where none was chosen."""
        return (self.weighed.chosen or "") if self.weighed else ""

    @property
    def chosen(self) -> WeighedStrategy | None:
        table = self.weighed.table if self.weighed else ()
        return next((one for one in table if one.id == self.strategy), None)

    @property
    def gain(self) -> float | None:
        """Child minus parent, paired; None where no child was measured."""
        return None if self.decided is None else self.decided.decision.effect

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.decided is None else self.decided.decision.interval

    @property
    def spend(self) -> Spend | None:
        """What the attempt cost in all; None before its end."""
        if self.attempt is None:
            return None if self.cut is None else self.cut.spend
        return self.attempt.spend

    @property
    def repairs(self) -> int:
        """Times that data or config were mended after a failed check; a builder that left no recipe mended nothing."""
        return max((one.attempt for one in self.datasets if one.recipe), default=0)

    @property
    def passed_preflight(self) -> bool | None:
        """Of the last data set; None where no stage was run."""
        last = [one for one in self.ladder if one.attempt == self.ladder[-1].attempt]
        return all(one.passed for one in last) if last else None

    @property
    def training(self) -> TrainingEnded | None:
        """The child's own."""
        return next((one for one in self.trainings if one.repeat == 0), None)

    def dataset_of(self, attempt: int) -> DatasetBuilt | None:
        return next((one for one in self.datasets if one.attempt == attempt), None)


def training_rounds(connection: sqlite3.Connection) -> tuple[TrainingRound, ...]:
    """Every round in order. Of a step that a resumed run did again, the later event counts."""
    diagnosed = {one.round: one for one in payloads(connection, Diagnosed)}
    weighed = {one.round: one for one in payloads(connection, StrategiesWeighed)}
    attempts = {one.round: one for one in payloads(connection, AttemptEnded)}
    noises = {one.round: one for one in payloads(connection, TrainingNoise)}
    decided = {one.generation: one for one in payloads(connection, Decided)}
    datasets = _by_round(payloads(connection, DatasetBuilt), lambda one: one.attempt)
    ladder = _by_round(payloads(connection, Preflighted), lambda one: (one.attempt, one.stage))
    trainings = _by_round(payloads(connection, TrainingEnded), lambda one: (one.repeat, one.attempt))
    assets = _by_round(payloads(connection, AssetAdded), lambda one: one.name)
    return tuple(
        TrainingRound(
            number=number,
            diagnosed=diagnosed.get(number),
            weighed=weighed.get(number),
            datasets=datasets.get(number, ()),
            ladder=ladder.get(number, ()),
            trainings=trainings.get(number, ()),
            noise=noises.get(number),
            decided=decided.get(number),
            attempt=attempts.get(number),
            assets=assets.get(number, ()),
        )
        for number in sorted({*diagnosed, *attempts})
    )


def dominant_errors(rounds: Sequence[TrainingRound]) -> tuple[str, ...]:
    """The most frequent first fault of each diagnosed model, one after the other; what stays the same stands once."""
    found: list[str] = []
    for one in rounds:
        code = None if one.dominant is None else one.dominant.code
        if code is not None and found[-1:] != [code]:
            found.append(code)
    return tuple(found)


def _by_round(records: Iterable[_InRound], key: Callable[[_InRound], Any]) -> dict[int, tuple[_InRound, ...]]:
    """By round, ordered by the key; the last of each key."""
    found: defaultdict[int, dict[Any, _InRound]] = defaultdict(dict)
    for one in records:
        found[one.round][key(one)] = one
    return {number: tuple(steps[name] for name in sorted(steps)) for number, steps in found.items()}
