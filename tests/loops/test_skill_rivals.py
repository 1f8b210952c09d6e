"""The methods that `gso` is compared with: what each keeps, from what, and on whose word."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from agent_events import of_kind, only, verdicts, whys
from lesson_world import (
    RUNS,
    SCRIPT,
    only_on,
    search,
    select_ids,
    small,
    start,
    train_ids,
    write,
)

from heldout.config import load_config
from heldout.errors import ModelError, SetupError
from heldout.improvers.skill_roles import Attribution, EditView
from heldout.improvers.skill_texts import empty_skill, skill_edits
from heldout.loops import SKILL_LOOPS, load_loop, preset
from heldout.loops.skills.frontier import Frontier
from heldout.records import Candidate, Edit, EditProposal, SelectTask, Task
from heldout.rollouts.engine import paired_seed
from heldout.skills.modules import SKILL_FILE
from heldout.store import RunFolder
from heldout.tasks import load_tasks
from heldout.workbench.plan import plan

RIVALS = sorted(SKILL_LOOPS - {"gso"})

DRAFTING = ("one_shot_skill", "persistent_skill", "gepa")


def moves(folder: RunFolder) -> list[int]:
    return [data["generation"] for data in of_kind(folder, "track.moved")]


def spent(folder: RunFolder) -> Counter[str]:
    return Counter(data["purpose"] for data in of_kind(folder, "outcome"))


def add(*lines: str) -> Any:
    return lambda view: write(view, *lines, f"round {view.round}")


# Every rival


@pytest.mark.parametrize("loop", RIVALS)
def test_a_rival_learns_what_the_lessons_teach_and_says_so_in_its_decisions(loop: str, tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small(loop, {"search": {"generations": 6}}))
    selected = only(folder, "selected")
    assert selected["final"] == of_kind(folder, "track.moved")[-1]["target"]
    assert selected["finalists"][0]["digest"] == of_kind(folder, "candidate")[0]["digest"], "the start competes"
    assert SKILL_FILE in folder.load(selected["final"]).files
    decided = {data["generation"]: data for data in of_kind(folder, "decision")}
    for edit in of_kind(folder, "skill.edit"):
        verdict = decided[edit["round"]]["decision"]["verdict"]
        assert verdict in ("accept", "reject") if edit.get("digest") else verdict == "undecided"
    for moved in of_kind(folder, "track.moved"):
        assert decided[moved["generation"]]["winner"] == moved["target"]
        assert moved["track"] == "skill"


@pytest.mark.parametrize("loop", RIVALS)
def test_no_select_body_reaches_the_improver_of_a_rival(loop: str, tmp_path: Path) -> None:
    search(tmp_path / "run", small(loop, {"search": {"generations": 4}}))
    shown, tasks = repr((SCRIPT.faults, SCRIPT.views, SCRIPT.drafts)), load_tasks(small(loop).tasks)
    assert not any(task.input in shown for task in tasks.select)
    assert any(task.input in shown for task in tasks.train)
    assert not any(isinstance(trace.task, SelectTask) for view in SCRIPT.views for trace in view.traces)


@pytest.mark.parametrize("loop", RIVALS)
@pytest.mark.parametrize("options", [{}, {"sweep": {"confirm_flips": True}}])
def test_the_plan_is_an_upper_bound(loop: str, options: dict[str, Any], tmp_path: Path) -> None:
    config = small(loop, {"search": {"generations": 3}}, {"options": options})
    folder = start(tmp_path / "run", config, edit=add("x"))
    counted = plan(config)
    assert sum(spent(folder).values()) <= counted.total
    assert len(of_kind(folder, "skill.edit")) <= counted.proposals + (loop in DRAFTING and loop != "one_shot_skill")
    limited = config.model_copy(update={"budget": config.budget.model_copy(update={"evaluations": counted.total})})
    assert plan(limited).affordable_proposals is not None


@pytest.mark.parametrize("loop", RIVALS)
def test_the_presets_have_the_sizes_of_gso_and_begin_without_a_skill(loop: str) -> None:
    for name in ("small", "default", "paper"):
        mine, theirs = (load_config([preset(one, name), {"loop": one}]) for one in (loop, "gso"))
        assert mine.tasks == theirs.tasks
        assert mine.search == theirs.search
        assert mine.improver == theirs.improver
        assert (mine.noise, mine.executor) == (theirs.noise, theirs.executor)
        assert mine.solver.model == theirs.solver.model
        assert mine.solver.options == {**theirs.solver.options, "start": "none"}
        assert load_loop(loop).edits == "skills"
        assert plan(mine).total > 0


@pytest.mark.parametrize("loop", RIVALS)
def test_a_guide_is_no_start_for_a_rival(loop: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"improves one skill for all tasks.*solver\.options\.start=none"):
        start(tmp_path / "run", small(loop, {"solver": {"options": {"start": "guide"}}}))


@pytest.mark.parametrize("loop", RIVALS)
@pytest.mark.parametrize("evaluations", [35, 60, 75])
def test_a_budget_that_ends_leaves_a_usable_run(loop: str, evaluations: int, tmp_path: Path) -> None:
    layers = ({"search": {"generations": 6}}, {"budget": {"evaluations": evaluations}, "options": {"retention": False}})
    folder = start(tmp_path / "run", small(loop, *layers), edit=add("x"))
    finished = only(folder, "run.finished")
    whole = loop == "one_shot_skill" and evaluations >= 60
    assert finished["status"] == ("improved" if whole else "stopped")
    assert len(of_kind(folder, "outcome")) <= evaluations
    assert finished["final"] in {finished["start"], *(data["target"] for data in of_kind(folder, "track.moved"))}
    assert [data["role"] for data in of_kind(folder, "audit")] == ["audit"]


# One shot, and drafts


@pytest.mark.parametrize("loop", DRAFTING)
def test_a_draft_is_round_0_and_the_head_whatever_it_scores(loop: str, tmp_path: Path) -> None:
    def harmful(view: Any) -> EditProposal:
        return EditProposal(edits=skill_edits(view.head, empty_skill("x") + "\nSPOIL alpha\n"), note="harmful")

    config = small(loop, {"search": {"generations": 1}, "options": {"drafted_from": 3}})
    folder = search(tmp_path / "run", config, draft=harmful, edit=lambda _view: EditProposal())
    (drafted, *_) = of_kind(folder, "skill.edit")
    assert drafted["round"] == 0
    assert moves(folder) == [0]
    assert verdicts(folder)[0] == "accept"
    assert "whatever it scores" in whys(folder)[0]
    (table, *_) = of_kind(folder, "skill.table")
    assert (table["round"], table["repairs"], table["regressions"]) == (0, 0, 2)
    selected = only(folder, "selected")
    assert [one["round"] for one in selected["finalists"]] == [0, 0]
    assert selected["final"] == selected["finalists"][0]["digest"], "the final selection decides against no skill"
    (view,) = SCRIPT.drafts
    assert len(view.tasks) == 3
    assert {task.id for task, _ in view.tasks} <= set(train_ids(config))


def test_one_shot_runs_no_train_task_and_no_round(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("one_shot_skill", {"search": {"generations": 9}}))
    assert spent(folder) == {"select": 16, "noise": 2, "final": 16}
    assert of_kind(folder, "skill.round") == SCRIPT.views == SCRIPT.faults == []


@pytest.mark.parametrize("loop", DRAFTING)
def test_a_draft_that_cannot_be_used_leaves_the_start_as_the_head(loop: str, tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small(loop), draft=lambda _view: EditProposal(error="no idea"))
    assert of_kind(folder, "skill.edit")[0]["fault"] == "no idea"
    assert whys(folder)[0] == "no skill was drafted: no idea"
    assert moves(folder) == ([1, 2] if loop == "persistent_skill" else [])
    if loop == "gepa":
        assert len(of_kind(folder, "decision")) == 1, "there is no component that GEPA could edit"


@pytest.mark.parametrize("loop", DRAFTING)
def test_a_draft_that_is_not_answered_stops_the_run_before_more_is_spent(loop: str, tmp_path: Path) -> None:
    def silent(_view: Any) -> EditProposal:
        raise ModelError("the endpoint is down", calls=3)

    with pytest.raises(ModelError, match="first skill: the endpoint is down"):
        search(tmp_path / "run", small(loop), draft=silent)
    folder = RunFolder(tmp_path / "run")
    assert only(folder, "skill.edit")["unanswered"] is True
    assert only(folder, "skill.edit")["proposal"]["spend"]["calls"] == 3
    assert of_kind(folder, "decision") == []


# A persistent skill


@pytest.mark.parametrize(("gate", "verdict"), [("greedy", "accept"), ("repairs_over_regressions", "reject")])
def test_a_persistent_skill_is_kept_where_its_gate_lets_it_and_no_module_is_looked_at(
    gate: str, verdict: str, tmp_path: Path
) -> None:
    config = small("persistent_skill", {"search": {"generations": 1}, "gate": {"kind": gate}})
    ids = select_ids(config)
    play = only_on(ids, {"": ids[:1], "NEW WORDS": ids[1:3]})
    folder = search(tmp_path / "run", config, edit=add("NEW WORDS"), plays=[play])
    table = of_kind(folder, "skill.table")[1]
    assert (table["repairs"], table["regressions"]) == (2, 1)
    assert verdicts(folder) == ["accept", verdict]
    assert moves(folder) == ([0, 1] if verdict == "accept" else [0])
    assert SCRIPT.views[0].module is None
    assert SCRIPT.views[0].target == "skill"


def test_a_persistent_skill_that_begins_as_a_skill_is_not_drafted_over(tmp_path: Path) -> None:
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / SKILL_FILE).write_text(empty_skill("Ours") + "\nTEACH beta\n", encoding="utf-8")
    layers = ({"solver": {"start": str(tmp_path / "start")}}, {"search": {"generations": 1}})
    config = small("persistent_skill", *layers)
    folder = search(tmp_path / "run", config, edit=add("TEACH gamma"))
    assert SCRIPT.drafts == []
    assert [edit["round"] for edit in of_kind(folder, "skill.edit")] == [1]
    assert "TEACH beta" in SCRIPT.views[0].head.files[SKILL_FILE], "the first edit is one of the start"
    assert moves(folder) == [1]
    final = folder.load(only(folder, "selected")["final"]).files[SKILL_FILE]
    assert "TEACH beta" in final
    assert "TEACH gamma" in final


def test_a_persistent_skill_may_hold_what_a_guide_may_not(tmp_path: Path) -> None:
    def literal(view: EditView) -> EditProposal:
        return write(view, f"TEACH {view.traces[0].task.family}", view.traces[0].task.id)

    folder = search(tmp_path / "run", small("persistent_skill"), edit=literal)
    assert SCRIPT.views[0].forbidden == ()
    assert verdicts(folder) == ["accept"] * 3


# A frontier


def test_a_frontier_takes_its_members_in_turn_and_keeps_the_best(tmp_path: Path) -> None:
    config = small("skill_frontier", {"search": {"generations": 7}, "options": {"frontier": 2, "stop_after": 0}})
    ids = select_ids(config)
    scores = {1: 3, 2: 1, 3: 2, 4: 3, 5: 5, 6: 2, 7: 6}
    passed = {f"CHILD {number};": ids[:count] for number, count in scores.items()}

    def child(view: EditView) -> EditProposal:
        text = empty_skill("x") + f"\nCHILD {view.round};\n"
        return EditProposal(edits=skill_edits(view.head, text), note=str(view.round))

    folder = search(tmp_path / "run", config, edit=child, plays=[only_on(ids, {"": ids[:2], **passed})])
    digests = {edit["digest"]: edit["round"] for edit in of_kind(folder, "skill.edit")}
    parents = [digests.get(data["head"], 0) for data in of_kind(folder, "skill.round")]
    # (size 2, best first) start 2; then 1:3; child 2 scores 1: out; 3 ties the start: out; 4 beats the start, in.
    assert parents == [0, 0, 1, 0, 1, 1, 5]
    assert verdicts(folder) == ["accept", "reject", "reject", "accept", "accept", "reject", "accept"]
    assert moves(folder) == [1, 5, 7]
    assert "in place of the one of round 0" in whys(folder)[3]
    assert only(folder, "selected")["final"] == next(digest for digest, number in digests.items() if number == 7)


def test_children_of_a_frontier_are_scored_once_and_parents_never_again(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("skill_frontier", {"search": {"generations": 3}}), edit=add("x"))
    assert spent(folder)["select"] == 8 * 4
    assert {data.get("repeat", 0) for data in of_kind(folder, "outcome") if data["purpose"] == "select"} == {0}


def test_a_hardly_measured_child_is_no_member_and_not_rejected(tmp_path: Path) -> None:
    config = small("skill_frontier", {"search": {"generations": 1}, "options": {"sweep": {"retries": 0}}})
    lost = select_ids(config)[:2]
    folder = search(
        tmp_path / "run", config, outages=[lambda one, task, _s: task.id in lost and SKILL_FILE in one.files]
    )
    assert verdicts(folder) == ["undecided"]
    assert "75% of the select tasks were measured, below 90%" in whys(folder)[0]
    assert moves(folder) == []


def test_a_frontier_ranks_by_the_lead_over_the_start_of_equals_the_earlier() -> None:
    def scored(name: str, *scores: float) -> Any:
        import numpy as np

        from heldout.loops import Scored

        return Scored(Candidate(files={SKILL_FILE: name}), np.array(scores)[:, None])

    nan = float("nan")
    frontier = Frontier.from_start(scored("start", 1, 0, 0, 0), size=2)
    assert frontier.offer(scored("tie", 0, 1, 0, 0), number=1, coverage=0.5).verdict.value == "accept"
    assert [one.number for one in frontier.members] == [0, 1]
    assert frontier.offer(scored("as good", 0, 0, 1, 0), number=2, coverage=0.5).verdict.value == "reject"
    # One of three measured tasks more than the start: +1/3, though its own mean is 2/3 and the start's 1/4.
    assert frontier.offer(scored("gaps", 1, 1, 0, nan), number=3, coverage=0.5).verdict.value == "accept"
    assert [round(one.lead, 3) for one in frontier.members] == [0.333, 0.0]
    assert [frontier.parent(number).candidate.files[SKILL_FILE] for number in (1, 2, 3)] == ["gaps", "start", "gaps"]


# Merged patches


def test_a_pass_runs_all_of_train_and_merges_every_failure_with_passed_examples(tmp_path: Path) -> None:
    config = small("merged_patches", {"search": {"generations": 9}, "options": {"passes": 2, "examples": 2}})
    folder = search(tmp_path / "run", config)
    first = of_kind(folder, "skill.round")[0]
    assert first["batch"] == train_ids(config)
    assert len(first["failed"]) == 9
    assert [one["task"] for one in of_kind(folder, "fault.attributed")] == first["failed"]
    (view,) = SCRIPT.views
    assert [trace.task.id for trace in view.traces[:9]] == first["failed"]
    assert [trace.score for trace in view.traces] == [0.0] * 9 + [1.0] * 2
    assert [fault.mechanism for fault in view.faults] == [*(trace.task.family for trace in view.traces[:9]), "", ""]
    assert verdicts(folder) == ["accept", "undecided"], "two passes, never more"
    assert whys(folder)[1] == "no failure of the pass could be learned from"


def test_failures_that_teach_nothing_are_left_out_of_the_merge(tmp_path: Path) -> None:
    def picky(view: Any) -> Attribution:
        known = view.trace.task.family == "beta"
        return Attribution(stage="execution") if known else Attribution(evidence="the shell was slow")

    config = small("merged_patches", {"search": {"generations": 1}, "options": {"examples": 0}})
    search(tmp_path / "run", config, attribute=picky)
    assert {trace.task.family for trace in SCRIPT.views[0].traces} == {"beta"}
    assert len(SCRIPT.views[0].traces) == len(SCRIPT.views[0].faults) == 3


@pytest.mark.parametrize(("passed", "verdict"), [(2, "accept"), (1, "reject"), (3, "accept")])
def test_a_merge_is_kept_where_the_select_score_does_not_fall(passed: int, verdict: str, tmp_path: Path) -> None:
    config = small("merged_patches", {"search": {"generations": 1}})
    ids = select_ids(config)
    play = only_on(ids, {"": ids[:2], "NEW WORDS": ids[8 - passed :]})
    folder = search(tmp_path / "run", config, edit=add("NEW WORDS"), plays=[play])
    assert verdicts(folder) == [verdict]


# GEPA


def test_gepa_spends_its_own_budget_on_our_engine_and_asks_our_improver(tmp_path: Path) -> None:
    config = small("gepa", {"search": {"generations": 3}})
    folder = search(tmp_path / "run", config)
    edits = of_kind(folder, "skill.edit")
    assert len(edits) == 1 + len(SCRIPT.views)
    calls = 3 * (4 + 2 * 8)
    used = spent(folder)
    assert used["train"] + used["select"] - 8 <= calls + 2 * 4 + 8, "the start's own sweep is not GEPA's"
    assert used["train"] + used["select"] - 8 >= calls
    for begun in of_kind(folder, "skill.round"):
        assert set(begun["batch"]) <= set(train_ids(config))


def test_a_child_of_gepa_is_compared_at_the_seeds_of_its_parents_minibatch(tmp_path: Path) -> None:
    config = small("gepa", {"search": {"generations": 3}})
    folder = search(tmp_path / "run", config)
    for begun in of_kind(folder, "skill.round"):
        seeds = {paired_seed(config.seed, task, begun["round"]) for task in begun["batch"]}
        train = [data for data in of_kind(folder, "outcome") if data["purpose"] == "train"]
        mine = [data for data in train if data["repeat"] == begun["round"]]
        assert {data["seed"] for data in mine} == seeds
        assert len({data["candidate"] for data in mine}) in (1, 2)


def test_gepa_rejects_on_the_minibatch_and_never_runs_select_for_it(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("gepa", {"search": {"generations": 1}}), edit=add("SPOIL alpha"))
    assert set(verdicts(folder)[1:]) <= {"reject", "undecided"}
    rejected = [data for data in of_kind(folder, "decision")[1:] if data["decision"]["verdict"] == "reject"]
    assert rejected
    assert all(data["scores"] == [None] for data in rejected)
    assert "of 4 tasks of the minibatch" in rejected[0]["decision"]["reason"]
    assert spent(folder)["select"] == 16, "the start and the seed"
    assert moves(folder) == [0]


def test_what_gepa_believes_of_its_best_is_the_recorded_select_score_of_the_final(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("gepa", {"search": {"generations": 6}}))
    entered = [data for data in of_kind(folder, "decision") if data["decision"]["verdict"] == "accept"]
    best = max(entered, key=lambda data: (data["scores"][0], -data["generation"]))
    final = only(folder, "selected")["finalists"][1]
    assert final["digest"] == best["candidates"][0]
    assert final["journaled"] == best["scores"][0]
    assert final["round"] == best["generation"]


def test_gepa_edits_the_modules_of_a_guide_one_component_after_the_other(tmp_path: Path) -> None:
    options = {"target": "guide"}
    config = small(
        "gepa", {"search": {"generations": 3}, "options": options, "solver": {"options": {"start": "guide"}}}
    )
    folder = search(tmp_path / "run", config, edit=lambda view: write(view, f"TEACH {view.traces[0].task.family}"))
    assert SCRIPT.drafts == []
    asked = [view.module for view in SCRIPT.views]
    assert asked[0] == "m1_task.md", "GEPA's own choice, whatever module the failure was attributed to"
    assert all(edit["edited"] == [module] for edit, module in zip(of_kind(folder, "skill.edit"), asked, strict=True))
    assert {data["track"] for data in of_kind(folder, "track.moved")} == {"guide"}
    with pytest.raises(SetupError, match="improves a guide of six modules"):
        search(tmp_path / "none", small("gepa", {"options": options}))


def test_gepa_is_silent_and_leaves_no_file_outside_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with caplog.at_level(logging.DEBUG):
        search(tmp_path / "run", small("gepa"))
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    assert caplog.records == []
    assert list((tmp_path / "here").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "run"]


def test_an_edit_that_changes_gepas_components_is_no_candidate(tmp_path: Path) -> None:
    def further(_view: EditView) -> EditProposal:
        return EditProposal(edits=(Edit(path="references/more.md", content="TEACH beta"),))

    folder = search(tmp_path / "run", small("gepa", {"search": {"generations": 1}}), edit=further)
    assert "GEPA's components are fixed, and the edit adds or deletes references/more.md" in whys(folder)[1]
    assert moves(folder) == [0]


def test_invariant_6_a_minibatch_of_infrastructure_failures_teaches_gepa_nothing(tmp_path: Path) -> None:
    config = small("gepa", {"search": {"generations": 1}, "options": {"sweep": {"retries": 0}}})
    train = train_ids(config)
    folder = search(tmp_path / "run", config, outages=[lambda _c, task, _s: task.id in train])
    assert set(whys(folder)[1:]) == {"no task of the minibatch could be measured"}
    assert SCRIPT.faults == SCRIPT.views == []
    assert set(verdicts(folder)[1:]) == {"undecided"}


def test_invariant_6_a_child_that_is_out_does_not_lose_to_its_parent(tmp_path: Path) -> None:
    config = small("gepa", {"search": {"generations": 1}, "options": {"sweep": {"retries": 0}}})
    train = train_ids(config)
    folder = search(
        tmp_path / "run",
        config,
        edit=add("NEW WORDS"),
        outages=[lambda one, task, _s: task.id in train and "NEW WORDS" in str(one.files)],
    )
    assert set(verdicts(folder)[1:]) == {"undecided"}
    assert "0 rose and 0 fell on 0 of 4 tasks" in " ".join(whys(folder))


def test_a_task_that_only_the_parent_lacks_gives_a_child_of_gepa_nothing(tmp_path: Path) -> None:
    config = small("gepa", {"search": {"generations": 1}, "options": {"sweep": {"retries": 0}}})
    train = set(train_ids(config))
    known: set[str] = set()

    def parent_is_out(one: Candidate, task: Task, _seed: int) -> bool:
        if task.id in train and "NEW WORDS" not in str(one.files) and task.family == "alpha":
            known.add(task.id)
            return True
        return False

    folder = search(tmp_path / "run", config, edit=add("NEW WORDS"), outages=[parent_is_out])
    assert known
    tried = [data for data in of_kind(folder, "decision") if data["generation"] and data["candidates"]]
    assert tried
    assert {data["decision"]["verdict"] for data in tried} <= {"reject", "undecided"}
    assert all(data["decision"].get("wins", 0) == 0 for data in tried)


@pytest.mark.parametrize(("lost", "best"), [(1, True), (2, False)])
def test_a_select_task_that_a_child_of_gepa_lacks_counts_as_its_mean(lost: int, best: bool, tmp_path: Path) -> None:
    sizes = {"tasks": {"select": 12}, "search": {"generations": 1}}
    config = small("gepa", sizes, {"options": {"sweep": {"retries": 0}}})
    ids = select_ids(config)
    train = only_on(train_ids(config), {"": [], "NEW WORDS": train_ids(config)})
    select = only_on(ids, {"": ids[:6], "NEW WORDS": ids[:7]})
    folder = search(
        tmp_path / "run",
        config,
        edit=lambda view: write(view, "NEW WORDS") if view.round == 1 else EditProposal(),
        plays=[train, select],
        outages=[lambda one, task, _s: task.id in ids[:lost] and "NEW WORDS" in str(one.files)],
    )
    # With one lost, 6 of 11 are above the seed's 6 of 12; counted as failed it would tie. Two are too many.
    assert moves(folder) == ([0, 1] if best else [0])
    assert verdicts(folder)[:2] == ["accept", "accept" if best else "undecided"]


def test_gepa_may_be_told_to_stop_after_rounds_without_a_new_candidate(tmp_path: Path) -> None:
    config = small("gepa", {"search": {"generations": 6}, "options": {"stop_after": 2}})
    folder = search(tmp_path / "run", config, edit=lambda _view: EditProposal())
    assert [data["generation"] for data in of_kind(folder, "decision")] == [0, 1, 2]


def test_without_the_package_the_command_that_installs_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(SetupError, match=r"'gepa' is not installed.*pip install 'heldout\[gepa\]'"):
        start(tmp_path / "run", small("gepa"))
    assert RUNS == [], "before anything is spent"
