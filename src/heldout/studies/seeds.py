"""What the seeds of an arm say: a mean over seeds with its t interval, and the results of one arm seed by seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heldout.records import digest_of
from heldout.stats import mean_interval
from heldout.studies.tables import Estimate

__all__ = ["Known", "SeedRuns", "over_seeds"]

_NOTHING = float("nan")


class _OfASeed(Protocol):
    @property
    def config_digest(self) -> str: ...


ArmT = TypeVar("ArmT")
ResultT = TypeVar("ResultT", bound=_OfASeed)


@dataclass(frozen=True, slots=True)
class Known:
    """A mean over seeds with its t interval; in points unless it says otherwise. NaN with fewer than two seeds."""

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


def over_seeds(values: NDArray[np.float64], *, scale: float = 100.0, confidence: float = 0.95) -> Known:
    """Of one value a seed, fractions of one; NaN values are left out."""
    found = mean_interval(values, confidence=confidence)
    if found.mean is None or found.interval is None or found.standard_error is None:
        return Known(_NOTHING, _NOTHING, _NOTHING, _NOTHING)
    low, high = found.interval
    return Known(scale * found.mean, scale * low, scale * high, scale * found.standard_error)


@dataclass(frozen=True, slots=True)
class SeedRuns(Generic[ArmT, ResultT]):
    """The results of one arm, seed by seed."""

    name: str
    arm: ArmT
    results: tuple[ResultT, ...]

    def values(self, measure: Callable[[ResultT], float]) -> NDArray[np.float64]:
        """One value a seed."""
        return np.array([measure(one) for one in self.results], dtype=np.float64)

    def mean(self, measure: Callable[[ResultT], float]) -> float:
        """Over seeds."""
        return float(self.values(measure).mean())

    @property
    def config_digest(self) -> str:
        """Identity of the configs of all seeds."""
        return digest_of([one.config_digest for one in self.results])
