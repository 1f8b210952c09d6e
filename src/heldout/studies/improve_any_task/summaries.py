"""The seeds of an arm, summed up; seeds are the unit, and arms of one start are paired by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.stats import wilson_interval
from heldout.studies.improve_any_task.arms import Arm
from heldout.studies.improve_any_task.plans import STARTS, Start
from heldout.studies.improve_any_task.runs import Result
from heldout.studies.seeds import Known, SeedRuns, over_seeds

__all__ = ["ArmRuns", "Arms", "Known", "Measure", "both_starts", "known", "over", "share"]

Measure = Callable[[Result], float]


def known(values: NDArray[np.float64], *, unit: float = 1.0, confidence: float = 0.95) -> Known:
    """Of one value a seed, fractions of one; NaN values are left out. `unit`: no value is larger."""
    exact = np.round(np.asarray(values, dtype=np.float64) / unit, 12)  # a difference of equal means is 0, and no crumb
    return over_seeds(exact, scale=100.0 * unit, confidence=confidence)


def share(count: int, total: int) -> Known:
    """A share in percent with its Wilson interval."""
    if total == 0:
        nothing = float("nan")
        return Known(nothing, nothing, nothing, nothing)
    low, high = (
        round(100.0 * end, 9) for end in wilson_interval(count, total)
    )  # 0 of many begins at 0, no crumb above
    return Known(100.0 * count / total, low, high, 0.0)


@dataclass(frozen=True, slots=True)
class ArmRuns(SeedRuns[Arm, Result]):
    """The results of one arm from one start, seed by seed."""

    def known(self, measure: Measure, *, unit: float = 1.0) -> Known:
        """Over seeds, in points."""
        return known(self.values(measure), unit=unit)


Arms = Mapping[Start, Mapping[str, ArmRuns]]
"""By start and name of the arm."""


def both_starts(arms: Arms, name: str, measure: Measure) -> NDArray[np.float64]:
    """One value a seed: the mean over the starts that every arm is run from."""
    columns: Sequence[NDArray[np.float64]] = [arms[start][name].values(measure) for start in STARTS if start in arms]
    found: NDArray[np.float64] = np.mean(columns, axis=0)
    return found


def over(one: Known) -> str:
    """A number with its interval, in words."""
    return f"{_signed(one.value)} ({_signed(one.low)} to {_signed(one.high)})"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")
