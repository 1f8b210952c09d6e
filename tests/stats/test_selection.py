from __future__ import annotations

import math

import numpy as np
import pytest

from heldout.stats import (
    VarianceComponents,
    committed_overstatement,
    expected_max_normal,
    selection_overstatement,
)


@pytest.mark.parametrize(
    ("k", "expected"),
    [(2, 0.564), (3, 0.846), (4, 1.029), (5, 1.163), (6, 1.267), (8, 1.424), (10, 1.539), (16, 1.766)],
)
def test_expected_max_normal_of_the_specification(k: int, expected: float) -> None:
    assert round(expected_max_normal(k), 3) == expected


def test_expected_max_normal_in_closed_form() -> None:
    assert expected_max_normal(1) == pytest.approx(0.0, abs=1e-12)
    assert expected_max_normal(2) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-10)
    assert expected_max_normal(3) == pytest.approx(1.5 / math.sqrt(math.pi), abs=1e-10)
    closed = 5 / (4 * math.sqrt(math.pi)) * (1 + 6 / math.pi * math.asin(1 / 3))
    assert expected_max_normal(5) == pytest.approx(closed, abs=1e-10)


def test_expected_max_of_no_candidate_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one candidate"):
        expected_max_normal(0)


def test_p1_check_value() -> None:
    assert selection_overstatement(4, 5.0, 10.0) == pytest.approx(9.21, abs=0.005)
    assert selection_overstatement(4, 3.0, 12.0) == pytest.approx(12.0, abs=0.05)
    assert selection_overstatement(4, 0.0, 0.0) == 0.0
    assert selection_overstatement(1, 5.0, 10.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("sigma0", [0.0, 6.0])
@pytest.mark.parametrize("mu", [0.0, -5.0])
def test_invariant_8_overstatement_of_the_best_matches_p1(sigma0: float, mu: float) -> None:
    """Simulated overstatement of the best candidate is c_K σ² / √(s² + σ²) within 3 Monte-Carlo SE."""
    rng = np.random.default_rng(8)
    draws = 100_000
    true_gains = rng.normal(mu, 5.0, size=(draws, 4))
    gains = true_gains + rng.normal(0.0, 10.0, size=(draws, 4)) + rng.normal(0.0, sigma0, size=(draws, 1))
    best = gains.argmax(axis=1)
    excess = gains[np.arange(draws), best] - true_gains[np.arange(draws), best]
    error = excess.std() / math.sqrt(draws)
    assert abs(excess.mean() - selection_overstatement(4, 5.0, 10.0)) <= 3 * error


@pytest.mark.parametrize(
    ("mu", "s", "sigma", "sigma0", "expected", "harmful"),
    [
        (0.0, 5.0, 10.0, 6.0, 11.1, 0.29),
        (-3.0, 5.0, 10.0, 6.0, 12.1, 0.53),
        (-5.0, 5.0, 10.0, 6.0, 12.9, 0.68),
        (-5.0, 3.0, 12.0, 0.0, 14.6, None),
        (-5.0, 3.0, 12.0, 6.0, 16.0, 0.92),
    ],
)
def test_committed_gains_of_the_specification(
    mu: float, s: float, sigma: float, sigma0: float, expected: float, harmful: float | None
) -> None:
    components = VarianceComponents(mu=mu, s=s, sigma=sigma, sigma0=sigma0, k=4, n=16)
    result = committed_overstatement(components, draws=200_000, seed=1)
    assert result.standard_error is not None
    assert result.overstatement == pytest.approx(expected, abs=0.1 + 3 * result.standard_error)
    assert result.overstatement > selection_overstatement(4, s, sigma)
    if harmful is not None:
        assert result.harmful_share == pytest.approx(harmful, abs=0.01)


def test_committed_is_seeded() -> None:
    components = VarianceComponents(mu=0.0, s=5.0, sigma=10.0, sigma0=6.0, k=4, n=16)
    first = committed_overstatement(components, draws=1000, seed=3)
    assert first == committed_overstatement(components, draws=1000, seed=3)
    assert first != committed_overstatement(components, draws=1000, seed=4)


def test_bayes_commits_less_and_harms_less_than_greedy() -> None:
    components = VarianceComponents(mu=-3.0, s=5.0, sigma=10.0, sigma0=6.0, k=4, n=16)
    greedy = committed_overstatement(components, draws=50_000)
    bayes = committed_overstatement(components, rule="bayes", draws=50_000)
    assert 0 < bayes.commit_rate < greedy.commit_rate
    assert bayes.harmful_share < greedy.harmful_share


def test_never_committing_says_nothing() -> None:
    hopeless = VarianceComponents(mu=-100.0, s=1.0, sigma=1.0, sigma0=0.0, k=4, n=16)
    result = committed_overstatement(hopeless, draws=1000)
    assert (result.overstatement, result.standard_error, result.harmful_share) == (None, None, None)
    assert result.commit_rate == 0.0
