from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.stats import (
    audit_standard_error,
    expected_flips,
    flip_rate,
    noise_floor,
    normal_quantile,
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
    # z² (0.2 - 0.0025) / 0.0025 = 303.47
    assert tasks_to_decide(0.2, 0.05) == 304
    assert tasks_to_decide(0.2, -0.05) == 304
    assert tasks_to_decide(0.2, 0.0) is None


@given(disagreement=st.floats(0.05, 1.0), share=st.floats(0.02, 0.98))
def test_tasks_to_decide_is_the_smallest(disagreement: float, share: float) -> None:
    gain = disagreement * share
    n = tasks_to_decide(disagreement, gain)
    z = normal_quantile(0.95)
    assert n is not None
    assert z * audit_standard_error(n, disagreement, gain) < gain * (1 + 1e-9)
    if n > 2:
        assert z * audit_standard_error(n - 1, disagreement, gain) >= gain * (1 - 1e-9)


def test_impossible_audits_are_refused() -> None:
    with pytest.raises(ValueError, match="at least its square"):
        audit_standard_error(64, 0.2, 0.5)
    with pytest.raises(ValueError, match="at least one task"):
        audit_standard_error(0, 0.2)
