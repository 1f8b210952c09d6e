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

__all__ = [
    "NOTHING",
    "SAME",
    "ArmRuns",
    "Arms",
    "Known",
    "Measure",
    "both_starts",
    "known",
    "named",
    "over",
    "share",
    "signed",
]

Measure = Callable[[Result], float]

NOTHING = Known(0.0, 0.0, 0.0, 0.0)
"""Of the same models in every run: 0 by identity, with nothing to estimate."""

SAME = "the same models"
"""What a row says of a 0 that is one by identity."""


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

    @property
    def unchanged(self) -> bool:
        """Whether the final is the start in every run."""
        return all(one.is_start for one in self.results)

    def change(self, measure: Measure) -> Known:
        """Of the final against the start, in points: 0 by identity where the two are one in every run."""
        return NOTHING if self.unchanged else self.known(measure)


Arms = Mapping[Start, Mapping[str, ArmRuns]]
"""By start and name of the arm."""


def both_starts(arms: Arms, name: str, measure: Measure) -> NDArray[np.float64]:
    """One value a seed: the mean over the starts that every arm is run from."""
    columns: Sequence[NDArray[np.float64]] = [arms[start][name].values(measure) for start in STARTS if start in arms]
    found: NDArray[np.float64] = np.mean(columns, axis=0)
    return found


def named(arms: Sequence[str]) -> str:
    """Names of arms, in words."""
    quoted = [f"`{name}`" for name in arms]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def over(one: Known) -> str:
    """A number with its interval, in words."""
    return f"{signed(one.value)} ({signed(one.low)} to {signed(one.high)})"


def signed(value: float) -> str:
    """Points, in words."""
    return f"{value:+.1f}".replace("-", "−")
