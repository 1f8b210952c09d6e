"""Noise before news: how much moves when nothing changed, and what an audit of n tasks can see."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from heldout.stats.distributions import normal_quantile
from heldout.stats.paired import EQUAL_WITHIN, mean_measured

__all__ = [
    "audit_standard_error",
    "expected_flips",
    "flip_rate",
    "noise_floor",
    "repeat_flip_rate",
    "tasks_to_decide",
]


def flip_rate(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Share of evaluations whose score differs between two identical runs; None when no pair was measured.

    Shapes are equal, (tasks,) or (tasks, repeats); repeat r of one run is paired with repeat r of the other.
    """
    if np.shape(first) != np.shape(second):
        raise ValueError(f"two runs of the same tasks have one shape, got {np.shape(first)} and {np.shape(second)}")
    moved = np.abs(np.asarray(second, dtype=np.float64) - first)
    measured = moved[~np.isnan(moved)]
    return float((measured > EQUAL_WITHIN).mean()) if len(measured) else None


def repeat_flip_rate(scores: NDArray[np.float64]) -> float | None:
    """Probability that two repeats of one task differ, for (tasks, repeats); None without two repeats of any task.

    For each task the share of its pairs of measured repeats that differ, then the mean over tasks.
    """
    repeats = scores.shape[1]
    first, second = np.triu_indices(repeats, k=1)
    if not len(first):
        return None
    moved = np.abs(scores[:, first] - scores[:, second])
    shares = mean_measured(np.where(np.isnan(moved), np.nan, moved > EQUAL_WITHIN))
    shares = shares[~np.isnan(shares)]
    return float(shares.mean()) if len(shares) else None


def expected_flips(rate: float, n: int) -> float:
    """Tasks out of `n` that are expected to flip although nothing changed: rate · n."""
    return rate * n


def noise_floor(rate: float, n: int, *, candidates: int = 1, confidence: float = 0.95) -> float:
    """The gain, as a fraction, that the best of K unchanged candidates stays below with this confidence.

    Under no change a gain has variance rate / n; the floor is Φ⁻¹(confidence^(1/K)) √(rate / n), normal
    approximation. Noise that candidates share lowers their maximum (Slepian 1962), so this errs high.
    """
    if n < 1 or candidates < 1:
        raise ValueError(f"expected at least one task and one candidate, got {n!r} and {candidates!r}")
    per_candidate = math.exp(math.log(confidence) / candidates)
    return max(0.0, NormalDist().inv_cdf(per_candidate)) * math.sqrt(rate / n)


def audit_standard_error(n: int, disagreement: float, gain: float = 0.0) -> float:
    """Standard error of a paired gain over `n` tasks scored 0 or 1: SE² = (p_d − δ²) / n.

    p_d is the share of tasks on which the two sides differ, δ the true gain (winners_curse.md, section 4).
    """
    _check_disagreement(disagreement, gain)
    if n < 1:
        raise ValueError(f"expected at least one task, got {n!r}")
    return math.sqrt((disagreement - gain * gain) / n)


def tasks_to_decide(variance: float, gain: float, *, confidence: float = 0.95, power: float = 0.8) -> int | None:
    """Tasks at which the interval of a true gain δ leaves out 0 with probability `power`; None for a gain of 0.

    n ≥ ((z_confidence + z_power)² V) / δ², normal approximation, where V is the variance of a task's paired
    difference: p_d − δ² for pass-or-fail scores (winners_curse.md, section 4).
    """
    if variance < 0.0 or not 0.5 <= power < 1.0:
        raise ValueError(f"expected a variance of at least 0 and a power in [0.5, 1), got {variance!r} and {power!r}")
    if gain == 0.0:
        return None
    z = normal_quantile(confidence) + (normal_quantile(2.0 * power - 1.0) if power > 0.5 else 0.0)
    return max(2, math.ceil(z * z * variance / (gain * gain)))


def _check_disagreement(disagreement: float, gain: float) -> None:
    if disagreement < gain * gain:
        raise ValueError(f"a gain of {gain!r} needs a disagreement of at least its square, got {disagreement!r}")
