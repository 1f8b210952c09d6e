"""Intervals without normality: Wilson for a share, exact for odds, bootstrap for a paired difference."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from heldout.stats.distributions import beta_quantile, normal_quantile
from heldout.stats.paired import task_differences

__all__ = ["bootstrap_interval", "conditional_odds_interval", "wilson_interval"]


def wilson_interval(successes: float, n: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a share (Wilson 1927).

    (p̂ + z²/2n ± z √(p̂(1 − p̂)/n + z²/4n²)) / (1 + z²/n). With n = 0 nothing is known: (0, 1).
    """
    if not 0 <= successes <= n:
        raise ValueError(f"expected 0 <= successes <= n, got {successes!r} of {n!r}")
    if n == 0:
        return 0.0, 1.0
    z = normal_quantile(confidence)
    share = successes / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def conditional_odds_interval(wins: int, losses: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval for the odds P(win) / P(loss), given the discordant tasks.

    Clopper-Pearson for p = P(win | discordant), then p / (1 − p): the conditional maximum likelihood
    setting of a matched-pairs odds ratio. Without discordant tasks it is (0, inf).
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"counts cannot be negative, got {wins!r} wins and {losses!r} losses")
    tail = (1.0 - confidence) / 2.0
    low = beta_quantile(tail, wins, losses + 1) if wins else 0.0
    high = beta_quantile(1.0 - tail, wins + 1, losses) if losses else 1.0
    return low / (1.0 - low), high / (1.0 - high) if high < 1.0 else math.inf


def bootstrap_interval(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float] | None:
    """Percentile interval of the mean of `b − a`, resampling whole tasks (Efron 1979); None below two tasks.

    Equal differences are interchangeable, so a resample is one multinomial draw over the distinct values.
    """
    differences = task_differences(a, b)
    values, counts = np.unique(differences[~np.isnan(differences)], return_counts=True)
    n = int(counts.sum())
    if n < 2:
        return None
    draws = np.random.default_rng(seed).multinomial(n, counts / n, size=resamples)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(draws @ values / n, [tail, 1.0 - tail])
    return float(low), float(high)
