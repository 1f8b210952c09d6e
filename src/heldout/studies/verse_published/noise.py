"""What one harness run again and again shows: how much moves under no change, and what probes make of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.stats import expected_flips, repeat_flip_rate, repeat_rates
from heldout.studies.verse_published.released import Released

__all__ = ["SELECT", "SettingNoise", "best_of_three", "setting_noise"]

SELECT = 50
"""Select tasks of the paper."""

TARGETS = 3
"""Targets of one draft probe."""

FAILING, PASSING = 10, 2
"""Tasks of a screen."""


@dataclass(frozen=True, slots=True)
class SettingNoise:
    """The repeats of one setting against each other; rates are fractions."""

    disagreement: float
    """Probability that two runs differ on a task."""
    flips: float
    """Expected in `SELECT` tasks."""
    confirmed: float
    """Of these, expected to be confirmed by one further run: spurious fixes and breaks together."""
    pass_once: float
    """P(pass | failed before)."""
    pass_twice: float
    support_once: float
    """P(at least one of `TARGETS` targets passes)."""
    support_twice: float
    """P(at least one passes twice): what a draft probe counts as support."""
    screen: float
    """Expected fixed minus broken of a screen."""
    best_screen: float
    """The same for the best of three candidates without effect."""


def setting_noise(one: Released) -> SettingNoise:
    """From three repeats of every task."""
    scores = one.scores
    rates = repeat_rates(scores)
    disagreement, once, twice, lost = (
        value or 0.0 for value in (repeat_flip_rate(scores), rates.pass_once, rates.pass_twice, rates.fail_once)
    )
    return SettingNoise(
        disagreement=disagreement,
        flips=expected_flips(disagreement, SELECT),
        confirmed=expected_flips(_confirmed(scores), SELECT),
        pass_once=once,
        pass_twice=twice,
        support_once=1.0 - (1.0 - once) ** TARGETS,
        support_twice=1.0 - (1.0 - twice) ** TARGETS,
        screen=FAILING * once - PASSING * lost,
        best_screen=best_of_three(once, lost),
    )


def best_of_three(gained: float, lost: float) -> float:
    """Expected fixed minus broken of the best of three screens, each Bin(10, gained) − Bin(2, lost), independent."""
    net = np.convolve(_binomial(FAILING, gained), _binomial(PASSING, lost)[::-1])
    values = np.arange(-PASSING, FAILING + 1)
    below = np.cumsum(net) ** 3
    return float((values * np.diff(below, prepend=0.0)).sum())


def _confirmed(scores: NDArray[np.float64]) -> float:
    """P(two runs differ and a third agrees with the second)."""
    a, b, c = scores.T
    orders = ((a, b, c), (a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a))
    return float(np.mean([(first != second) & (second == third) for first, second, third in orders]))


def _binomial(n: int, p: float) -> NDArray[np.float64]:
    """P(0), …, P(n)."""
    share = np.ones(1)
    for _ in range(n):
        share = np.convolve(share, [1.0 - p, p])
    return share
