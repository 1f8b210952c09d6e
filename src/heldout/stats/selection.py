"""The winner's curse: by how much the best of several noisy gains overstates the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from heldout.stats.components import VarianceComponents, shared_noise_posterior

__all__ = ["CommittedOverstatement", "committed_overstatement", "expected_max_normal", "selection_overstatement"]

_REACH, _STEPS = 12.0, 4801


@dataclass(frozen=True, slots=True)
class CommittedOverstatement:
    """Measured minus true gain of the candidates that a rule commits, by simulation."""

    overstatement: float | None
    """Mean over commits; None when the rule never committed."""
    standard_error: float | None
    """Monte-Carlo standard error of `overstatement`; None below two commits."""
    harmful_share: float | None
    """Share of commits whose true gain is negative."""
    commit_rate: float
    """Share of generations that commit."""


@lru_cache(maxsize=1024)
def expected_max_normal(k: int) -> float:
    """c_K: the expected maximum of K independent standard normals.

    ∫ x K φ(x) Φ(x)^(K−1) dx by the trapezoidal rule, which converges faster than any power of the step
    for an integrand that is smooth and vanishes at both ends; exact to about 1e-12.
    """
    if k < 1:
        raise ValueError(f"expected at least one candidate, got {k!r}")
    x = np.linspace(-_REACH, _REACH, _STEPS)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in x.tolist()])
    density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return float((x * k * density * below ** (k - 1)).sum() * (x[1] - x[0]))


def selection_overstatement(k: int, effect_sd: float, noise_sd: float) -> float:
    """P1: expected measured minus true gain of the best of K candidates, c_K σ² / √(s² + σ²).

    `effect_sd` is s, `noise_sd` is σ (own noise, not the shared σ0, which does not change who wins).
    Before any filter: gains that were also committed are worse, see `committed_overstatement`.
    """
    spread = math.hypot(effect_sd, noise_sd)
    return expected_max_normal(k) * noise_sd**2 / spread if spread > 0.0 else 0.0


def committed_overstatement(
    components: VarianceComponents,
    *,
    rule: Literal["greedy", "bayes"] = "greedy",
    draws: int = 200_000,
    seed: int = 0,
) -> CommittedOverstatement:
    """Simulate generations of `components.k` candidates and average over those that commit.

    `greedy` commits the largest gain iff it is positive; `bayes` the largest posterior mean (P2 with
    `components` as the known truth) iff it and its gain are positive. Demanding d > 0 selects the shared
    noise too, so this exceeds P1 (winners_curse.md, section 4). Same seed, same answer.
    """
    rng = np.random.default_rng(seed)
    true_gains = rng.normal(components.mu, components.s, size=(draws, components.k))
    gains = true_gains + rng.normal(0.0, components.sigma, size=true_gains.shape)
    gains += rng.normal(0.0, components.sigma0, size=(draws, 1))
    merit = gains if rule == "greedy" else shared_noise_posterior(gains, components)
    rows = np.arange(draws)
    best = merit.argmax(axis=1)
    committed = (merit[rows, best] > 0.0) & (gains[rows, best] > 0.0)
    truth = true_gains[rows, best][committed]
    excess = gains[rows, best][committed] - truth
    count = len(excess)
    return CommittedOverstatement(
        overstatement=float(excess.mean()) if count else None,
        standard_error=float(excess.std(ddof=1)) / math.sqrt(count) if count > 1 else None,
        harmful_share=float((truth < 0.0).mean()) if count else None,
        commit_rate=count / draws,
    )
