"""`heldout bench gso`: arms run the real loops, and what is read of them is what their journals and the truth say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from heldout.gates import make_gate
from heldout.loops import load_loop
from heldout.records import Candidate
from heldout.skills.guide import NO_SKILL as NO_SKILL_FILES
from heldout.skills.guide import start_guide
from heldout.skills.judge import RuleJudge
from heldout.store.events import Decided, TrackMoved
from heldout.store.skill_events import ModuleEdited, SelectTable
from heldout.studies.gso import ARMS, Arm, Bench, Plan, Sizes, World, run_config
from heldout.studies.gso.arms import BARE, FACTORIAL, FROM_RULES, NO_SKILL, available
from heldout.studies.gso.equal_cost import matched_arms
from heldout.studies.gso.measuring import ROLES, Yard, as_one_skill
from heldout.studies.gso.null_edits import GATES, null_edits, null_rates
from heldout.studies.gso.reading import Cost, cost_of, edits_of, edits_seen
from heldout.studies.gso.runs import Result, Wanted, run_jobs, run_once
from heldout.workbench import Opening, OpenRun, open_run
from heldout.worlds.tables.parts import RULES
from heldout.worlds.tables.source import TablesOptions
from heldout.worlds.tables.symbolic import play
from heldout.worlds.tables.truth import mean_rate

TINY = Sizes(train=12, select=10, audit=24, ood=8, rounds=4, batch=4, small=8, world=(240, 24))
TINY_PLAN = Plan(sizes=TINY, seeds=2, first_seed=40, trial_seeds=1, slips=(0.02, 0.1), tables=40, workers=1)
SEED = 41


def _wanted(arm: Arm, *, seed: int = SEED, base: Result | None = None) -> Wanted:
    return Wanted(arm, run_config(arm, World(), TINY, seed=seed), base)


@contextmanager
def _run(arm: Arm, folder: Path, *, sizes: Sizes = TINY, seed: int = SEED) -> Iterator[OpenRun]:
    config = run_config(arm, World(), sizes, seed=seed)
    with open_run(config, Opening(folder / "run", command="test")) as opened:
        load_loop(config.loop)(opened.session).run(opened.start)
        yield opened


# ---- the arms


def test_arms_of_a_seed_share_their_tasks_and_differ_in_what_they_are_named_for() -> None:
    configs = {name: run_config(arm, World(), Sizes(), seed=5) for name, arm in ARMS.items()}
    assert len({config.tasks.model_dump_json() for config in configs.values()}) == 1
    searching = [configs[name] for name, arm in ARMS.items() if arm.loop]
    assert len({json.dumps(one.model_dump(mode="json"), sort_keys=True) for one in searching}) == len(searching) == 14
    assert configs["gso"].tasks.seed == 505
    assert (configs["gso"].search.generations, configs["gso"].options["stop_after"]) == (20, 0)
    assert configs["gso, R > B"].gate.kind == "net"
    assert configs["gso, u ≥ 2"].gate.options == {"min_u": 2}
    assert configs["gso, any module"].options["modules"] == "any"
    assert configs["persistent, strict gate"].gate.kind == configs[FROM_RULES].gate.kind == "greedy"
    assert [name for name, one in configs.items() if not one.search.iterate] == ["best-of-N guides"]
    assert configs["persistent, GSO gate"].gate.kind == configs["gso"].gate.kind == "repairs_over_regressions"
    assert configs["one-shot"].solver.options["recovery"] is False
    assert configs["one-shot + recovery"].solver.options["recovery"] is True
    sizes = {"train": 40, "select": 20, "audit": 200}
    assert {key: getattr(configs["gso"].tasks, key) for key in sizes} == sizes
    assert configs["gso"].tasks.reports == {"ood": 60}
    assert configs["gso"].tasks.options == {"count": TablesOptions().count, "ood": TablesOptions().ood}


def test_the_worlds_of_the_study_are_as_noisy_as_they_say() -> None:
    config = run_config(ARMS["gso"], World(0.1), TINY, seed=1)
    assert config.solver.model.options == {"slip": 0.1}
    assert Yard(config, recovery=True).slip == 0.1


def test_without_its_package_gepa_is_left_out_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heldout.studies.gso.arms.find_spec", lambda _: None)
    left = available({**ARMS, **BARE, **FACTORIAL})
    assert (ARMS | BARE | FACTORIAL).keys() - left.keys() == {"GEPA", "GEPA, no recovery"}


@pytest.mark.parametrize("name", [name for name, arm in available(ARMS).items() if arm.loop])
def test_every_arm_that_searches_runs_its_loop_and_keeps_its_truth(name: str) -> None:
    arm = ARMS[name]
    found = run_once(_wanted(arm))
    final = Candidate(files=dict(found.files))
    yard = Yard(run_config(arm, World(), TINY, seed=SEED), arm.recovery)
    assert found.exact.audit == mean_rate(final.files, yard.roles.jobs["audit"], recovery=arm.recovery)
    assert [len(found.measured.scores(role)) for role in ROLES] == [12, 10, 24, 8]
    assert found.cost.evaluations > 0
    assert found.cost.calls == found.cost.episode_calls + found.cost.questions > 0
    rules = as_one_skill(Candidate(files=start_guide())).files
    start = start_guide() if arm.guide else rules if arm.rules else NO_SKILL_FILES
    assert found.is_start == (final.files == start)
    assert (found.begun == start) == (arm.loop not in ("one_shot_skill", "persistent_skill", "gepa") or arm.rules)
    assert found.begun_audit == mean_rate(found.begun, yard.roles.jobs["audit"], recovery=arm.recovery)
    assert bool(found.seen) <= (arm.loop == "gso" and arm.iterate)
    assert (found.judged is None) == (final.files == NO_SKILL_FILES)


def test_the_same_candidate_scores_alike_in_every_arm_of_a_seed() -> None:
    start = run_once(_wanted(ARMS["start guide"]))
    again = run_once(_wanted(Arm(of="gso"), base=start.model_copy(update={"cost": Cost(evaluations=7)})))
    assert again.measured == start.measured
    assert again.cost.evaluations == 7, "what it cost to find is what its search cost"
    bare = run_once(_wanted(ARMS["gso, no recovery"], base=start))
    assert bare.exact.audit < start.exact.audit
    assert run_once(_wanted(ARMS["start guide, no recovery"])).exact == bare.exact


def test_a_measured_score_is_the_mean_of_what_the_world_plays() -> None:
    yard = Yard(run_config(ARMS["gso"], World(), TINY, seed=SEED), recovery=True)
    start = Candidate(files=start_guide())
    jobs = yard.roles.jobs["audit"]
    rates = yard.rates(start, jobs)
    played = np.array([[play(start.files, job, seed=seed).passed for seed in range(200)] for job in jobs])
    assert played.mean() == pytest.approx(rates.mean(), abs=0.02)
    assert yard.measured(start).mean("audit") == pytest.approx(rates.mean(), abs=0.3)
    assert yard.measured(start).mean("audit", 8) == pytest.approx(yard.measured(start).scores("audit")[:8].mean())


@pytest.mark.slow
def test_a_result_does_not_depend_on_the_processes_that_made_it() -> None:
    jobs = [[_wanted(ARMS["gso"], seed=seed), _wanted(ARMS["one-shot"], seed=seed)] for seed in (0, 1)]
    assert run_jobs(jobs, workers=2) == run_jobs(jobs, workers=1)


def test_the_bench_runs_an_arm_once_and_an_arm_of_its_final_after_it() -> None:
    bench = Bench(TINY_PLAN)
    found = bench.run({"gso, no recovery": ARMS["gso, no recovery"]})[World()]
    both = bench.run({name: ARMS[name] for name in ("gso", "gso, no recovery")})[World()]
    assert found["gso, no recovery"].results == both["gso, no recovery"].results
    assert [one.files for one in both["gso"].results] == [one.files for one in both["gso, no recovery"].results]
    assert [one.seed for one in both["gso"].results] == [40, 41]
    assert both["gso, no recovery"].calls == both["gso"].calls


def test_the_rules_of_a_guide_become_one_skill_with_the_same_sentences() -> None:
    skill = as_one_skill(Candidate(files=start_guide()))
    held = [rule.name for rule in RULES if f"- {rule.text}\n" in skill.files["SKILL.md"]]
    assert held == [rule.name for rule in RULES if rule.start]
    with pytest.raises(ValueError, match="expected a guide"):
        as_one_skill(skill)


# ---- the loops of the study alone


def test_the_judge_alone_keeps_an_edit_exactly_where_its_total_rises_and_runs_no_select_sweep(tmp_path: Path) -> None:
    with _run(ARMS["gso, judge alone"], tmp_path, sizes=Sizes(12, 10, 24, 8, rounds=8, batch=4)) as opened:
        session, judge = opened.session, RuleJudge()
        decided = [one for one in session.recorder.every("decision", Decided) if one.candidates]
        assert {one.decision.verdict.value for one in decided} == {"accept", "reject"}
        for one in decided:
            before, after = (
                judge.judge(session.store.load(digest)).total or 0.0 for digest in (one.incumbent, *one.candidates)
            )
            assert (one.decision.verdict.value == "accept") == (after > before)
        assert not session.recorder.every("skill.table", SelectTable)
        swept = {(one.purpose, one.repeat) for one in session.engine.recorded.values() if one.purpose == "select"}
        assert swept == {("select", 0)}


def test_a_skill_of_the_start_guides_rules_is_edited_without_a_draft(tmp_path: Path) -> None:
    with _run(ARMS[FROM_RULES], tmp_path, sizes=Sizes(12, 10, 24, 8, rounds=6, batch=4)) as opened:
        recorder, start = opened.session.recorder, opened.start
        assert start == as_one_skill(Candidate(files=start_guide()))
        edits = recorder.every("skill.edit", ModuleEdited)
        assert edits[0].head == start.digest
        assert min(one.round for one in edits) == 1
        assert all(one.generation > 0 for one in recorder.every("track.moved", TrackMoved))
    found = run_once(_wanted(ARMS[FROM_RULES]))
    flattened = run_once(_wanted(FACTORIAL["start's rules as one skill"], base=run_once(_wanted(ARMS["start guide"]))))
    assert found.begun_audit == flattened.exact.audit == flattened.begun_audit


def test_best_of_n_edits_the_start_alone_and_chooses_the_best_on_select(tmp_path: Path) -> None:
    with _run(ARMS["best-of-N guides"], tmp_path, sizes=Sizes(12, 10, 24, 8, rounds=8, batch=4)) as opened:
        recorder, start = opened.session.recorder, opened.start.digest
        edits = [one for one in recorder.every("skill.edit", ModuleEdited) if one.digest]
        assert len(edits) >= 3
        assert {one.head for one in edits} == {start}
        gains = {one.candidate: one.repairs - one.regressions for one in recorder.every("skill.table", SelectTable)}
        moves = recorder.every("track.moved", TrackMoved)
        assert len(moves) == (max(gains.values()) > 0)
        assert all(gains[one.target] == max(gains.values()) for one in moves)


# ---- what is read of a run


def test_costs_are_what_the_ledger_paid_for_until_the_final_selection(tmp_path: Path) -> None:
    with _run(ARMS["gso"], tmp_path) as opened:
        cost, total = cost_of(opened.folder), opened.session.ledger.total
        assert (cost.evaluations, cost.episode_calls) == (total.evaluations, total.calls)
        assert cost.tokens == total.tokens_in + total.tokens_out
        assert cost.skill_calls == cost.evaluations, "a guide has one writer's call in every episode"
        assert cost.recoveries == sum(one.measures["recoveries"] for one in opened.session.engine.recorded.values())
        recorder = opened.session.recorder
        asked = sum(kind in ("fault.attributed", "skill.edit") for kind, _ in recorder.steps)
        assert cost.questions == asked > 0


def test_edits_are_the_moves_of_the_head_and_a_draft_is_none(tmp_path: Path) -> None:
    sizes = Sizes(20, 20, 24, 8, rounds=12, batch=8)
    with _run(ARMS["persistent, strict gate"], tmp_path, sizes=sizes) as opened:
        session = opened.session
        yard = Yard(session.config, recovery=True)
        found = edits_of(session, yard)
        moves = [one for one in session.recorder.every("track.moved", TrackMoved) if one.generation > 0]
        assert session.recorder.every("track.moved", TrackMoved)[0].generation == 0
        assert found.accepted == len(moves) > 0
        falls = 0
        for move in moves:
            old, new = (session.store.load(digest).files for digest in (move.origin, move.target))
            falls += mean_rate(new, yard.roles.pool) < mean_rate(old, yard.roles.pool) - 1e-9
        assert found.harmful == falls <= found.accepted
        assert found.proposed == sum(
            bool(one.candidates) for one in session.recorder.every("decision", Decided) if one.generation > 0
        )
        assert {job.origin.vocabulary for job in yard.roles.pool} == {"A"}
        assert len(yard.roles.pool) == TablesOptions().count // 4 == Sizes().world[0] // 4


def test_an_edit_without_effect_is_known_by_the_truth_and_not_by_its_score(tmp_path: Path) -> None:
    with _run(ARMS["gso"], tmp_path, sizes=Sizes(12, 10, 24, 8, rounds=12, batch=8)) as opened:
        session = opened.session
        yard = Yard(session.config, recovery=True)
        seen = edits_seen(session, yard, weight=2.0, min_u=1.0)
        notes = {one.round: one.proposal.note for one in session.recorder.every("skill.edit", ModuleEdited)}
        tables = session.recorder.every("skill.table", SelectTable)
        assert len(seen) == len(tables) > 3
        for one, table in zip(seen, tables, strict=True):
            if notes[table.round].startswith("adds null_"):
                assert one.null
                assert one.true == pytest.approx(0.0, abs=1e-12)
            if one.null:
                assert 0.0 < one.expected < 0.5
            assert one.measured == pytest.approx((table.repairs - table.regressions) / 10)
        assert any(one.null for one in seen)
        assert not all(one.null for one in seen)
        decided = {one.generation: one.decision.verdict.value for one in session.recorder.every("decision", Decided)}
        assert [one.accepted for one in seen] == [decided[table.round] == "accept" for table in tables]


# ---- edits without effect


def test_the_sentences_without_effect_change_no_rate() -> None:
    yard = Yard(run_config(ARMS["gso"], World(), TINY, seed=SEED), recovery=True)
    start = Candidate(files=start_guide())
    assert len(null_edits()) == 12
    for edit in null_edits():
        assert edit.digest != start.digest
        assert np.array_equal(yard.rates(edit, yard.roles.pool), yard.rates(start, yard.roles.pool))


def test_the_gates_accept_edits_without_effect_as_often_as_is_computed_from_each_tasks_noise() -> None:
    plan = Plan(sizes=Sizes(12, 20, 24, 8), seeds=2, first_seed=40, tables=500)
    noisy, calm = null_rates(plan, [World(0.1), World(0.0)]).values()
    assert calm[0].disagreement < noisy[0].disagreement
    found = [*noisy, *calm]
    assert [one.rule for one in found] == [*GATES, *GATES]
    for one in found:
        error = (one.by_task * (1.0 - one.by_task) / one.tables) ** 0.5
        assert abs(one.rate - one.by_task) < 4.0 * error, one
        assert 0.03 < one.disagreement < 0.3
    assert found[0].rate > found[2].rate, "a least u of 2 lets in fewer"
    assert make_gate(GATES["R > B"]).name == "net"


# ---- equal cost


def test_arms_are_given_rounds_until_they_cost_what_gso_costs() -> None:
    bench = Bench(TINY_PLAN)
    arms = {name: ARMS[name] for name in (NO_SKILL, "gso", "EvoSkill-like", "one-shot", "start guide")}
    before = bench.run(arms)[World()]
    matched = matched_arms(bench, before, before["gso"].calls)
    assert matched["gso"] == ARMS["gso"]
    assert matched["one-shot"] == ARMS["one-shot"], "without rounds nothing can be raised"
    assert matched[NO_SKILL] == ARMS[NO_SKILL]
    assert matched["EvoSkill-like"].more_rounds > 0, "children are scored once, so it costs less"
    after = bench.run({"EvoSkill-like": matched["EvoSkill-like"]})[World()]
    target = before["gso"].calls
    assert abs(after["EvoSkill-like"].calls - target) < abs(before["EvoSkill-like"].calls - target)
