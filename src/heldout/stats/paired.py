"""Two candidates on the same tasks: counts, the mean difference with its interval, McNemar's exact test.

Everywhere NaN is *not measured*: it is left out and counted, never a zero. Tasks are the units;
repeats of a task are averaged first, so that they never pass for independent evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heldout.stats.distributions import t_quantile, t_tail

__all__ = [
    "EQUAL_WITHIN",
    "MeanInterval",
    "PairedCounts",
    "PairedDifference",
    "mcnemar_exact",
    "mean_interval",
    "mean_measured",
    "paired_counts",
    "paired_difference",
    "paired_t_test",
    "task_differences",
]

EQUAL_WITHIN = 1e-12
"""Means of scores that differ by less are equal: repeats can be summed in another order."""

Method = Literal["t", "no spread", "none"]
"""How an interval was made; see `mean_interval`."""


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """How tasks moved from `a` to `b`; `fixed + broken + both + neither == n`."""

    n: int
    """Tasks with at least one measured repeat on both sides."""
    fixed: int
    """The mean rose."""
    broken: int
    """The mean fell."""
    both: int
    """Equal, at 0.5 or above: right under both."""
    neither: int
    """Equal, below 0.5."""
    missing: int
    """Tasks that are not in `n`."""


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over tasks with its uncertainty; `None` where it cannot be said."""

    n: int
    mean: float | None
    standard_error: float | None
    interval: tuple[float, float] | None
    method: Method


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of `b − a` over tasks, in the unit of the scores."""

    n: int
    """Tasks measured on both sides."""
    missing: int
    a_mean: float | None
    """Over the same `n` tasks as `b_mean`."""
    b_mean: float | None
    mean: float | None
    standard_error: float | None
    interval: tuple[float, float] | None
    confidence: float
    method: Method
    """`no spread` says that the standard error of 0 is no certainty and that the interval is a bound."""


def mean_measured(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the last axis of what was measured; NaN where nothing was."""
    if values.shape[-1] == 1:
        single: NDArray[np.float64] = values[..., 0]
        return single
    measured = ~np.isnan(values)
    counts = measured.sum(axis=-1)
    sums = np.where(measured, values, 0.0).sum(axis=-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def task_differences(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """`b − a` for each task, of means over measured repeats; NaN where either side has none."""
    a_means, b_means = _task_means(a, b)
    return b_means - a_means


def paired_counts(a: NDArray[np.float64], b: NDArray[np.float64]) -> PairedCounts:
    """Count what `b` fixed and broke against `a`; shapes (tasks,) or (tasks, repeats)."""
    a_means, b_means = _task_means(a, b)
    difference = b_means - a_means
    fixed = int((difference > EQUAL_WITHIN).sum())
    broken = int((difference < -EQUAL_WITHIN).sum())
    equal = np.abs(difference) <= EQUAL_WITHIN
    both = int((equal & (b_means >= 0.5 - EQUAL_WITHIN)).sum())
    neither = int(equal.sum()) - both
    n = fixed + broken + both + neither
    return PairedCounts(n=n, fixed=fixed, broken=broken, both=both, neither=neither, missing=len(difference) - n)


def paired_difference(a: NDArray[np.float64], b: NDArray[np.float64], *, confidence: float = 0.95) -> PairedDifference:
    """Mean of `b − a` over tasks with a t interval; shapes (tasks,) or (tasks, repeats), scores in [0, 1].

    Each task gives one difference of its repeat means, so tasks are the clusters (Miller 2024,
    arXiv 2411.00640, section 4.2): SE² = Var_j(d_j) / n. See `mean_interval` for n < 2 and for no spread.
    """
    a_means, b_means = _task_means(a, b)
    difference = b_means - a_means
    measured = ~np.isnan(difference)
    summary = mean_interval(difference, confidence=confidence)
    return PairedDifference(
        n=summary.n,
        missing=len(difference) - summary.n,
        a_mean=float(a_means[measured].mean()) if summary.n else None,
        b_mean=float(b_means[measured].mean()) if summary.n else None,
        mean=summary.mean,
        standard_error=summary.standard_error,
        interval=summary.interval,
        confidence=confidence,
        method=summary.method,
    )


def mean_interval(differences: NDArray[np.float64], *, confidence: float = 0.95) -> MeanInterval:
    """Mean of measured differences in [−1, 1] and its interval.

    * `t`: mean ± t_{n−1} SE, with SE² = Var(d) / n; cut to [−1, 1], where every mean lies.
    * `no spread`: all n differences equal c. The t interval would have no width, although another value
      may be common enough to matter: n draws miss a value of share u with probability (1 − u)^n, so
      u ≤ 1 − (1 − confidence)^(1/n) (the "rule of three", 3/n at 95 %), and the mean lies within
      [c − u (1 + c), c + u (1 − c)]. At least as wide as an exact interval: a bound, not an estimate.
    * `none`: fewer than two differences; standard error and interval are None.
    """
    measured = differences[~np.isnan(differences)]
    n = len(measured)
    if n < 2:
        return MeanInterval(n, float(measured[0]) if n else None, None, None, "none")
    mean = float(measured.sum()) / n
    deviations = measured - mean
    variance = float(deviations @ deviations) / (n - 1)
    if variance <= EQUAL_WITHIN**2:
        return MeanInterval(n, mean, 0.0, _no_spread(mean, n, confidence=confidence), "no spread")
    standard_error = math.sqrt(variance / n)
    half = t_quantile(confidence, n - 1) * standard_error
    return MeanInterval(n, mean, standard_error, (max(-1.0, mean - half), min(1.0, mean + half)), "t")


@lru_cache(maxsize=4096)
def mcnemar_exact(wins: int, losses: int, *, alternative: Literal["two-sided", "greater"] = "two-sided") -> float:
    """p-value of McNemar's exact test: wins ~ Binomial(wins + losses, 1/2) when nothing changed.

    `greater` is P(X ≥ wins); `two-sided` doubles the smaller tail, at most 1. No discordant task gives 1.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"counts cannot be negative, got {wins!r} wins and {losses!r} losses")
    if alternative == "greater":
        return _binomial_tail(wins, wins + losses)
    return min(1.0, 2.0 * _binomial_tail(max(wins, losses), wins + losses))


def paired_t_test(a: NDArray[np.float64], b: NDArray[np.float64]) -> float | None:
    """Two-sided p-value of the paired t test over tasks, of repeat means; None below two tasks.

    Without spread there is no t: no difference at all gives 1, and n equal differences the sign test's 2 / 2^n.
    """
    summary = mean_interval(task_differences(a, b))
    if summary.mean is None or summary.standard_error is None:
        return None
    if summary.standard_error == 0.0:
        return 1.0 if abs(summary.mean) <= EQUAL_WITHIN else mcnemar_exact(summary.n, 0)
    return t_tail(abs(summary.mean) / summary.standard_error, summary.n - 1)


def _binomial_tail(successes: int, n: int) -> float:
    """P(X ≥ successes) for X ~ Binomial(n, 1/2), in whole numbers until the last division."""
    term = total = 1
    for drawn in range(n - successes):
        term = term * (n - drawn) // (drawn + 1)
        total += term
    return total / (1 << n)


def _no_spread(mean: float, n: int, *, confidence: float) -> tuple[float, float]:
    unseen = -math.expm1(math.log1p(-confidence) / n)
    reach = max(1.0, abs(mean))
    return mean - unseen * (reach + mean), mean + unseen * (reach - mean)


def _task_means(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Repeat means of both sides; the number of repeats may differ, the tasks may not."""
    tables = [np.asarray(scores, dtype=np.float64) for scores in (a, b)]
    tables = [table[:, None] if table.ndim == 1 else table for table in tables]
    if any(table.ndim != 2 for table in tables) or len(tables[0]) != len(tables[1]):
        raise ValueError(f"expected two tables of the same tasks, got shapes {np.shape(a)} and {np.shape(b)}")
    return mean_measured(tables[0]), mean_measured(tables[1])
