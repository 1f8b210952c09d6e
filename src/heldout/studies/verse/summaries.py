"""The seeds of an arm, summed up; seeds are the unit, and arms of one study are paired by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from heldout.studies.seeds import Known, SeedRuns
from heldout.studies.seeds import over_seeds as known
from heldout.studies.verse.arms import Arm
from heldout.studies.verse.runs import Result
from heldout.studies.verse.truths import Verdicts

__all__ = ["INTERACTION", "ArmRuns", "Known", "Measure", "contrast", "known", "true_gain", "wrong_change"]

Measure = Callable[[Result], float]

_NOTHING = float("nan")


@dataclass(frozen=True, slots=True)
class ArmRuns(SeedRuns[Arm, Result]):
    """The results of one arm, seed by seed."""

    def known(self, measure: Measure) -> Known:
        """Over seeds, in points."""
        return known(self.values(measure))

    @property
    def executions(self) -> float:
        """Mean of a run, up to its final selection."""
        return self.mean(lambda one: float(one.executions))

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
