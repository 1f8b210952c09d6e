"""The believed gain's modelled overstatement: what choosing among noisy scores is expected to have added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heldout.records import Verdict
from heldout.stats import VarianceComponents, pool_components
from heldout.store.events import Decided, NoiseEstimated

__all__ = ["modelled_overstatement"]

_DRAWS, _FEWEST_DRAWS, _ALL_DRAWS = 20_000, 2_000, 400_000
"""Simulated runs: at most, at least, and over all generations. 20,000 keep the Monte-Carlo error below 0.1 points."""

_RARE = 20
"""With fewer simulated runs than this that agree with what was observed, a generation teaches nothing."""


def modelled_overstatement(decisions: Sequence[Decided], estimates: Sequence[NoiseEstimated]) -> float | None:
    """Expected select error of the final head minus the start's, a fraction of one, by simulating this run.

    The noise model of winners_curse.md, section 4, carried through the run: each head keeps the select error with
    which it was chosen, since the select tasks are reused, and its candidates draw their own. Simulated runs are kept
    where their best gain has the sign of the observed one, and move where the run moved. Variances are pooled over
    the run, each generation has its own mean. For one generation this is `stats.committed_overstatement`; summing
    that over the steps of a reused set would count errors that a later head no longer has. Candidates that inherit
    the head's answers on many tasks overstate less than this. 0 where nothing was accepted, None where a generation
    up to the last accepted one has no estimate.
    """
    accepted = [place for place, one in enumerate(decisions) if one.decision.verdict is Verdict.ACCEPT]
    if not accepted:
        return 0.0
    estimated = {one.generation: one for one in estimates}
    lived = decisions[: accepted[-1] + 1]
    if any(one.generation not in estimated for one in lived):
        return None
    parts = [_components(estimated[one.generation], k=len(one.candidates)) for one in lived]
    pooled = pool_components(parts)
    rng = np.random.default_rng(0)
    draws = min(_DRAWS, max(_FEWEST_DRAWS, _ALL_DRAWS // len(lived)))
    start = rng.normal(0.0, pooled.sigma0, draws)
    head = start.copy()
    for decided, part in zip(lived, parts, strict=True):
        errors, gains = _best(rng, head, pooled=pooled, part=part)
        moved = errors if decided.decision.verdict is Verdict.ACCEPT else head
        kept = _agreeing(rng, gains, observed=_best_gain(decided))
        start, head = start[kept], moved[kept]
    return float((head - start).mean())


def _best(
    rng: np.random.Generator, head: NDArray[np.float64], *, pooled: VarianceComponents, part: VarianceComponents
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Select error and measured gain of the best candidate of a generation, in every simulated run."""
    shape = (len(head), part.k)
    errors = rng.normal(0.0, pooled.sigma, shape)
    gains = rng.normal(part.mu, pooled.s, shape) + errors - head[:, None]
    best = gains.argmax(axis=1)
    rows = np.arange(len(head))
    return errors[rows, best], gains[rows, best]


def _agreeing(rng: np.random.Generator, gains: NDArray[np.float64], *, observed: float | None) -> NDArray[np.int64]:
    """As many simulated runs as before, drawn from those whose best gain has the observed sign."""
    everyone = np.arange(len(gains))
    agreeing = everyone if observed is None else np.flatnonzero((gains > 0.0) == (observed > 0.0))
    return everyone if len(agreeing) < _RARE else rng.choice(agreeing, len(gains))


def _best_gain(decided: Decided) -> float | None:
    measured = [score for score in decided.scores if score is not None]
    return None if decided.incumbent_score is None or not measured else max(measured) - decided.incumbent_score


def _components(estimate: NoiseEstimated, *, k: int) -> VarianceComponents:
    return VarianceComponents(
        mu=estimate.mu,
        s=estimate.s,
        sigma=estimate.sigma,
        sigma0=estimate.sigma0,
        k=k,
        n=estimate.n,
        s_cut=estimate.s_cut,
        sigma0_cut=estimate.sigma0_cut,
    )
