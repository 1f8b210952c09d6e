"""How often a rule on repairs and regressions, u = R - weight B, accepts: exact, from the flips of single tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.paired import EQUAL_WITHIN

__all__ = ["confirmed_null_rate", "null_accept_rate", "repair_accept_rate", "repair_power"]


def repair_accept_rate(
    repaired: NDArray[np.float64], broken: NDArray[np.float64], *, weight: float = 2.0, min_u: float = 1.0
) -> float:
    """P(u > 0 and u >= min_u), where task i is repaired with probability `repaired[i]`, else broken with `broken[i]`.

    Shapes (n,); tasks are independent. Exact: the joint distribution of R and B, built up task by task. For tasks
    that are all alike it is the multinomial.
    """
    repaired, broken = np.asarray(repaired, dtype=np.float64), np.asarray(broken, dtype=np.float64)
    if repaired.ndim != 1 or repaired.shape != broken.shape:
        raise ValueError(f"expected two columns of the same tasks, got shapes {repaired.shape} and {broken.shape}")
    if not (repaired.min(initial=0.0) >= 0.0 and broken.min(initial=0.0) >= 0.0):
        raise ValueError("a probability cannot be negative, nor not a number")
    if (repaired + broken).max(initial=0.0) > 1.0 + EQUAL_WITHIN:
        raise ValueError("a task is repaired, broken or neither: the two probabilities cannot add up to more than 1")
    joint = np.zeros((len(repaired) + 1, len(repaired) + 1))
    joint[0, 0] = 1.0
    for done, (up, down) in enumerate(zip(repaired.tolist(), broken.tolist(), strict=True), start=1):
        before = joint[:done, :done].copy()  # of the tasks so far; beyond it there is nothing yet
        joint[:done, :done] *= 1.0 - up - down
        joint[1 : done + 1, :done] += up * before
        joint[:done, 1 : done + 1] += down * before
    repairs, regressions = np.indices(joint.shape)
    utility = repairs - weight * regressions
    return float(joint[(utility > EQUAL_WITHIN) & (utility >= min_u - EQUAL_WITHIN)].sum())


def null_accept_rate(n: int, disagreement: ArrayLike, *, weight: float = 2.0, min_u: float = 1.0) -> float:
    """The rate for an edit without effect: two runs of task i differ with probability `disagreement[i]`, either way
    alike. One number stands for all n tasks (gso.md, section 6.2)."""
    half = _of_each_task(n, disagreement) / 2.0
    return repair_accept_rate(half, half, weight=weight, min_u=min_u)


def confirmed_null_rate(
    n: int, disagreement: ArrayLike, *, weight: float = 2.0, min_u: float = 1.0, both: bool = False
) -> float:
    """`null_accept_rate` where a flip counts only if a further run shows it again.

    Noisy tasks pass half of the time and the others never change, so a share of 2 p of the tasks is noisy, p <= 1/2.
    A further run of the candidate confirms half of the flips that noise makes, and one of *both* sides a quarter.
    Breaks, which cost `weight`, are hidden as often as repairs.
    """
    noise = _of_each_task(n, disagreement)
    if noise.max(initial=0.0) > 0.5 + EQUAL_WITHIN:
        raise ValueError(f"tasks that pass half of the time differ between two runs on at most 0.5, got {noise.max()}")
    return null_accept_rate(n, noise * (0.25 if both else 0.5), weight=weight, min_u=min_u)


def repair_power(n: int, disagreement: ArrayLike, repaired: float, *, weight: float = 2.0, min_u: float = 1.0) -> float:
    """The rate for an edit that repairs each task with probability `repaired`, on top of the noise of
    `null_accept_rate`, and breaks none but by that noise."""
    half = _of_each_task(n, disagreement) / 2.0
    return repair_accept_rate(half + repaired, half, weight=weight, min_u=min_u)


def _of_each_task(n: int, disagreement: ArrayLike) -> NDArray[np.float64]:
    given = np.asarray(disagreement, dtype=np.float64)
    if n < 0 or given.shape not in ((), (n,)):
        raise ValueError(f"expected one disagreement, or one of each of {n} tasks, got shape {given.shape}")
    return np.full(n, given) if given.ndim == 0 else given
