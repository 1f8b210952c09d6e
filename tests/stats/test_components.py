from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.stats import (
    VarianceComponents,
    bayes_threshold,
    pool_components,
    shared_noise_posterior,
    variance_components,
)


def test_components_by_hand() -> None:
    # z1 = (1, 0, 0, 1), z2 = (1, 0, -1, 0): variances 1/3 and 2/3, covariance 1/3, gains 0.5 and 0.
    incumbent = np.array([0.0, 0.0, 1.0, 0.0])
    candidates = np.array([[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    result = variance_components(incumbent, candidates)
    assert result is not None
    assert result.sigma0**2 == pytest.approx((1 / 3) / 4)
    assert result.sigma**2 == pytest.approx(0.5 / 4 - (1 / 3) / 4)
    assert result.s**2 == pytest.approx(0.125 - (0.5 - 1 / 3) / 4)
    assert result.mu == pytest.approx(0.25)
    assert (result.k, result.n, result.s_cut, result.sigma0_cut) == (2, 4, 0.0, 0.0)


def test_lam_is_the_real_share() -> None:
    assert VarianceComponents(mu=0, s=3, sigma=4, sigma0=1, k=4, n=16).lam == pytest.approx(9 / 25)
    assert VarianceComponents(mu=0, s=0, sigma=0, sigma0=1, k=4, n=16).lam == 0.0


def test_what_was_cut_below_zero_is_kept() -> None:
    # Both gains are 0 and vary over tasks, so Var(d) - sigma² < 0; opposite signs, so the covariance is negative.
    result = variance_components(np.full(2, 0.5), np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert result is not None
    assert (result.s, result.sigma0) == (0.0, 0.0)
    assert result.sigma0_cut == pytest.approx(-0.25)
    assert result.s_cut == pytest.approx(-0.5)


def test_missing_tasks_are_left_out() -> None:
    rng = np.random.default_rng(0)
    incumbent = (rng.random(12) < 0.5).astype(float)
    candidates = (rng.random((3, 12)) < 0.5).astype(float)
    plain = variance_components(incumbent, candidates)
    padded = variance_components(
        np.append(incumbent, [1.0, math.nan]), np.hstack([candidates, np.full((3, 1), math.nan), np.ones((3, 1))])
    )
    assert plain is not None
    assert padded is not None
    assert padded.sigma == pytest.approx(plain.sigma)
    assert padded.sigma0 == pytest.approx(plain.sigma0)
    assert padded.s == pytest.approx(plain.s)


def test_a_candidate_without_two_tasks_is_left_out() -> None:
    incumbent = np.array([0.0, 1.0, 0.0])
    result = variance_components(incumbent, np.array([[1.0, 1.0, 0.0], [1.0, math.nan, math.nan]]))
    assert result is not None
    assert result.k == 1
    assert (result.s, result.sigma0) == (0.0, 0.0)
    assert variance_components(incumbent, np.full((2, 3), math.nan)) is None


def test_missing_at_random_does_not_bias_the_noise() -> None:
    """With 30 % missing, the noise of each gain is that of the tasks it kept."""
    rng = np.random.default_rng(1)
    kept = []
    for _ in range(1500):
        scores = (rng.random((4, 40)) < 0.5).astype(float)
        scores[rng.random(scores.shape) < 0.3] = math.nan
        one = variance_components((rng.random(40) < 0.5).astype(float), scores)
        assert one is not None
        kept.append(one)
    pooled = pool_components(kept)
    # Own variance 1/4 over about 28 tasks; the incumbent's 1/4 is shared on the 40 * 0.49 tasks of both: 0.25 / 40.
    assert pooled.sigma0**2 == pytest.approx(0.25 / 40, rel=0.08)
    assert pooled.sigma**2 + pooled.sigma0**2 == pytest.approx(0.5 / 28, rel=0.05)


def test_invariant_11_item_estimates_recover_a_known_simulator() -> None:
    """σ0, σ and s within 5 % at 10,000 generations of 64 tasks and 4 candidates."""
    rng = np.random.default_rng(11)
    n, s = 64, 0.06
    generations = []
    for _ in range(10_000):
        true_gains = rng.normal(-0.02, s, size=(4, 1))
        incumbent = (rng.random(n) < 0.5).astype(float)
        candidates = (rng.random((4, n)) < 0.5 + true_gains).astype(float)
        one = variance_components(incumbent, candidates)
        assert one is not None
        generations.append(one)
    pooled = pool_components(generations)
    assert pooled.sigma0 == pytest.approx(math.sqrt(0.25 / n), rel=0.05)
    assert pooled.sigma == pytest.approx(math.sqrt((0.25 - 0.02**2 - s**2) / n), rel=0.05)
    assert pooled.s == pytest.approx(s, rel=0.05)
    assert pooled.mu == pytest.approx(-0.02, abs=0.003)
    assert pooled.k == 40_000


def test_pooling_weights_by_candidates_and_restates_noise_at_the_last_n() -> None:
    small = VarianceComponents(mu=0.1, s=0.0, sigma=0.2, sigma0=0.1, k=2, n=16, s_cut=-0.01)
    large = VarianceComponents(mu=0.0, s=0.2, sigma=0.1, sigma0=0.05, k=4, n=64)
    pooled = pool_components([small, large])
    assert pooled.mu == pytest.approx(0.2 / 6)
    assert pooled.s**2 == pytest.approx((1 * -0.01 + 3 * 0.04) / 4)
    assert pooled.sigma == pytest.approx(0.1)  # both are sigma² n = 0.64
    assert pooled.sigma0 == pytest.approx(0.05)
    assert (pooled.k, pooled.n) == (6, 64)


def test_pooling_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one generation"):
        pool_components([])


def test_posterior_by_hand() -> None:
    # lam = 25 / 125 = 0.2; lam_bar = (25/4) / (125/4 + 36) = 6.25 / 67.25; mean of d is 4.
    components = VarianceComponents(mu=-3, s=5, sigma=10, sigma0=6, k=4, n=16)
    posterior = shared_noise_posterior(np.array([16.0, 0.0, 4.0, -4.0]), components)
    centre = -3 + 6.25 / 67.25 * 7
    assert posterior == pytest.approx([centre + 0.2 * 12, centre - 0.2 * 4, centre, centre - 0.2 * 8])


def test_posterior_of_missing_gains_is_missing_and_they_do_not_count() -> None:
    components = VarianceComponents(mu=-3, s=5, sigma=10, sigma0=6, k=4, n=16)
    posterior = shared_noise_posterior(np.array([16.0, math.nan, 0.0]), components)
    assert np.isnan(posterior[1])
    assert posterior[[0, 2]] == pytest.approx(shared_noise_posterior(np.array([16.0, 0.0]), components))


def test_posterior_coefficients_are_those_of_a_regression() -> None:
    """P2: regressing τ_i on (d̄, d_i − d̄) in simulated data gives λ̄ and λ."""
    rng = np.random.default_rng(12)
    components = VarianceComponents(mu=-3.0, s=5.0, sigma=10.0, sigma0=6.0, k=4, n=16)
    true_gains = rng.normal(-3.0, 5.0, size=(200_000, 4))
    gains = true_gains + rng.normal(0, 10.0, size=true_gains.shape) + rng.normal(0, 6.0, size=(200_000, 1))
    mean = gains.mean(axis=1, keepdims=True)
    between = float(((mean + 3.0) * (true_gains.mean(axis=1, keepdims=True) + 3.0)).mean() / ((mean + 3.0) ** 2).mean())
    within = float(((gains - mean) * true_gains).mean() / ((gains - mean) ** 2).mean())
    assert between == pytest.approx(6.25 / 67.25, abs=0.003)
    assert within == pytest.approx(components.lam, abs=0.002)
    residual = true_gains - shared_noise_posterior(gains, components)
    assert abs(residual.mean()) < 0.03
    assert abs(np.corrcoef(residual.ravel(), gains.ravel())[0, 1]) < 0.005


@given(mu=st.floats(-10, -0.1), s=st.floats(0.5, 10), sigma=st.floats(0.5, 20))
def test_p2_threshold_without_shared_noise(mu: float, s: float, sigma: float) -> None:
    """With σ0 = 0 the posterior mean is positive exactly above |μ| σ² / s²."""
    components = VarianceComponents(mu=mu, s=s, sigma=sigma, sigma0=0.0, k=4, n=16)
    bar = abs(mu) * sigma**2 / s**2
    assert bayes_threshold(components) == pytest.approx(bar)
    others = np.array([-20.0, 0.0, 5.0])
    assert shared_noise_posterior(np.append(others, bar * 1.001 + 1e-6), components)[-1] > 0
    assert shared_noise_posterior(np.append(others, bar * 0.999 - 1e-6), components)[-1] < 0


def test_threshold_without_real_spread() -> None:
    assert bayes_threshold(VarianceComponents(mu=-1, s=0, sigma=1, sigma0=0, k=4, n=16)) == math.inf
    assert bayes_threshold(VarianceComponents(mu=1, s=0, sigma=1, sigma0=0, k=4, n=16)) == -math.inf
