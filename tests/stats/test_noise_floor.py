from __future__ import annotations

import math

import numpy as np
import pytest

from heldout.stats import (
    audit_standard_error,
    expected_flips,
    flip_rate,
    noise_floor,
    repeat_flip_rate,
    tasks_to_decide,
)

NAN = math.nan


def test_flip_rate_counts_measured_pairs_only() -> None:
    assert flip_rate(np.array([0.0, 1.0, 1.0, NAN]), np.array([1.0, 1.0, NAN, 0.0])) == 0.5
    assert flip_rate(np.array([[0.0, 1.0], [1.0, NAN]]), np.array([[0.0, 0.0], [1.0, 1.0]])) == pytest.approx(1 / 3)
    assert flip_rate(np.array([NAN]), np.array([1.0])) is None


def test_flip_rate_refuses_different_shapes() -> None:
    with pytest.raises(ValueError, match="one shape"):
        flip_rate(np.zeros(3), np.zeros(1))


def test_repeat_flip_rate_by_hand() -> None:
    # Pairs that differ: 0 of 3; 2 of 3; 1 of 1; no pair.
    scores = np.array([[1.0, 1, 1], [1, 0, 1], [0, NAN, 1], [NAN, NAN, 1]])
    assert repeat_flip_rate(scores) == pytest.approx((0 + 2 / 3 + 1) / 3)
    assert repeat_flip_rate(np.ones((4, 1))) is None
    assert repeat_flip_rate(np.full((4, 2), NAN)) is None


def test_repeat_flip_rate_estimates_the_flip_rate_of_two_runs() -> None:
    rng = np.random.default_rng(0)
    skill = rng.random((4000, 1))
    scores = (rng.random((4000, 5)) < skill).astype(float)
    # For a uniform skill q, P(two runs differ) = E 2 q (1 - q) = 1/3.
    assert repeat_flip_rate(scores) == pytest.approx(1 / 3, abs=0.01)
    assert flip_rate(scores[:, 0], scores[:, 1]) == pytest.approx(1 / 3, abs=0.03)


def test_expected_flips() -> None:
    assert expected_flips(0.125, 64) == 8.0


def test_noise_floor_of_one_candidate_is_the_one_sided_quantile() -> None:
    assert noise_floor(0.2, 64) == pytest.approx(1.6448536 * math.sqrt(0.2 / 64))


def test_noise_floor_of_the_best_of_k_is_kept() -> None:
    """With independent noise the best of K stays below the floor in about 95 % of draws."""
    rng = np.random.default_rng(2)
    n, k, floor = 400, 4, noise_floor(0.2, 400, candidates=4)
    wins = rng.binomial(n, 0.1, size=(4000, k))
    losses = rng.binomial(n, 0.1, size=(4000, k))
    best = ((wins - losses) / n).max(axis=1)
    assert (best < floor).mean() == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("disagreement", "points"), [(0.15, 4.8), (0.20, 5.6), (0.25, 6.2)])
def test_audit_standard_error_of_64_tasks(disagreement: float, points: float) -> None:
    assert 100 * audit_standard_error(64, disagreement) == pytest.approx(points, abs=0.051)


@pytest.mark.parametrize(("disagreement", "tasks"), [(0.15, 375), (0.20, 500), (0.25, 625)])
def test_two_points_need_these_tasks(disagreement: float, tasks: int) -> None:
    assert audit_standard_error(tasks, disagreement) == pytest.approx(0.02)


def test_default_audit_of_200_tasks() -> None:
    assert round(100 * audit_standard_error(200, 0.2), 1) == 3.2


def test_audit_standard_error_is_that_of_simulated_audits() -> None:
    rng = np.random.default_rng(4)
    gains = rng.multinomial(64, [0.2, 0.1, 0.7], size=40_000) @ np.array([1, -1, 0]) / 64
    assert gains.std() == pytest.approx(audit_standard_error(64, 0.3, 0.1), rel=0.02)


def test_tasks_to_decide_by_hand() -> None:
    # (1.95996 + 0.84162)² 0.1975 / 0.0025 = 7.84887 · 79 = 620.06
    assert tasks_to_decide(0.1975, 0.05) == 621
    assert tasks_to_decide(0.1975, -0.05) == 621
    # 1.95996² 0.1975 / 0.0025 = 303.47: with even odds of deciding
    assert tasks_to_decide(0.1975, 0.05, power=0.5) == 304
    assert tasks_to_decide(0.2, 0.0) is None


def test_tasks_to_decide_decide_as_often_as_they_say() -> None:
    n = tasks_to_decide(0.2 - 0.06**2, 0.06)
    assert n is not None
    rng = np.random.default_rng(5)
    fixed, broken, _ = rng.multinomial(n, [0.13, 0.07, 0.8], size=20_000).T
    gains = (fixed - broken) / n
    errors = np.sqrt(((fixed + broken) / n - gains**2) / (n - 1))
    assert (gains - 1.96 * errors > 0).mean() == pytest.approx(0.8, abs=0.02)


def test_impossible_powers_are_refused() -> None:
    with pytest.raises(ValueError, match="power"):
        tasks_to_decide(0.2, 0.1, power=0.2)


def test_impossible_audits_are_refused() -> None:
    with pytest.raises(ValueError, match="at least its square"):
        audit_standard_error(64, 0.2, 0.5)
    with pytest.raises(ValueError, match="at least one task"):
        audit_standard_error(0, 0.2)
