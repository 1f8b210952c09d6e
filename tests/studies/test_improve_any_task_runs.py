"""`heldout bench improve_any_task`: arms run the real loop, and what is read of them is what journals and truth say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from heldout.config import RunConfig, load_config, merge
from heldout.errors import BudgetExhausted
from heldout.loops import load_loop
from heldout.loops.base import Found
from heldout.loops.session import Session
from heldout.records import Verdict
from heldout.store.events import Decided
from heldout.store.training_events import AttemptEnded, Diagnosed
from heldout.studies.improve_any_task.arms import (
    ARMS,
    AS_DIAGNOSED,
    FULL,
    HARMFUL,
    MIXTURE,
    NO_PREFLIGHT,
    TWICE,
    WITHOUT_START,
    Arm,
    arms_of,
    run_config,
)
from heldout.studies.improve_any_task.bench import Bench
from heldout.studies.improve_any_task.measuring import RETAINED, Yard, skills_of
from heldout.studies.improve_any_task.null_gates import GATES, Asked, NullRates, null_rates, tally
from heldout.studies.improve_any_task.plans import TRAINED, Plan, Sizes, Start
from heldout.studies.improve_any_task.reading import Round, Trail, trail_of, without_start
from heldout.studies.improve_any_task.runs import Result, Wanted, run_all
from heldout.tasks import load_tasks
from heldout.workbench import Opening, open_run
from heldout.worlds.formats.learning import CAPS
from heldout.worlds.formats.reading import read_job
from heldout.worlds.formats.skills import pass_rate

TINY = Sizes(train=24, select=24, audit=40, retain=30, items=160, budget_s=2300.0, trainings=2, examples=1 / 64)
SEED = 7


def _ran(arm: Arm, start: Start, *, sizes: Sizes = TINY, seed: int = SEED) -> Result:
    return run_all([Wanted(start, run_config(arm, start, sizes, seed=seed))])[0]


@contextmanager
def _searched(config: RunConfig, folder: Path) -> Iterator[tuple[Session, Found]]:
    with open_run(config, Opening(folder / "run", command="test")) as opened:
        loop = load_loop(config.loop)(opened.session)
        try:
            found = loop.run(opened.start)
        except BudgetExhausted:
            found = loop.found(opened.start)
        yield opened.session, found


# ---- the arms


def test_arms_of_a_seed_share_their_tasks_and_differ_in_what_they_are_named_for() -> None:
    configs = {name: run_config(arm, "base", Sizes(), seed=5) for name, arm in ARMS.items() if not arm.of}
    assert len({one.tasks.model_dump_json() for one in configs.values()}) == 1
    assert len({json.dumps(one.model_dump(mode="json"), sort_keys=True) for one in configs.values()}) == len(configs)
    assert configs[FULL].tasks.seed == 505
    assert configs[NO_PREFLIGHT].options["preflight"]["enabled"] is False
    assert configs[AS_DIAGNOSED].options["decide_on"] == "train"
    assert configs["no assets"].options["assets"] is False
    assert configs["focal problem at random"].improver.options["focal"] == "random"
    assert configs["fixed recipe repeated"].improver.options["strategy"] == "repeat_first"
    assert {one.budget.cpu_s for name, one in configs.items() if name != MIXTURE} == {4500.0}
    assert all(one.gate.kind == "net" and not one.options["training_noise"] for one in configs.values())


def test_the_mixture_gets_the_steps_and_the_data_of_all_trainings_in_one() -> None:
    full, mixture = (run_config(ARMS[name], "base", Sizes(), seed=5) for name in (FULL, MIXTURE))
    assert mixture.options["train"]["steps"] == 4 * 300 + 3 * 30
    assert mixture.improver.options["examples"] == 4 * full.improver.options["examples"]
    assert mixture.search.generations == 1


def test_the_trained_start_has_learned_what_can_be_learned_and_has_few_arms() -> None:
    config = run_config(ARMS[FULL], "trained", TINY, seed=5)
    assert config.solver.model.options["skills"] == dict(TRAINED)
    assert all(TRAINED[name] == CAPS[name] for name in TRAINED)
    assert set(arms_of("trained")) == {FULL, WITHOUT_START, HARMFUL, f"{HARMFUL}, without the start"}
    assert HARMFUL in arms_of("instruct")
    assert HARMFUL not in arms_of("base")
    assert set(arms_of("base", few=(FULL,))) == {FULL, TWICE}


# ---- one run


def test_what_a_model_is_worth_is_exact_and_measured_on_the_sealed_tasks(tmp_path: Path) -> None:
    config = run_config(ARMS[FULL], "base", TINY, seed=SEED)
    with _searched(config, tmp_path) as (session, found):
        skills = skills_of(session, found.final.candidate)
        assert skills is not None
        spent = session.ledger.total
        worth = Yard(session).worth(found.final.candidate)
        assert session.ledger.total == spent  # what the study measures is not the run's
        tasks = load_tasks(config.tasks).open_role("audit").tasks
        rates = [pass_rate(skills, job) for task in tasks if (job := read_job(task.input)) is not None]
        assert worth.exact == pytest.approx(np.mean(rates))
        assert worth.retain == {name: skills.of(name) for name in RETAINED}
        assert worth.audit * len(tasks) == pytest.approx(round(worth.audit * len(tasks)))
        assert abs(worth.audit - float(np.mean(rates))) < 4 * np.sqrt(0.25 / len(tasks))


def test_the_trail_is_what_the_journal_says(tmp_path: Path) -> None:
    with _searched(run_config(ARMS[FULL], "base", TINY, seed=SEED), tmp_path) as (session, _found):
        trail = trail_of(session)
        attempts = session.recorder.every("attempt", AttemptEnded)
        assert [one.status for one in trail.rounds] == [*(one.status for one in attempts), ""], (
            "the budget ended in one"
        )
        assert trail.attempts == trail.rounds[:-1]
        diagnoses = session.recorder.every("diagnosis", Diagnosed)
        largest = [max(one.clusters, key=lambda cluster: cluster.count).count for one in diagnoses]
        named = [
            next(cluster.count for cluster in one.clusters if cluster.code == seen.dominant)
            for one, seen in zip(diagnoses, trail.rounds, strict=True)
        ]
        assert named == largest
        assert trail.dominant[0] == "stop"
        assert trail.changes
        assert 0 < trail.spent_s <= session.ledger.total.cpu_s <= TINY.budget_s
        assert trail.spent_s % TINY.step_s == pytest.approx(0.0)  # simulated seconds alone


@pytest.mark.parametrize("evaluations", [150, 165, 185, 210])
def test_the_round_that_the_budget_ended_costs_all_that_is_on_record_of_it(evaluations: int, tmp_path: Path) -> None:
    config = run_config(ARMS[FULL], "base", TINY, seed=SEED)
    changed = {"budget": {"cpu_s": None, "evaluations": evaluations}}
    with _searched(load_config([merge(config.model_dump(mode="json"), changed)]), tmp_path) as (session, found):
        assert session.ground is not None
        session.ground = replace(session.ground, trainer="transformers")  # whose seconds are all measured
        trail, start = trail_of(session), found.start.candidate.digest
        ended = {one.round for one in session.recorder.every("attempt", AttemptEnded)}
        cut = [one for one in trail.rounds if one.number not in ended]
        assert [one.status for one in cut] == [""]
        measured = session.engine.recorded.values()
        before = [one for one in measured if one.candidate == start and one.purpose in ("select", "noise")]
        rounds = session.ledger.total.cpu_s - sum(one.spend.cpu_s for one in before)
        assert sum(one.cpu_s for one in trail.rounds) == pytest.approx(rounds)
        assert cut[0].cpu_s > 0
        assert trail.wasted_share >= cut[0].cpu_s / session.ledger.total.cpu_s


def test_the_first_model_is_that_of_the_first_acceptance(tmp_path: Path) -> None:
    with _searched(run_config(ARMS[FULL], "base", TINY, seed=SEED), tmp_path) as (session, _found):
        decided = session.recorder.every("decision", Decided)
        accepted = next(one.candidates[0] for one in decided if one.decision.verdict is Verdict.ACCEPT)
        weights = session.store.load(accepted).weights
    found = _ran(ARMS[FULL], "base")
    assert found.first.weights == weights != found.begun.worth.weights
    assert found.first.exact is not None
    assert found.begun.worth.exact is not None
    assert found.first.exact > found.begun.worth.exact + 0.1
    assert found.later_gain < found.exact_gain
    rejected = _ran(arms_of("instruct")[HARMFUL], "instruct")
    assert rejected.first == rejected.begun.worth


def test_wasted_spend_is_that_of_attempts_that_left_the_model_as_it_was() -> None:
    rounds = (
        Round(number=1, dominant="stop", status="accepted", cpu_s=50.0),
        Round(number=2, dominant="count", status="rejected", cpu_s=20.0),
        Round(number=3, dominant="count", status="preflight_failed", cpu_s=5.0),
        Round(number=4, dominant="carry", status="", cpu_s=10.0),
        Round(number=5, dominant="carry", status="no_strategy", cpu_s=3.0),
    )
    trail = Trail(rounds=rounds, spent_s=100.0)
    assert trail.wasted_share == pytest.approx(0.35)
    assert (trail.count("accepted"), trail.failed, len(trail.attempts)) == (1, 1, 3)


def test_no_arm_spends_more_than_its_budget() -> None:
    names = [name for name, arm in ARMS.items() if not arm.of and name != MIXTURE]
    found = run_all([Wanted("instruct", run_config(ARMS[name], "instruct", TINY, seed=SEED)) for name in names])
    assert all(0 < one.trail.spent_s <= TINY.budget_s for one in found)
    assert all(one.begun.worth == found[0].begun.worth for one in found)  # one start, one world
    mixture = _ran(ARMS[MIXTURE], "instruct")
    assert mixture.trail.spent_s == TINY.step_s * (2 * (TINY.steps + TINY.short))


def test_equal_configs_leave_equal_results() -> None:
    assert _ran(ARMS[FULL], "base") == _ran(ARMS[FULL], "base")


def test_deciding_on_the_diagnosed_tasks_diagnoses_answers_and_no_crashes() -> None:
    found = _ran(ARMS[AS_DIAGNOSED], "base")
    assert len(found.trail.dominant) > 1
    assert "crashed" not in found.trail.dominant


def test_where_every_candidate_is_worse_the_start_wins_and_the_rule_of_the_paper_ships_a_loss() -> None:
    found = _ran(arms_of("instruct")[HARMFUL], "instruct")
    assert found.trail.count("rejected") == 2
    assert found.is_start
    assert (found.gain, found.exact_gain, found.select_gain) == (0.0, 0.0, 0.0)
    shipped = found.model_copy(update={"final": found.without_start})
    assert not shipped.is_start
    assert shipped.exact_gain < -0.05


@pytest.mark.parametrize(("name", "start"), [(FULL, "trained"), (FULL, "base"), (HARMFUL, "instruct")])
def test_the_final_without_the_start_is_that_of_the_loop_s_own_option(name: str, start: Start, tmp_path: Path) -> None:
    config = run_config(arms_of(start)[name], start, TINY, seed=SEED)
    with _searched(config, tmp_path / "with") as (session, found):
        ours = session.store.load(without_start(session, found)).weights
    papers = load_config([merge(config.model_dump(mode="json"), {"options": {"keep_start": False}})])
    with _searched(papers, tmp_path / "without") as (_session, found):
        assert found.final.candidate.weights == ours


def test_one_recipe_is_trained_with_two_seeds() -> None:
    found = _ran(Arm(twice=True, rounds=1), "base")
    assert found.noise is not None
    assert found.noise.n == TINY.select
    assert 0.0 < found.noise.flips < 0.5
    assert abs(found.noise.difference) <= found.noise.flips


# ---- many runs


def test_an_arm_of_another_arm_s_models_shares_its_runs() -> None:
    plan = Plan(sizes=replace(TINY, budget_s=1100.0, trainings=1), seeds=2, first_seed=40, workers=1)
    found = Bench(plan).run({"instruct": {name: ARMS[name] for name in (FULL, WITHOUT_START)}})["instruct"]
    full, without = found[FULL].results, found[WITHOUT_START].results
    assert [one.seed for one in full] == [40, 41]
    assert [one.begun for one in full] == [one.begun for one in without]
    assert [one.without_start for one in full] == [one.final for one in without]


# ---- gates without an effect


def test_null_trainings_change_nothing_truly_and_flip_tasks_all_the_same() -> None:
    still, moved = (tally(Asked(noise, 40, tuple(range(12)))) for noise in (0.0, 0.3))
    assert all(one.true == 0.0 for one in still)
    assert np.std([one.true for one in moved]) > 0.0
    assert 0.0 < np.mean([one.flips for one in still]) < np.mean([one.flips for one in moved]) < 0.5
    for one in (*still, *moved):
        assert one.accepted["net"] == one.accepted["greedy"] == (one.measured > 0.0)
        assert one.accepted["net"] >= one.accepted["noise"]
        assert not one.accepted["noise"] or one.measured > 2.0 * one.training_se
    assert max(one.training_se for one in moved) > 0.0
    assert still == tally(Asked(0.0, 40, tuple(range(12))))


def test_the_gates_accept_a_training_without_effect_as_often_as_chance_says() -> None:
    rates = null_rates(150, n=40, workers=1, noises=(0.0,))
    assert [one.gate for one in rates] == list(GATES)
    by_gate: dict[str, NullRates] = {one.gate: one for one in rates}
    net = by_gate["net"]
    assert abs(net.accepted / net.tables - net.expected) < 4 * np.sqrt(0.25 / net.tables)
    assert by_gate["noise"].accepted < net.accepted / 3
    assert by_gate["mcnemar"].accepted < net.accepted / 3
    assert net.true_sd == 0.0 < net.measured_sd
