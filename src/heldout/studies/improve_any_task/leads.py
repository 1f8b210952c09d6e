"""Full against other arms, paired over seeds and averaged over the starts, with Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heldout.stats import holm_adjusted, holm_divisors, paired_t_test
from heldout.studies.gso.claims import Lead
from heldout.studies.improve_any_task.arms import FULL
from heldout.studies.improve_any_task.plans import STARTS
from heldout.studies.improve_any_task.runs import Result
from heldout.studies.improve_any_task.summaries import Arms, Known, Measure, both_starts, known, over

__all__ = ["audit", "by_start", "difference", "exact_audit", "lead_of", "seeds_of"]

_ALPHA = 0.05


def audit(one: Result) -> float:
    """Of the final, measured."""
    return one.final.worth.audit


def exact_audit(one: Result) -> float:
    """Of the final, exactly; NaN for real models."""
    exact = one.final.worth.exact
    return float("nan") if exact is None else exact


def lead_of(arms: Arms, others: Sequence[str], measure: Measure = audit) -> Lead:
    """Full minus each of the others; those that differ in no seed, or have fewer than two, are not compared."""
    own = both_starts(arms, FULL, measure)
    values = {other: both_starts(arms, other, measure) for other in others}
    tests = {other: paired_t_test(given, own) for other, given in values.items()}
    p_values = {other: p for other, p in tests.items() if p is not None}
    divisors = dict(zip(p_values, holm_divisors(list(p_values.values()), alpha=_ALPHA), strict=True))
    return Lead(
        {other: known(own - values[other], confidence=1.0 - _ALPHA / divisors[other]) for other in p_values},
        dict(zip(p_values, holm_adjusted(list(p_values.values())), strict=True)),
    )


def difference(arms: Arms, one: str, other: str, measure: Measure = audit, *, unit: float = 1.0) -> Known:
    """One arm minus another, with its plain interval."""
    return known(both_starts(arms, one, measure) - both_starts(arms, other, measure), unit=unit)


def by_start(arms: Arms, one: str, other: str, measure: Measure = audit, *, unit: float = 1.0) -> str:
    """The same from each start, in words."""

    def from_start(values: NDArray[np.float64]) -> str:
        return over(known(values, unit=unit))

    return ", ".join(
        f"{start} {from_start(arms[start][one].values(measure) - arms[start][other].values(measure))}"
        for start in STARTS
        if start in arms
    )


def seeds_of(arms: Arms) -> str:
    """For what a number rests on."""
    starts = [start for start in STARTS if start in arms]
    return f"paired over {len(arms[starts[0]][FULL].results)} seeds, mean of the starts {' and '.join(starts)}"
