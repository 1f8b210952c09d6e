from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from heldout.stats import bootstrap_interval, conditional_odds_interval, paired_difference, wilson_interval


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (3, 10), (10, 10), (57, 200)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_wilson_agrees_with_scipy(successes: int, n: int, confidence: float) -> None:
    expected = scipy_stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert wilson_interval(successes, n, confidence=confidence) == pytest.approx((expected.low, expected.high))


def test_wilson_of_nothing_knows_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_wilson_refuses_more_successes_than_trials() -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson_interval(3, 2)


@pytest.mark.parametrize(("wins", "losses"), [(7, 2), (1, 1), (12, 30)])
def test_odds_agree_with_clopper_pearson_of_scipy(wins: int, losses: int) -> None:
    share = scipy_stats.binomtest(wins, wins + losses).proportion_ci(0.9, method="exact")
    expected = (share.low / (1 - share.low), share.high / (1 - share.high))
    assert conditional_odds_interval(wins, losses, confidence=0.9) == pytest.approx(expected, rel=1e-9)


def test_odds_at_the_edges() -> None:
    assert conditional_odds_interval(0, 0) == (0.0, math.inf)
    low, high = conditional_odds_interval(5, 0)
    assert low == pytest.approx(0.025**0.2 / (1 - 0.025**0.2))  # P(X = 5) = p^5 = 0.025
    assert high == math.inf
    assert conditional_odds_interval(0, 5)[0] == 0.0


def test_bootstrap_is_seeded_and_close_to_the_t_interval() -> None:
    rng = np.random.default_rng(5)
    a = (rng.random((300, 2)) < 0.5).astype(float)
    b = (rng.random((300, 2)) < 0.6).astype(float)
    interval = bootstrap_interval(a, b, seed=1)
    assert interval == bootstrap_interval(a, b, seed=1)
    assert interval != bootstrap_interval(a, b, seed=2)
    assert interval == pytest.approx(paired_difference(a, b).interval, abs=0.01)


def test_bootstrap_agrees_with_scipy() -> None:
    rng = np.random.default_rng(6)
    differences = rng.choice([-1.0, 0.0, 0.0, 1.0], size=80)
    ours = bootstrap_interval(np.zeros(80), differences, confidence=0.9, resamples=20_000)
    theirs = scipy_stats.bootstrap(
        (differences,), np.mean, confidence_level=0.9, n_resamples=20_000, method="percentile", rng=rng
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.0126)  # one step of the lattice of means, 1/80


def test_bootstrap_leaves_missing_tasks_out() -> None:
    a, b = np.zeros(30), np.tile([1.0, 0.0, 0.0], 10)
    missing_a, missing_b = np.append(a, [0.0, math.nan]), np.append(b, [math.nan, 1.0])
    assert bootstrap_interval(a, b) == bootstrap_interval(missing_a, missing_b)
    assert bootstrap_interval(np.array([0.0]), np.array([1.0])) is None


def test_bootstrap_coverage_is_near_nominal() -> None:
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(400):
        differences = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.7, 0.2], size=100)
        low, high = bootstrap_interval(np.zeros(100), differences, resamples=1000) or (0.0, 0.0)
        covered += low <= 0.1 <= high
    assert 0.91 <= covered / 400 <= 0.98
