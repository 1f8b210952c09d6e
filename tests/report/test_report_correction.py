"""The corrected gain: a model, checked against the closed form, the fresh-set simulation, and whole simulated runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from heldout.records import Decision, Verdict
from heldout.report import modelled_overstatement
from heldout.stats import VarianceComponents, committed_overstatement, expected_max_normal, variance_components
from heldout.store.events import Decided, NoiseEstimated


def decision(generation: int, accepted: bool, gains: Sequence[float]) -> Decided:
    verdict = Verdict.ACCEPT if accepted else Verdict.REJECT
    names = tuple(f"{generation}.{place}" for place in range(len(gains)))
    return Decided(
        generation=generation, incumbent="start", candidates=names, incumbent_score=0.4,
        scores=tuple(0.4 + gain for gain in gains), winner=names[int(np.argmax(gains))],
        decision=Decision(gate="greedy", verdict=verdict),
    )  # fmt: skip


def estimate(generation: int, mu: float, s: float, sigma: float, sigma0: float) -> NoiseEstimated:
    return NoiseEstimated(
        generation=generation, n=64, mu=mu, s=s, sigma=sigma, sigma0=sigma0, lam=0.0, expected_overstatement=0.0
    )


def test_nothing_accepted_overstates_nothing() -> None:
    assert modelled_overstatement([decision(1, False, [-0.1])], [estimate(1, 0, 0.1, 0.1, 0)]) == 0.0


def test_without_estimates_the_correction_is_unknown() -> None:
    assert modelled_overstatement([decision(1, True, [0.1])], []) is None


def test_one_certain_commit_is_the_closed_form() -> None:
    # mu = 0.5 commits always, so no filter: c_4 sigma^2 / sqrt(s^2 + sigma^2) = 1.029 * 0.01 / 0.1118 = 0.0921
    told = modelled_overstatement([decision(1, True, [0.5] * 4)], [estimate(1, 0.5, 0.05, 0.1, 0.06)])
    assert told == pytest.approx(expected_max_normal(4) * 0.01 / 0.0125**0.5, abs=0.002)
    assert told == pytest.approx(0.0921, abs=0.002)


def test_one_generation_is_the_simulated_committed_overstatement() -> None:
    # winners_curse.md, section 4: K = 4, s = 5, sigma = 10, sigma0 = 6, mu = -3 gives 12.1 points
    told = modelled_overstatement([decision(1, True, [0.1] * 4)], [estimate(1, -0.03, 0.05, 0.1, 0.06)])
    fresh = committed_overstatement(VarianceComponents(mu=-0.03, s=0.05, sigma=0.1, sigma0=0.06, k=4, n=64))
    assert told == pytest.approx(fresh.overstatement, abs=0.003)
    assert told == pytest.approx(0.121, abs=0.003)


def test_a_later_head_has_only_its_own_error() -> None:
    one = modelled_overstatement([decision(1, True, [0.5] * 4)], [estimate(1, 0.5, 0.05, 0.1, 0.0)])
    certain = [decision(generation, True, [0.5] * 4) for generation in (1, 2, 3)]
    three = modelled_overstatement(certain, [estimate(generation, 0.5, 0.05, 0.1, 0.0) for generation in (1, 2, 3)])
    assert one is not None
    assert three == pytest.approx(one, abs=0.002)


def test_what_was_cut_from_the_variances_is_added_back() -> None:
    # s² is 0.01, and −0.01 cut to 0: on average there is no real spread, so all of c_4 sigma = 0.103 is luck.
    decisions = [decision(generation, True, [0.9] * 4) for generation in (1, 2)]
    wide, cut = (estimate(generation, 0.9, s, 0.1, 0.0) for generation, s in ((1, 0.1), (2, 0.0)))
    told = modelled_overstatement(decisions, [wide, cut.model_copy(update={"s_cut": -0.01})])
    assert told == pytest.approx(expected_max_normal(4) * 0.1, abs=0.002)


def test_it_is_the_same_every_time() -> None:
    arguments = [decision(1, True, [0.1, 0.2])], [estimate(1, 0.0, 0.05, 0.1, 0.06)]
    assert modelled_overstatement(*arguments) == modelled_overstatement(*arguments)


def simulated_run(seed: int, *, generations: int, n: int) -> tuple[float, float | None]:
    """Overstatement of a greedy run on one reused set, in truth and by the model."""
    rng = np.random.default_rng(seed)
    easy = rng.beta(1.2, 1.2, n)

    def solve(skill: float) -> np.ndarray:
        return (rng.random(n) < np.clip(easy + skill - 0.5, 0, 1)).astype(float)

    def truth(skill: float) -> float:
        return float(np.clip(easy + skill - 0.5, 0, 1).mean())

    skill, scores = 0.4, solve(0.4)
    begun, first = truth(skill), scores
    decisions, estimates = [], []
    for generation in range(1, generations + 1):
        skills = skill + rng.normal(0.08 if generation == 1 else -0.04, 0.05, 4)
        tables = np.stack([solve(one) for one in skills])
        gains = (tables - scores).mean(axis=1)
        parts = variance_components(scores, tables)
        assert parts is not None
        accepted = bool(gains.max() > 0)
        told = estimate(generation, parts.mu, parts.s, parts.sigma, parts.sigma0)
        estimates.append(told.model_copy(update={"s_cut": parts.s_cut, "sigma0_cut": parts.sigma0_cut}))
        decisions.append(decision(generation, accepted, gains.tolist()))
        if accepted:
            skill, scores = float(skills[gains.argmax()]), tables[gains.argmax()]
    overstated = float((scores - first).mean()) - (truth(skill) - begun)
    return overstated, modelled_overstatement(decisions, estimates)


@pytest.mark.parametrize(("generations", "n"), [(1, 64), (6, 64)])
def test_over_whole_runs_the_model_takes_away_what_selection_added(generations: int, n: int) -> None:
    found = np.array([simulated_run(seed, generations=generations, n=n) for seed in range(80)], dtype=float)
    true, modelled = found.mean(axis=0)
    error = found[:, 0].std(ddof=1) / len(found) ** 0.5
    assert true > 0.03
    assert modelled == pytest.approx(true, abs=3 * error + 0.005)
