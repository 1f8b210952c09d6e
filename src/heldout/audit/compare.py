"""Audit what somebody else's optimizer claims: two files of per-task outcomes, paired."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heldout.audit.verdict import in_points
from heldout.records import Comparison, Record
from heldout.stats import mcnemar_exact, paired_counts, paired_difference, paired_t_test, repeat_flip_rate

__all__ = ["CompareResult", "compare_outcomes"]


class CompareResult(Record):
    """B minus A, paired over tasks. Rates and differences are fractions of one."""

    n_tasks: int
    """Tasks with a score on both sides."""
    a_mean: float | None
    b_mean: float | None
    mean_difference: float | None
    standard_error: float | None
    """Over tasks; repeats of a task are averaged first."""
    interval: tuple[float, float] | None
    confidence: float
    fixed: float
    """Tasks whose mean score rose."""
    broken: float
    both: float
    neither: float
    missing: int
    """Tasks without a score on one side or both."""
    p_value: float | None
    flip_rate_a: float | None
    """Share of tasks on which two repeats of A disagree; None with one repeat."""
    flip_rate_b: float | None
    test: str
    """`mcnemar_exact` for one pass-or-fail score a task, else `paired_t`."""
    sentence: str


def compare_outcomes(table: Comparison, *, confidence: float = 0.95) -> CompareResult:
    """Compare two outcome tables; a task missing on either side is counted, never scored as zero."""
    counts = paired_counts(table.a, table.b)
    difference = paired_difference(table.a, table.b, confidence=confidence)
    single = table.a.shape[1] == table.b.shape[1] == 1 and _binary(table.a) and _binary(table.b)
    p_value = None
    if counts.n >= 2:
        p_value = mcnemar_exact(int(counts.fixed), int(counts.broken)) if single else paired_t_test(table.a, table.b)
    return CompareResult(
        n_tasks=counts.n,
        a_mean=difference.a_mean,
        b_mean=difference.b_mean,
        mean_difference=difference.mean,
        standard_error=difference.standard_error,
        interval=difference.interval,
        confidence=confidence,
        fixed=counts.fixed,
        broken=counts.broken,
        both=counts.both,
        neither=counts.neither,
        missing=counts.missing,
        p_value=p_value,
        flip_rate_a=repeat_flip_rate(table.a),
        flip_rate_b=repeat_flip_rate(table.b),
        test="mcnemar_exact" if single else "paired_t",
        sentence=_sentence(difference.mean, difference.interval, counts.n),
    )


def _binary(scores: NDArray[np.float64]) -> bool:
    return bool(np.isin(scores[~np.isnan(scores)], (0.0, 1.0)).all())


def _sentence(gain: float | None, interval: tuple[float, float] | None, n: int) -> str:
    if gain is None or interval is None:
        return f"{n} tasks have a score on both sides: too few to say anything."
    low, high = interval
    figures = f"{in_points(gain)} points on {n} tasks, interval {in_points(low)} to {in_points(high)}"
    if low > 0:
        return f"B is better than A: {figures}; the interval excludes zero."
    if high < 0:
        return f"B is worse than A: {figures}; the interval excludes zero."
    return f"No difference is shown: {figures}; the interval includes zero."
