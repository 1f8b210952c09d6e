"""The seeds of an arm, summed up; seeds are the unit, and arms of one study are paired by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from heldout.records import digest_of
from heldout.stats import mean_interval
from heldout.studies.tables import Estimate
from heldout.studies.verse.arms import Arm
from heldout.studies.verse.runs import Result
from heldout.studies.verse.truths import Verdicts

__all__ = ["INTERACTION", "ArmRuns", "Known", "Measure", "contrast", "known", "true_gain", "wrong_change"]

Measure = Callable[[Result], float]

_NOTHING = float("nan")


@dataclass(frozen=True, slots=True)
class Known:
    """A mean over seeds in points, with its 95 % t interval; NaN where fewer than two seeds say anything."""

    value: float
    low: float
    high: float
    standard_error: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def estimate(self) -> Estimate | None:
        """For a table; None where nothing is known."""
        return None if np.isnan(self.value) else Estimate(value=self.value, standard_error=self.standard_error)


def known(values: NDArray[np.float64], *, scale: float = 100.0, confidence: float = 0.95) -> Known:
    """Of one value a seed, fractions of one; NaN values are left out."""
    found = mean_interval(values, confidence=confidence)
    if found.mean is None or found.interval is None or found.standard_error is None:
        return Known(_NOTHING, _NOTHING, _NOTHING, _NOTHING)
    low, high = found.interval
    return Known(scale * found.mean, scale * low, scale * high, scale * found.standard_error)


@dataclass(frozen=True, slots=True)
class ArmRuns:
    """The results of one arm, seed by seed."""

    name: str
    arm: Arm
    results: tuple[Result, ...]

    def values(self, measure: Measure) -> NDArray[np.float64]:
        """One value a seed."""
        return np.array([measure(one) for one in self.results], dtype=np.float64)

    def mean(self, measure: Measure) -> float:
        """Over seeds."""
        return float(self.values(measure).mean())

    def known(self, measure: Measure) -> Known:
        """Over seeds, in points."""
        return known(self.values(measure))

    @property
    def executions(self) -> float:
        """Mean of a run, up to its final selection."""
        return self.mean(lambda one: float(one.executions))

    @property
    def config_digest(self) -> str:
        """Identity of the configs of all seeds."""
        return digest_of([one.config_digest for one in self.results])

    @property
    def verdicts(self) -> Verdicts:
        """Of all seeds together."""
        return reduce(lambda total, one: total + one.verdicts, self.results, Verdicts())


def true_gain(one: Result) -> float:
    """Exact gain of the final on the audit tasks."""
    return one.true


def wrong_change(one: Result) -> float:
    """Change of the share of wrong beliefs, end minus beginning; NaN where the start failed on nothing."""
    return (one.wrong_after - one.wrong_before) / one.beliefs if one.beliefs else _NOTHING


INTERACTION: Mapping[str, float] = {
    "full, self-edit": 1.0,
    "full": -1.0,
    "none, self-edit": -1.0,
    "none": 1.0,
}
"""What self-edit adds with full verification, minus what it adds without any."""


def contrast(
    arms: Mapping[str, ArmRuns], weights: Mapping[str, float], measure: Measure = true_gain
) -> NDArray[np.float64]:
    """The weighted sum of arms, seed by seed."""
    summed: NDArray[np.float64] = np.sum(
        [weight * arms[name].values(measure) for name, weight in weights.items()], axis=0
    )
    return summed
