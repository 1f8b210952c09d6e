"""The fast simulation against its own definition, the noise model and the simulated solver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from heldout.models.simulated_skill import probability_right, theta_for
from heldout.stats import variance_components
from heldout.studies.winners_curse.arms import EXTRA_RULES, RULES, WORLDS, Arm
from heldout.studies.winners_curse.coverage import coverage_table
from heldout.studies.winners_curse.simulated_items import answers, chance_right, theta_of
from heldout.studies.winners_curse.simulation import SimulatedRun, simulate
from heldout.studies.winners_curse.summaries import expected_components, rmse, run_arm


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


@pytest.mark.parametrize("skill", [0.01, 0.4, 0.52, 0.99])
def test_items_are_answered_as_the_simulated_solver_answers_them(skill: float) -> None:
    assert float(theta_of(np.array(skill))) == pytest.approx(theta_for(skill), abs=1e-3)
    for difficulty in (-1.5, 0.0, 0.7):
        ours = float(chance_right(skill, np.array([difficulty]))[0])
        assert ours == pytest.approx(probability_right(skill, difficulty), abs=1e-4)


def test_the_share_of_right_answers_is_the_skill() -> None:
    rng = np.random.default_rng(0)
    right = answers(0.4, rng.standard_normal(200_000), rng.random(200_000))
    assert right.mean() == pytest.approx(0.4, abs=4 * math.sqrt(0.24 / 200_000))


def test_the_same_seed_gives_the_same_run_and_rules_meet_the_same_items() -> None:
    greedy = simulate(Arm("greedy", 16), 3)
    assert greedy == simulate(Arm("greedy", 16), 3)
    assert greedy != simulate(Arm("greedy", 16), 4)
    assert simulate(Arm("pace", 16), 3).select_start == greedy.select_start


@pytest.mark.parametrize("rule", [*RULES, *EXTRA_RULES])
def test_a_run_is_the_sum_of_its_commits(rule: str) -> None:
    for seed in range(5):
        run = simulate(Arm(rule, 64), seed)
        assert run.reported == pytest.approx(math.fsum(commit.measured for commit in run.commits))
        assert run.gain == pytest.approx(math.fsum(commit.real for commit in run.commits))
        assert [commit.first for commit in run.commits] == [at == 0 for at in range(len(run.commits))]
        assert run.later_rewrites == (4 * (19 - run.commits[0].generation) if run.commits else 0)


def test_greedy_commits_only_measured_gains_and_pays_for_every_candidate() -> None:
    run = simulate(Arm("greedy", 16), 0)
    assert all(commit.measured > 0.0 for commit in run.commits)
    assert run.evaluations == 16 * (1 + 20 * 4)


def test_fresh_pays_for_new_items_and_a_budget_is_never_passed() -> None:
    free = simulate(Arm("fresh", 16), 0)
    assert free.evaluations > 1296
    assert (free.evaluations - 1296) % 64 == 0
    for rule, n in (("fresh", 16), ("greedy", 64), ("greedy", 256)):
        assert simulate(Arm(rule, n, budget=1296), 0).evaluations <= 1296


def test_best_of_n_weighs_the_same_rewrites_at_once() -> None:
    run = simulate(Arm("greedy", 16, generations=1, candidates=80), 0)
    assert run.evaluations == 16 * 81
    assert len(run.commits) <= 1


def test_without_redrawing_a_rewrite_of_equal_skill_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    still = replace(WORLDS["standard"], first=(0.0, 0.0), later=(0.0, 0.0), redraw=0.0)
    monkeypatch.setattr("heldout.studies.winners_curse.arms.WORLDS", {"still": still})
    run = simulate(Arm("greedy", 64, world_name="still"), 0)
    assert run.commits == ()
    assert run.audit_disagreement == 0.0
    assert run.audit_gain == 0.0


def test_expected_components_are_those_of_simulated_generations() -> None:
    arm = Arm("greedy", 400)
    known = expected_components(arm, skill=0.4, later=False)
    rng = np.random.default_rng(1)
    shared, own = [], []
    for _ in range(2_000):
        difficulty = rng.standard_normal(arm.n)
        incumbent = answers(0.4, difficulty, rng.random(arm.n))
        candidates = answers(np.full(4, 0.52), difficulty, rng.random((4, arm.n)))
        found = variance_components(incumbent, candidates)
        assert found is not None
        shared.append(found.sigma0**2)
        own.append(found.sigma**2)
    assert math.sqrt(_mean(shared)) == pytest.approx(known.sigma0, rel=0.03)
    assert math.sqrt(_mean(own)) == pytest.approx(known.sigma, rel=0.03)
    with pytest.raises(ValueError, match="outside the noise model"):
        expected_components(Arm("greedy", 16, world_name="alike"), skill=0.4, later=False)


def test_the_audit_is_unbiased_and_its_error_is_that_of_its_formula() -> None:
    arm = run_arm(Arm("greedy", 16), 400)
    errors = arm.audit_errors
    assert abs(errors.mean()) < 3 * errors.std() / math.sqrt(400)
    found = arm.rmse_audit
    assert found.value == pytest.approx(arm.audit_formula, abs=3 * found.standard_error)


def test_rmse_of_three_and_four_points() -> None:
    assert rmse([0.03, 0.04]).value == pytest.approx(100 * math.sqrt((0.0009 + 0.0016) / 2))


def test_the_audits_interval_covers_the_truth_in_93_to_97_of_100_runs() -> None:
    rows = coverage_table(1_000).rows
    assert [row[-1] for row in rows] == [True, True, True]


def test_greedy_inflates_on_a_small_set() -> None:
    runs: list[SimulatedRun] = [simulate(Arm("greedy", 16), seed) for seed in range(100)]
    assert 11.0 < 100 * _mean([run.inflation for run in runs]) < 19.0
