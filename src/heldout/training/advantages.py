"""Advantages of rollouts from their rewards: by group (GRPO), centred (Tmax), whitened (REINFORCE++).

A missing reward is None or NaN; it takes no part in any mean or deviation, and its advantage is NaN, which a policy
gradient leaves out. Rows are environment steps, answers or proposals, as the method has it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Advantages",
    "Rewards",
    "advantage_rows",
    "clamp_invalid",
    "group_advantages",
    "reward_array",
    "whitened_advantages",
    "zero_variance_share",
]

Rewards: TypeAlias = Sequence[float | None] | NDArray[np.float64]
"""One per row; None or NaN where it was not measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Advantages:
    """One advantage per row, and what the groups were like."""

    values: NDArray[np.float64]
    """NaN where the reward is missing."""
    flat: NDArray[np.bool_]
    """Rows of a group without variance: their advantage is exactly 0. A method may replace such a group, or leave it
    out (`rows`). They are measured, and `missing` does not count them."""
    groups: int
    """Groups with at least one measured reward."""
    zero_variance: int
    """Those of them whose measured rewards are all equal; a lone reward is one."""
    missing: int
    """Rows without a reward."""

    @property
    def zero_variance_share(self) -> float | None:
        """Share of the groups that teach nothing; None where no group was measured."""
        return self.zero_variance / self.groups if self.groups else None

    def rows(self, flat: float | None = 0.0) -> tuple[float | None, ...]:
        """See `advantage_rows`; `flat` is what rows of a group without variance get.

        0.0 leaves them in every mean of the loss, which they make smaller; None takes them out of the step, where they
        count as `missing` beside rows without a reward: `flat` tells the two apart.
        """
        values = self.values if flat == 0.0 else np.where(self.flat, np.nan if flat is None else flat, self.values)
        return advantage_rows(values)


def advantage_rows(values: NDArray[np.float64]) -> tuple[float | None, ...]:
    """Advantages as a policy gradient takes them: None, not NaN, where there is none."""
    return tuple(None if np.isnan(value) else float(value) for value in values)


def group_advantages(
    rewards: Rewards,
    groups: Sequence[Hashable],
    *,
    scale: bool = True,
    eps: float = 1e-6,
    units: Sequence[Hashable] | None = None,
) -> Advantages:
    """`(R − mean) / (std + eps)` within each group, std with n − 1 (GRPO, arXiv 2402.03300, section 4.1).

    `scale=False` leaves the division out (Dr. GRPO, arXiv 2503.20783; Tmax). A group may hold several rows of one
    trajectory; all rows count alike in mean and std, unless `units` names the trajectory of each row: then each
    trajectory counts once, by the mean of its rows. Rewards that are all equal give exactly 0.
    """
    table = reward_array(rewards)
    labels = _numbers(groups, len(table))
    members = np.arange(len(table)) if units is None else _numbers(units, len(table))
    values = np.full(len(table), np.nan)
    flat = np.zeros(len(table), dtype=np.bool_)
    measured = ~np.isnan(table)
    present = np.unique(labels[measured])
    zero_variance = 0
    for group in present:
        rows = measured & (labels == group)
        spread = _standardised(table[rows], members[rows], scale=scale, eps=eps)
        values[rows] = 0.0 if spread is None else spread
        flat[rows] = spread is None
        zero_variance += spread is None
    return Advantages(values, flat, len(present), zero_variance, int((~measured).sum()))


def whitened_advantages(
    rewards: Rewards, *, active: Sequence[bool] | None = None, eps: float = 1e-8
) -> NDArray[np.float64]:
    """`(R − mean) / √(var + eps)` over the active rows, unbiased variance (REINFORCE++, arXiv 2501.03262).

    A single active row gets 0, an inactive or missing one NaN.
    """
    table = reward_array(rewards)
    rows = ~np.isnan(table)
    if active is not None:
        if len(active) != len(table):
            raise ValueError(f"{len(table)} rewards and {len(active)} marks of activity")
        rows &= np.asarray(active, dtype=np.bool_)
    values = np.full(len(table), np.nan)
    chosen = table[rows]
    if chosen.size and chosen.min() == chosen.max():
        values[rows] = 0.0
    elif chosen.size:
        values[rows] = (chosen - chosen.mean()) / np.sqrt(chosen.var(ddof=1) + eps)
    return values


def clamp_invalid(advantages: NDArray[np.float64], valid: Sequence[bool]) -> NDArray[np.float64]:
    """The advantages with 0 in place of what is positive in an invalid row (UniSkill, arXiv 2610.10164)."""
    if len(valid) != len(advantages):
        raise ValueError(f"{len(advantages)} advantages and {len(valid)} marks of validity")
    positive = ~np.asarray(valid, dtype=np.bool_) & (advantages > 0)
    return np.where(positive, 0.0, advantages)


def zero_variance_share(rewards: Rewards, groups: Sequence[Hashable]) -> float | None:
    """Share of groups whose measured rewards are all equal, of those with any; None where nothing was measured."""
    return group_advantages(rewards, groups, scale=False).zero_variance_share


def reward_array(rewards: Rewards) -> NDArray[np.float64]:
    """The rewards as an array, NaN where missing; an infinite one is an error of whoever made it."""
    table = np.array([np.nan if reward is None else reward for reward in rewards], dtype=np.float64)
    if np.isinf(table).any():
        raise ValueError(f"row {int(np.flatnonzero(np.isinf(table))[0])} has an infinite reward")
    return table


def _standardised(
    rewards: NDArray[np.float64], members: NDArray[np.intp], *, scale: bool, eps: float
) -> NDArray[np.float64] | None:
    """The rewards of one group about their mean, or None where they do not vary."""
    if rewards.min() == rewards.max():
        return None
    _, member, counts = np.unique(members, return_inverse=True, return_counts=True)
    each = np.bincount(member, weights=rewards) / counts
    if each.size == 1 or each.min() == each.max():
        return None
    centred: NDArray[np.float64] = rewards - each.mean()
    return centred / (each.std(ddof=1) + eps) if scale else centred


def _numbers(labels: Sequence[Hashable], rows: int) -> NDArray[np.intp]:
    """Labels as numbers, equal where they are equal."""
    if len(labels) != rows:
        raise ValueError(f"{rows} rewards and {len(labels)} labels")
    seen: dict[Hashable, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.intp)
