"""What a draft without any effect would show in a probe and in a screen (specification, §6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from math import comb

import numpy as np
from numpy.typing import NDArray

from heldout.probes.base import ProbeNoise

__all__ = ["FlipRates", "measured_rates", "probe_noise", "rates_at_half"]


@dataclass(frozen=True, slots=True)
class FlipRates:
    """How often a task changes its outcome although the harness did not."""

    disagreement: float
    """Share of tasks on which two runs differ."""
    gained: float
    """P(passes | failed in the run before)."""
    confirmed: float
    """P(passes twice | failed in the run before)."""
    lost: float
    """P(fails | passed in the run before)."""


def rates_at_half(disagreement: float, *, failing: float) -> FlipRates:
    """Rates from two runs alone, under the model that noisy tasks pass with probability ½ and the rest never change.

    Two runs of a noisy task differ with ½, so the noisy share is 2d, and half of them, d, are among the failing share
    f of tasks: gained = d / (2 f), confirmed = d / (4 f), lost = d / (2 (1 − f)), none above what a task that is
    surely noisy would show. Two runs cannot tell more; `measured_rates` can, from three.
    """
    if not (0.0 <= disagreement <= 1.0 and 0.0 <= failing <= 1.0):
        raise ValueError(f"expected shares in [0, 1], got disagreement {disagreement!r} and failing {failing!r}")
    gained, lost = _half_of(disagreement, failing), _half_of(disagreement, 1.0 - failing)
    return FlipRates(disagreement, gained, gained / 2.0, lost)


def measured_rates(scores: NDArray[np.float64]) -> FlipRates | None:
    """Rates over every ordered choice of repeats, for pass-or-fail scores (tasks, repeats) of one harness.

    NaN is not measured: what needs it is left out. None without three repeats, or where nothing failed or passed.
    """
    passed = np.where(np.isnan(scores), np.nan, scores >= 0.5)
    pairs = list(permutations(range(passed.shape[1]), 2))
    triples = list(permutations(range(passed.shape[1]), 3))
    if not triples:
        return None
    first, second = (np.concatenate([passed[:, pair[side]] for pair in pairs]) for side in (0, 1))
    one, two, three = (np.concatenate([passed[:, triple[side]] for triple in triples]) for side in (0, 1, 2))
    differ = _share(first != second, among=~np.isnan(first + second))
    gained = _share(second == 1, among=(first == 0) & ~np.isnan(second))
    confirmed = _share((two == 1) & (three == 1), among=(one == 0) & ~np.isnan(two + three))
    lost = _share(second == 0, among=(first == 1) & ~np.isnan(second))
    if differ is None or gained is None or confirmed is None or lost is None:
        return None
    return FlipRates(differ, gained, confirmed, lost)


def probe_noise(
    rates: FlipRates, *, targets: int = 3, failing: int = 10, passing: int = 2, screens: int = 3
) -> ProbeNoise:
    """What no effect shows: a probe of `targets` supports with 1 − (1 − confirmed)^targets; a screen of `failing` and
    `passing` tasks nets failing · gained − passing · lost on average.

    The best of the round's screens is the exact mean of the largest of that many independent nets. Screens on the
    same tasks share which of them are noisy, so their best is a little lower: the number errs high.
    """
    nets, chances = _screen_nets(rates, failing=failing, passing=passing)
    below = np.cumsum(chances) ** screens
    best = float((nets * np.diff(below, prepend=0.0)).sum())
    return ProbeNoise(
        disagreement=rates.disagreement,
        false_flip=rates.gained,
        false_confirmed=rates.confirmed,
        false_support=1.0 - (1.0 - rates.confirmed) ** targets,
        screen_net=failing * rates.gained - passing * rates.lost,
        screen_best=best,
    )


def _half_of(disagreement: float, share: float) -> float:
    if disagreement == 0.0:
        return 0.0
    return 0.5 if share <= disagreement else disagreement / (2.0 * share)


def _share(hits: NDArray[np.bool_], *, among: NDArray[np.bool_]) -> float | None:
    return float(hits[among].mean()) if among.any() else None


def _screen_nets(rates: FlipRates, *, failing: int, passing: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every net that a screen can show, ascending, and its probability."""
    gains, losses = _binomial(failing, rates.gained), _binomial(passing, rates.lost)
    return np.arange(-passing, failing + 1, dtype=np.float64), np.convolve(gains, losses[::-1])


def _binomial(n: int, p: float) -> NDArray[np.float64]:
    return np.array([comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(n + 1)])
