"""The seeds of an arm, summed up; seeds are the unit, and arms of one study are paired by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.studies.gso.arms import Arm
from heldout.studies.gso.measuring import Role
from heldout.studies.gso.runs import Result
from heldout.studies.seeds import Known, SeedRuns, over_seeds

__all__ = ["ArmRuns", "Baselines", "Gains", "Known", "Measure", "audit", "exact_audit", "gains_of", "known", "over"]

Measure = Callable[[Result], float]


def known(values: NDArray[np.float64], *, scale: float = 100.0, unit: float = 1.0, confidence: float = 0.95) -> Known:
    """Of one value a seed; NaN values are left out. `unit`: no value is larger, for those that are not fractions."""
    exact = np.round(np.asarray(values, dtype=np.float64) / unit, 12)  # a difference of equal means is 0, and no crumb
    return over_seeds(exact, scale=scale * unit, confidence=confidence)


@dataclass(frozen=True, slots=True)
class ArmRuns(SeedRuns[Arm, Result]):
    """The results of one arm, seed by seed."""

    def known(self, measure: Measure) -> Known:
        """Over seeds, in points."""
        return known(self.values(measure))

    @property
    def calls(self) -> float:
        """Mean of a run, up to its final selection; see `Cost.calls`."""
        return self.mean(lambda one: float(one.cost.calls))


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """Gains over no skill, one value a seed, as fractions of one."""

    train: NDArray[np.float64]
    audit: NDArray[np.float64]

    @property
    def retention(self) -> NDArray[np.float64]:
        """Audit gain minus train gain."""
        return self.audit - self.train


Baselines = Mapping[bool, ArmRuns]
"""No skill by whether a recovery is allowed: an arm's gains are counted from no skill under its own conditions."""


def gains_of(runs: ArmRuns, none: Baselines, *, exact: bool = False, first: int | None = None) -> Gains:
    """Measured, or exact; `first`: on so many audit tasks alone."""
    base = none[runs.arm.recovery]

    def gain(role: Role) -> NDArray[np.float64]:
        if exact:
            return runs.values(lambda one: one.exact.mean(role)) - base.values(lambda one: one.exact.mean(role))
        cut = first if role == "audit" else None
        return runs.values(lambda one: one.measured.mean(role, cut)) - base.values(
            lambda one: one.measured.mean(role, cut)
        )

    return Gains(gain("train"), gain("audit"))


def audit(one: Result) -> float:
    """Measured, all audit tasks."""
    return one.measured.mean("audit")


def exact_audit(one: Result) -> float:
    """The same tasks, exactly."""
    return one.exact.audit


def over(one: Known) -> str:
    """A number with its interval, in words."""
    return f"{_signed(one.value)} ({_signed(one.low)} to {_signed(one.high)})"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")
