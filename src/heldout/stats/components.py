"""Where a generation's spread comes from, and what it says about each candidate's true gain.

The model of winners_curse.md, section 4, for measured gains d_i of K candidates over one incumbent:

    d_i = τ_i + ε0 + ε_i,   τ_i ~ N(μ, s²),   ε0 ~ N(0, σ0²) shared,   ε_i ~ N(0, σ²) own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.stats.paired import mean_measured

__all__ = [
    "VarianceComponents",
    "bayes_threshold",
    "pool_components",
    "shared_noise_posterior",
    "variance_components",
]


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Mean and standard deviations of a generation, in the unit of the gains."""

    mu: float
    """Mean true gain."""
    s: float
    """Standard deviation of true gains within the generation."""
    sigma: float
    """Standard deviation of each gain's own noise, at `n` tasks."""
    sigma0: float
    """Standard deviation of the noise that all gains of a generation share, at `n` tasks."""
    k: int
    """Candidates with a measured gain (in all generations, once pooled)."""
    n: int
    """Tasks of the set."""
    s_cut: float = 0.0
    """How far below 0 the estimate of s² fell before it was cut there (≤ 0); pooling adds it back."""
    sigma0_cut: float = 0.0
    """The same for σ0²."""

    @property
    def lam(self) -> float:
        """λ = s² / (s² + σ²): the share of the spread within a generation that is real; 0 without spread."""
        return _share(self.s**2, self.sigma**2)


def variance_components(incumbent: NDArray[np.float64], candidates: NDArray[np.float64]) -> VarianceComponents | None:
    """Estimate the components from per-task scores, shapes (n,) and (K, n); None below two shared tasks.

    With z_ij = y_ij − y_0j: σ0² ≈ mean over i ≠ k of Cov_j(z_i, z_k) / n, σ² ≈ mean_i Var_j(z_i) / n − σ0²,
    s² ≈ Var_i(d_i) − σ², each cut at 0 (how much was cut is kept). Tasks missing for a candidate are left
    out of its mean and of its covariances. One candidate alone shows no shared noise and no spread: σ0 = s = 0.
    """
    differences = candidates - incumbent
    differences = differences[(~np.isnan(differences)).sum(axis=1) >= 2]
    k, n = differences.shape
    if k == 0:
        return None
    gains = mean_measured(differences)
    covariance = _covariance_of_means(differences, gains)
    own_and_shared = float(np.trace(covariance)) / k
    shared = (float(covariance.sum()) - k * own_and_shared) / (k * (k - 1)) if k > 1 else 0.0
    own = max(0.0, own_and_shared - shared)
    real = float(gains.var(ddof=1)) - own if k > 1 else 0.0
    return VarianceComponents(
        mu=float(gains.mean()),
        s=math.sqrt(max(0.0, real)),
        sigma=math.sqrt(own),
        sigma0=math.sqrt(max(0.0, shared)),
        k=k,
        n=n,
        s_cut=min(0.0, real),
        sigma0_cut=min(0.0, shared),
    )


def pool_components(generations: Sequence[VarianceComponents]) -> VarianceComponents:
    """Average over generations; noise is stated at the number of tasks of the last one.

    μ and σ² are weighted by K, s² and σ0² by K − 1 (a single candidate shows neither). Variances are averaged
    with what was cut off below 0, and cut once at the end, so that many small generations are not biased up.
    """
    if not generations:
        raise ValueError("expected at least one generation to pool")
    n = generations[-1].n
    k = sum(one.k for one in generations)
    free = sum(one.k - 1 for one in generations)
    real = sum((one.k - 1) * (one.s**2 + one.s_cut) for one in generations) / max(free, 1)
    shared = sum((one.k - 1) * (one.sigma0**2 + one.sigma0_cut) * one.n for one in generations) / (max(free, 1) * n)
    own = sum(one.k * one.sigma**2 * one.n for one in generations) / (k * n)
    return VarianceComponents(
        mu=sum(one.k * one.mu for one in generations) / k,
        s=math.sqrt(max(0.0, real)),
        sigma=math.sqrt(own),
        sigma0=math.sqrt(max(0.0, shared)),
        k=k,
        n=n,
        s_cut=min(0.0, real),
        sigma0_cut=min(0.0, shared),
    )


def shared_noise_posterior(gains: NDArray[np.float64], components: VarianceComponents) -> NDArray[np.float64]:
    """Posterior mean of each true gain (P2), over the last axis; NaN where the gain is NaN.

    E[τ_i | d] = μ + λ̄ (d̄ − μ) + λ (d_i − d̄), λ̄ = (s²/K) / ((s² + σ²)/K + σ0²), K the measured gains.
    """
    measured = np.maximum((~np.isnan(gains)).sum(axis=-1, keepdims=True), 1)
    mean = mean_measured(gains)[..., None]
    real, own, shared = components.s**2, components.sigma**2, components.sigma0**2
    denominator = real + own + measured * shared
    lam_bar = real / np.where(denominator > 0.0, denominator, 1.0)
    posterior: NDArray[np.float64] = components.mu + lam_bar * (mean - components.mu) + components.lam * (gains - mean)
    return posterior


def bayes_threshold(components: VarianceComponents) -> float:
    """The measured gain above which the posterior mean is positive when σ0 = 0: −μ σ² / s².

    |μ| σ² / s² for the usual μ < 0. Without real spread (s = 0) no gain matters: −inf if μ > 0, else inf.
    """
    if components.s == 0.0:
        return -math.inf if components.mu > 0.0 else math.inf
    return -components.mu * components.sigma**2 / components.s**2


def _covariance_of_means(differences: NDArray[np.float64], gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K, K): covariance over tasks, of the tasks that both have, scaled to that of the two means.

    Two means over n_i and n_k tasks that share m of them covary by m Cov(z_i, z_k) / (n_i n_k).
    """
    measured = (~np.isnan(differences)).astype(np.float64)
    centred = np.where(measured > 0.0, differences - gains[:, None], 0.0)
    shared_tasks = measured @ measured.T
    counts = measured.sum(axis=1)
    scale = shared_tasks / (np.maximum(shared_tasks - 1.0, 1.0) * np.outer(counts, counts))
    covariance: NDArray[np.float64] = (centred @ centred.T) * scale
    return covariance


def _share(part: float, rest: float) -> float:
    return part / (part + rest) if part > 0.0 else 0.0
