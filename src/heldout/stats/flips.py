"""Flips of tasks between two runs: their confirmation by a further run, and what chance alone makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from heldout.stats.paired import EQUAL_WITHIN

__all__ = ["ConfirmedFlips", "EditLabel", "RepeatRates", "confirmed_flips", "edit_label", "repeat_rates"]


class EditLabel(StrEnum):
    """What an edit did to the select tasks (VERSE, arXiv 2610.02616)."""

    EFFECTIVE = "EFFECTIVE"
    """It fixed some and broke none."""
    HARMFUL = "HARMFUL"
    """It broke some and fixed none."""
    MIXED = "MIXED"
    INERT = "INERT"
    """It moved nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class ConfirmedFlips:
    """A paired table after each flip ran once more. Index arrays are ascending and disjoint."""

    after: NDArray[np.float64]
    """Shape (n,): the scores after, with flaky and infra tasks reset to their score before; NaN stays NaN."""
    n: int
    """Tasks measured both before and after."""
    fixed: NDArray[np.intp]
    """Rose, and rose again."""
    broken: NDArray[np.intp]
    """Fell, and fell again."""
    flaky: NDArray[np.intp]
    """Moved once, and not in the same direction in the further run."""
    infra: NDArray[np.intp]
    """Moved, and the further run gave nothing."""

    @property
    def label(self) -> EditLabel:
        return edit_label(len(self.fixed), len(self.broken))


@dataclass(frozen=True, slots=True)
class RepeatRates:
    """What a further run of the *same* candidate gives, from its repeats; None where no repeat can say."""

    pass_once: float | None
    """P(a further run passes), given that one failed: how often an edit without effect seems to fix a failure."""
    pass_twice: float | None
    """P(two further runs pass), given that one failed: the same where a second run must confirm it."""
    fail_once: float | None
    """P(a further run fails), given that one passed."""
    fail_twice: float | None


def confirmed_flips(
    before: NDArray[np.float64], after: NDArray[np.float64], again: NDArray[np.float64]
) -> ConfirmedFlips:
    """Let a second run of each flipped task decide whether it counts; shapes (n,), NaN is *not measured*.

    `again` is the further run under what gave `after`, and is read for flipped tasks only. A task that moves again in
    the same direction is confirmed. One that does not is flaky, and one whose second run is missing is infra: both get
    their score before back. There is no third run. A task that is missing before or after is no flip and stays missing.
    """
    if not before.shape == after.shape == again.shape or before.ndim != 1:
        raise ValueError(f"expected three columns of the same tasks, got {before.shape}, {after.shape}, {again.shape}")
    first, second = after - before, again - before
    flipped = np.abs(first) > EQUAL_WITHIN  # NaN compares false: what is missing never flips
    infra = flipped & np.isnan(second)
    confirmed = flipped & ~infra & (np.abs(second) > EQUAL_WITHIN) & (np.sign(first) == np.sign(second))
    flaky = flipped & ~infra & ~confirmed
    return ConfirmedFlips(
        after=np.where(flaky | infra, before, after),
        n=int((~np.isnan(first)).sum()),
        fixed=np.flatnonzero(confirmed & (first > 0)),
        broken=np.flatnonzero(confirmed & (first < 0)),
        flaky=np.flatnonzero(flaky),
        infra=np.flatnonzero(infra),
    )


def edit_label(fixed: int, broken: int) -> EditLabel:
    """The label of an edit from its confirmed flips."""
    if fixed:
        return EditLabel.MIXED if broken else EditLabel.EFFECTIVE
    return EditLabel.HARMFUL if broken else EditLabel.INERT


def repeat_rates(scores: NDArray[np.float64]) -> RepeatRates:
    """Rates over all ordered pairs and triples of measured repeats, for (tasks, repeats) of scores 0 and 1.

    Every repeat of a task that failed counts as one failing target, so tasks that fail more often weigh more: that is
    how a failing target is met when one recorded run is read.
    """
    passed = np.where(np.isnan(scores), np.nan, (scores >= 0.5).astype(np.float64))
    return RepeatRates(
        pass_once=_share(passed, was=0.0, runs=1),
        pass_twice=_share(passed, was=0.0, runs=2),
        fail_once=_share(passed, was=1.0, runs=1),
        fail_twice=_share(passed, was=1.0, runs=2),
    )


def _share(passed: NDArray[np.float64], *, was: float, runs: int) -> float | None:
    """Share of ordered choices of repeats in which all further `runs` differ from the first, which was `was`."""
    met = moved = 0
    for first, *rest in permutations(range(passed.shape[1]), runs + 1):
        targets = (passed[:, first] == was) & ~np.isnan(passed[:, rest]).any(axis=1)
        met += int(targets.sum())
        moved += int((targets & (passed[:, rest] == 1.0 - was).all(axis=1)).sum())
    return moved / met if met else None
