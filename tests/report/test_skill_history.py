"""What the index says of a loop over skills, with answers worked out by hand from the story."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from skill_story import ASKED, DRAFT, EPISODE, FINAL, NONE, START, TRANSIENT, Told, skill_run

from heldout.config import RunConfig
from heldout.records import Spend
from heldout.report import (
    Fate,
    SkillHistory,
    candidates,
    generations,
    ledger_rows,
    means,
    run_json,
    skill_history,
    summary,
)
from heldout.report.candidate_files import CandidateFiles
from heldout.report.skill_arms import arms_of, learning_name, name_of
from heldout.report.skill_page import gather_skills
from heldout.report.skill_use import Episode, left_texts, round_windows, skill_use, spend_by_round, total_use
from heldout.store import Index, Journal, RunFolder, read_events
from heldout.store.events import Decided, RunFinished, TrackMoved
from heldout.store.skill_events import FaultAttributed, ModuleEdited, SelectTable, SkillRoundStarted
from heldout.workbench.replaying import replay_ledger


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return skill_run(tmp_path_factory.mktemp("told") / "run")


def history(run: RunFolder) -> SkillHistory:
    with Index.open(run) as index:
        found = skill_history(index.connection)
    assert found is not None
    return found


def test_every_round_says_what_became_of_it_accepted_and_rejected_alike(run: RunFolder) -> None:
    rounds = history(run).rounds
    assert [(one.number, one.state) for one in rounds] == [
        (1, "accepted"),
        (2, "rejected"),
        (3, "refused"),
        (4, "nothing to learn"),
        (5, "no failure"),
    ]
    assert rounds[2].edits[0].why_not_run == "the module names the train literal 'Umsatz'"
    assert rounds[0].edits[0].why_not_run == ""


def test_repairs_and_regressions_are_named_by_task(run: RunFolder) -> None:
    first, second = (one.edits[0] for one in history(run).rounds[:2])
    assert first.repaired == ("select-4", "select-5", "select-6")
    assert first.broken == ("select-0",)
    assert first.table is not None
    assert first.table.unconfirmed == ("select-7",)
    assert (second.repaired, second.broken, second.missing) == (("select-7",), ("select-2",), ("select-9",))


def test_what_was_not_measured_is_neither_a_repair_nor_a_regression(run: RunFolder) -> None:
    for edit in (edit for one in history(run).rounds for edit in one.edits):
        assert not set(edit.missing) & {*edit.repaired, *edit.broken}


def test_graded_tasks_that_rose_and_fell_are_named_too(tmp_path: Path) -> None:
    run = skill_run(tmp_path / "run", Told(rounds=0, finished=False))
    with Journal.open(run.events) as journal:
        cells = {"a": "better", "b": "worse", "c": "equal", "d": "missing"}
        numbers = {"n": 3, "coverage": 0.75, "repairs": 0.5, "regressions": 0.1, "utility": 0.3}
        journal.append("skill.table", SelectTable(round=1, parent="p", candidate="c", cells=cells, **numbers))
    (one,) = history(run).rounds
    assert one.state == "open"
    assert (one.edits[0].repaired, one.edits[0].broken, one.edits[0].missing) == (("a",), ("b",), ("d",))
    assert one.edits[0].paths == ()


def test_false_accepts_of_this_gate_stand_beside_the_accepted_edits(run: RunFolder) -> None:
    """25 % of two decided rounds: half an edit is expected to be accepted by chance, and one was."""
    chance = history(run).chance
    assert chance is not None
    assert (chance.rate, chance.decided, chance.accepted, chance.expected) == (0.25, 2, 1, 0.5)
    assert "accept about 0.5 of them by chance" in chance.sentence


def test_without_a_decision_or_a_calibration_no_chance_is_claimed(tmp_path: Path) -> None:
    assert history(skill_run(tmp_path / "run", Told(rounds=0, finished=False))).chance is None


def test_episodes_count_skill_calls_and_recoveries_by_purpose(run: RunFolder) -> None:
    with Index.open(run) as index:
        rows = {one.purpose: one for one in skill_use(index.connection)}
    audit, train, retention = rows["audit"], rows["train"], rows["retention"]
    assert (audit.episodes, audit.skill_calls) == (60, 40), "no skill is written for the 20 tasks without one"
    assert (audit.recoveries, audit.recovered, audit.faults_declared) == (3, 2, 3)
    assert (train.episodes, train.skill_calls, train.skills) == (20, 20, 20), "five batches of four"
    assert (retention.episodes, retention.skill_calls, retention.recovered) == (24, 16, 3)
    assert total_use(rows.values()).episodes == sum(one.episodes for one in rows.values())


def test_a_loop_without_skills_counts_none(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(generations=1)) as index:
        assert skill_use(index.connection) == ()
        assert skill_history(index.connection) is None
        assert json.loads(run_json(summary(index.connection)).model_dump_json())["skills"] is None


def test_a_round_costs_its_batch_its_sweeps_and_its_improver(run: RunFolder) -> None:
    """Round 1: 4 batch episodes, 20 select, 5 confirming; round 2: 4 and 10; then 4 each. The noise check before it,
    and the final sweeps after it, belong to none."""
    with Index.open(run) as index:
        episodes = {number: spend.evaluations for number, spend in spend_by_round(index.connection).items()}
        windows = round_windows(index.connection)
    assert episodes == {1: 29, 2: 14, 3: 4, 4: 4, 5: 4}
    assert all(after < last for after, last in windows.values())
    rounds = history(run).rounds
    assert rounds[0].spend.calls == 29 * EPISODE.calls + 2 * ASKED.calls
    assert rounds[3].spend.cost_usd == pytest.approx(ASKED.cost_usd), "one attribution, no edit"
    assert rounds[4].spend.cost_usd == 0


def test_the_ledger_names_everything_that_the_budget_was_charged_for(run: RunFolder) -> None:
    with Index.open(run) as index:
        rows = {row.purpose: row.spend for row in ledger_rows(index.connection)}
    charged = replay_ledger(RunConfig(), read_events(run.events), elapsed_s=lambda: 0.0)
    assert sum(rows.values(), start=Spend()).calls == charged.total.calls
    assert sum(rows.values(), start=Spend()).evaluations == charged.total.evaluations
    assert (rows["attribute"].calls, rows["edit"].calls, rows["judge"].calls) == (4, 3, 2)
    assert "propose" not in rows, "what cost nothing is no row"


def test_the_texts_of_a_fault_are_of_that_round_and_not_of_a_later_run_of_the_task(run: RunFolder) -> None:
    """train-4 is run in rounds 2 and 5 with one guide; each has a skill of its own."""
    asked = [Episode(1, START.digest, "train-0"), Episode(2, FINAL.digest, "train-4"), Episode(2, FINAL.digest, "none")]
    with Index.open(run) as index:
        left = left_texts(index.connection, asked)
        assert left_texts(index.connection, []) == {}
    files = CandidateFiles(run)
    texts = {one.task: files.files(names["SKILL.md"]) for one, names in left.items()}
    assert texts == {"train-0": {"SKILL.md": TRANSIENT}, "train-4": {"SKILL.md": "2/train-4\n"}}


def test_the_bold_gain_is_final_minus_start_guide_on_audit_and_no_skill_is_a_third_arm(run: RunFolder) -> None:
    with Index.open(run) as index:
        whole = summary(index.connection)
    assert whole.skills is not None
    assert whole.gains.audited == 0.15, "not 0.35, which is the gain over no skill"
    assert whole.audit is not None
    assert (whole.audit.start, whole.audit.final) == (START.digest, FINAL.digest)
    assert learning_name(whole.skills.name_of_start(START.digest), "guide") == "learning: final − start guide"
    arms = arms_of(whole, whole.skills)
    assert [(one.name, one.mean) for one in arms] == [
        ("no skill", 0.1),
        ("start guide", 0.3),
        ("final guide", pytest.approx(0.45)),
    ]
    assert name_of("f" * 64, whole, whole.skills) == "f" * 12


def test_retention_is_refused_and_not_zero_without_an_arm_that_has_no_skill(tmp_path: Path) -> None:
    run = skill_run(tmp_path / "run", Told(refused="no arm without a skill was run on train"))
    with Index.open(run) as index:
        whole = summary(index.connection)
        told = json.loads(run_json(whole).model_dump_json())["skills"]
    assert told["retention"][0]["arms"] == []
    assert told["retention"][0]["refused"] == "no arm without a skill was run on train"
    assert told["arms"][0] == {"name": "no skill", "audit": None}


def test_a_start_without_a_skill_is_called_that_and_stands_once(tmp_path: Path) -> None:
    with Index.open(skill_run(tmp_path / "run", Told(target="skill"))) as index:
        whole = summary(index.connection)
    assert whole.skills is not None
    assert whole.skills.target == "skill"
    assert [one.name for one in arms_of(whole, whole.skills)] == ["no skill", "final skill"]
    assert learning_name(whole.skills.name_of_start(NONE.digest), "skill") == "gain: final − no skill"


def test_a_run_that_ends_at_its_start_names_it_once(tmp_path: Path) -> None:
    with Index.open(skill_run(tmp_path / "run", Told(moved=False))) as index:
        whole = summary(index.connection)
    assert whole.skills is not None
    assert [one.name for one in arms_of(whole, whole.skills)] == ["no skill", "start guide, which is the final"]


def test_believed_is_what_the_final_selection_compared_and_recorded_what_was_accepted(run: RunFolder) -> None:
    with Index.open(run) as index:
        whole = summary(index.connection)
    assert whole.gains.believed == pytest.approx(0.1)
    assert whole.gains.recorded == pytest.approx(0.2)
    assert whole.gains.modelled_overstatement is None, "finalists were measured anew"
    assert whole.final.select.value == 0.5


def test_the_curve_shows_the_scores_that_decisions_rested_on(run: RunFolder) -> None:
    found = history(run)
    with Index.open(run) as index:
        raw = means(index.connection)
        rows = generations(index.connection, known=found.with_decided(raw), skills=found)
    assert raw["select", FINAL.digest].value == 0.7, "one of its flips was not confirmed"
    assert [one.head_select.value for one in rows] == [0.4, 0.6, 0.6, 0.6, 0.6, 0.6]
    assert [one.incumbent_select.value for one in rows[1:3]] == [0.4, 0.6]


def test_what_was_accepted_need_not_be_the_head(tmp_path: Path) -> None:
    """A frontier accepts what does not lead it: the head is what the run says that it is."""
    run = skill_run(tmp_path / "run", Told(rounds=1, finished=False))
    with Journal.open(run.events) as journal:
        decision = {"gate": "frontier", "verdict": "accept", "winner": 0, "reason": "it joins"}
        ends = {"incumbent": START.digest, "incumbent_score": 0.4, "scores": (0.5,), "winner": "x"}
        journal.append("decision", Decided(generation=2, candidates=("x",), decision=decision, **ends))
    found = history(run)
    assert [one.head_after for one in found.rounds] == [FINAL.digest, FINAL.digest]
    with Index.open(run) as index:
        last = generations(index.connection, known=found.with_decided({}), skills=found)[-1]
    assert (last.head, last.head_select.value) == (FINAL.digest, 0.6)
    assert last.incumbent_select.value == 0.4


def test_best_of_many_is_chosen_after_the_last_decision(tmp_path: Path) -> None:
    run = skill_run(tmp_path / "run", Told(rounds=0, finished=False))
    with Journal.open(run.events) as journal:
        for number in (1, 2):
            decision = {"gate": "g", "verdict": "undecided", "winner": 0, "reason": "best of N"}
            ends = {"incumbent": START.digest, "incumbent_score": 0.4, "scores": (0.5,), "winner": f"c{number}"}
            journal.append(
                "decision", Decided(generation=number, candidates=(f"c{number}",), decision=decision, **ends)
            )
        moved = TrackMoved(track="guide", origin=START.digest, target="c1", generation=1, why="the largest gain")
        journal.append("track.moved", moved)
    assert [one.head_after for one in history(run).rounds] == [None, "c1"]


def test_every_candidate_has_a_fate_and_a_reason(run: RunFolder) -> None:
    with Index.open(run) as index:
        rows = candidates(index.connection, skills=history(run))
    told = {(row.generation, row.index): (row.fate, row.reason) for row in rows}
    assert told == {
        (0, 0): (Fate.START, "where the run began; it stays in the final pool"),
        (1, 0): (Fate.ACCEPTED, "3 repaired, 1 broken: u = +1"),
        (2, 0): (Fate.REJECTED, "1 repaired, 1 broken: u = -1"),
        (3, 0): (Fate.INVALID, "the module names the train literal 'Umsatz'"),
    }
    assert [row.gain for row in rows[1:3]] == [pytest.approx(0.3), pytest.approx(7 / 9 - 0.6)]


def test_a_draft_is_round_zero_and_no_gate_weighed_it(tmp_path: Path) -> None:
    run = skill_run(tmp_path / "run", Told(target="skill"))
    found = history(run)
    assert [(one.number, one.state) for one in found.rounds[:2]] == [(0, "accepted"), (1, "accepted")]
    assert found.rounds[0].head_after == DRAFT.digest
    assert found.chance is not None
    assert (found.chance.accepted, found.chance.decided) == (1, 2)
    with Index.open(run) as index:
        rows = candidates(index.connection, skills=found)
    assert [(row.digest, row.fate) for row in rows[:2]] == [(NONE.digest, Fate.START), (DRAFT.digest, Fate.ACCEPTED)]


def test_no_skill_gains_nothing_over_itself_and_is_no_arm(tmp_path: Path) -> None:
    found = history(skill_run(tmp_path / "run", Told(target="skill")))
    assert found.retention is not None
    same = found.retention.arms[0].model_copy(update={"arm": "start", "candidate": NONE.digest})
    with_start = found.retention.model_copy(update={"arms": (same, *found.retention.arms)})
    assert [one.arm for one in found.arms(with_start)] == ["final", "one_shot"]


def test_a_stopped_run_that_was_resumed_is_unfinished_again(tmp_path: Path) -> None:
    run = skill_run(tmp_path / "run", Told(rounds=1, finished=False))
    with Journal.open(run.events) as journal:
        ends = {"start": START.digest, "final": FINAL.digest, "start_select": 0.4, "final_select": 0.6}
        journal.append("run.finished", RunFinished(status="stopped", stop_reason="budget", elapsed_s=1.0, **ends))
    with Index.open(run) as index:
        assert summary(index.connection).status == "stopped"
    with Journal.open(run.events) as journal:
        journal.append("skill.round", SkillRoundStarted(round=2, head=FINAL.digest, batch=("t",), failed=("t",)))
    with Index.open(run) as index:
        whole = summary(index.connection)
    assert whole.status == "unfinished"
    assert whole.final.digest == FINAL.digest
    assert whole.skills is not None
    assert [one.state for one in whole.skills.rounds] == ["accepted", "open"]


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (FaultAttributed(round=1, task="t", error="the attributor answered nothing"), "no attribution"),
        (FaultAttributed(round=1, task="t"), "nothing to learn"),
        (FaultAttributed(round=1, task="t", stage="execution", module="m4_validation.md"), "no edit"),
        (None, "no edit"),
    ],
)
def test_a_round_without_an_edit_says_why(tmp_path: Path, event: FaultAttributed | None, state: str) -> None:
    run = skill_run(tmp_path / "run", Told(rounds=0, finished=False))
    with Journal.open(run.events) as journal:
        journal.append("skill.round", SkillRoundStarted(round=1, head="h", batch=("t",), failed=("t",)))
        if event is not None:
            journal.append("fault.attributed", event)
        assert [one.state for one in history(run).rounds] == ["open"], "the round still goes on"
        journal.append("skill.round", SkillRoundStarted(round=2, head="h", batch=(), failed=()))
    assert history(run).rounds[0].state == state


def test_an_editor_that_did_not_answer_is_no_refusal(tmp_path: Path) -> None:
    run = skill_run(tmp_path / "run", Told(rounds=0, finished=False))
    with Journal.open(run.events) as journal:
        proposal = {"error": "the server did not answer", "unanswered": True}
        edited = ModuleEdited(round=1, target="guide", head="h", proposal=proposal, unanswered=True)
        journal.append("skill.edit", edited)
    (one,) = history(run).rounds
    assert one.state == "no answer"
    assert one.edits[0].why_not_run == "the server did not answer"


def test_of_several_edits_of_a_round_each_has_its_own_table_and_fate(tmp_path: Path) -> None:
    """A merge or a frontier may try several; the one that was accepted names the round."""
    run = skill_run(tmp_path / "run", Told(rounds=1, finished=False))
    with Journal.open(run.events) as journal:
        numbers = {"n": 10, "coverage": 1.0, "repairs": 0, "regressions": 2, "utility": -4}
        table = SelectTable(round=1, index=1, parent=START.digest, candidate="x", cells={"s": "regression"}, **numbers)
        edited = ModuleEdited(
            round=1, index=1, target="guide", head=START.digest, proposal={"note": "other"}, digest="x"
        )
        journal.append("skill.edit", edited)
        journal.append("skill.table", table)
    (one,) = history(run).rounds
    assert [edit.fate for edit in one.edits] == ["accepted", "open"]
    assert [edit.broken for edit in one.edits] == [("select-0",), ("s",)]
    assert one.state == "accepted"
    assert [found.utility for found in one.tables] == [1, -4]


def test_the_guides_modules_stand_in_order_changed_or_not(run: RunFolder) -> None:
    with Index.open(run) as index:
        whole = summary(index.connection)
        assert whole.skills is not None
        page = gather_skills(index.connection, whole, skills=whole.skills, files=CandidateFiles(run))
    assert page.modules is not None
    assert [(one.title, one.diff is not None) for one in page.modules] == [
        ("Task classification", False),
        ("Sources and tools", True),
        ("Skill construction", False),
        ("Executable validation", False),
        ("Failure attribution", False),
        ("Bounded repair and abstention", False),
    ]
    assert [one.edits[0].titles for one in page.rounds[:3]] == [
        ("Sources and tools",),
        ("Task classification",),
        ("Skill construction",),
    ]
    refused = page.rounds[2].edits[0].diff
    assert refused is not None, "an edit that was never run is shown too"
    assert [one.path for one in refused] == ["m3_skill.md"]


def test_json_says_the_same(run: RunFolder) -> None:
    with Index.open(run) as index:
        told = json.loads(run_json(summary(index.connection)).model_dump_json())["skills"]
    assert told["target"] == "guide"
    assert told["learning"] == {
        "what": "learning: final − start guide",
        "gain": 0.15,
        "interval": [pytest.approx(-0.05), 0.35],
    }
    assert [one["verdict"] for one in told["rounds"]][:3] == ["accepted", "rejected", "refused"]
    first = told["rounds"][0]
    assert (first["batch"], first["missing"]) == (["train-0", "train-1", "train-3", "train-2"], ["train-3"])
    assert first["faults"][0]["module"] == "m2_sources.md"
    edit = first["edits"][0]
    assert (edit["utility"], edit["repairs"], edit["regressions"], edit["n"], edit["coverage"]) == (1, 3, 1, 10, 1)
    assert (edit["repaired"], edit["broken"]) == (["select-4", "select-5", "select-6"], ["select-0"])
    assert (edit["unconfirmed"], edit["refused"]) == (["select-7"], "")
    assert told["rounds"][2]["edits"][0]["utility"] is None, "never run, so there is no number"
    assert told["chance"]["expected"] == 0.5
    assert [one["arm"] for one in told["retention"][0]["arms"]] == ["start", "final", "one_shot"]
    assert told["use"]["skill_calls"] == 141
    assert told["use_by_purpose"]["audit"]["recoveries"] == 3
    assert told["judge"]["note"] == "computed after the audit; never used to accept"
    assert [one["total"] for one in told["judge"]["judged"]] == [3.0, 4.0]
    assert [one["round"] for one in told["finalists"]] == [0, 1]
    assert told["recorded_gain"] == pytest.approx(0.2)
