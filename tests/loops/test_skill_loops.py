"""The loop `gso`: what a round keeps, when it ends, and what it never does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_events import of_kind, only, verdicts, whys
from lesson_world import (
    only_on,
    search,
    select_ids,
    small,
    start,
    teach,
    train_ids,
    write,
)

from heldout.config import RunConfig
from heldout.errors import SetupError
from heldout.improvers.skill_roles import EditView
from heldout.loops.agents.selecting import FRESH_REPEAT
from heldout.loops.skills.solving import draw_batch
from heldout.records import Candidate, EditProposal, Task, TrainTask
from heldout.rollouts.engine import paired_seed
from heldout.store import RunFolder
from heldout.tasks import load_tasks
from heldout.workbench import Opening, audit

ONE = {"search": {"generations": 1}}


def heads(folder: RunFolder) -> list[str]:
    return [data["target"] for data in of_kind(folder, "track.moved")]


def better(view: EditView) -> EditProposal:
    return write(view, "NEW WORDS")


@pytest.mark.parametrize(("repairs", "breaks", "verdict"), [(1, 0, "accept"), (2, 1, "reject"), (3, 1, "accept")])
def test_invariant_1_repairs_must_exceed_twice_the_breaks(
    repairs: int, breaks: int, verdict: str, tmp_path: Path
) -> None:
    config = small("gso", ONE)
    ids = select_ids(config)
    before, after = ids[:breaks], ids[breaks : breaks + repairs]
    play = only_on(ids, {"": before, "NEW WORDS": after})
    folder = search(tmp_path / "run", config, edit=better, plays=[play])
    table = only(folder, "skill.table")
    assert (table["repairs"], table["regressions"]) == (repairs, breaks)
    assert table["utility"] == repairs - 2 * breaks
    assert [task for task, cell in table["cells"].items() if cell == "repair"] == after
    assert [task for task, cell in table["cells"].items() if cell == "regression"] == before
    assert verdicts(folder) == [verdict]
    assert len(heads(folder)) == (verdict == "accept")


def test_invariant_6_a_batch_of_infrastructure_failures_teaches_nothing_and_rejects_nothing(tmp_path: Path) -> None:
    config = small("gso", {"options": {"sweep": {"retries": 1}}})
    first = set(_batch(config, 1))
    folder = search(
        tmp_path / "run", config, outages=[lambda _c, task, seed: task.id in first and seed == _seed(task.id, 1)]
    )
    begun = of_kind(folder, "skill.round")
    assert set(begun[0]["missing"]) == first
    assert begun[0]["failed"] == []
    assert [one["round"] for one in of_kind(folder, "fault.attributed")] == [2]
    assert [one["round"] for one in of_kind(folder, "skill.edit")] == [2]
    assert verdicts(folder) == ["undecided", "accept"]
    assert whys(folder)[0] == "no failure of the batch could be learned from"


def test_invariant_6_a_missing_select_task_is_neither_repaired_nor_broken(tmp_path: Path) -> None:
    config = small("gso", ONE, {"tasks": {"select": 20}, "options": {"sweep": {"retries": 0}}})
    lost = select_ids(config)[0]
    folder = search(
        tmp_path / "run",
        config,
        outages=[lambda candidate, task, _s: task.id == lost and "TEACH" in str(candidate.files)],
    )
    table = only(folder, "skill.table")
    assert table["cells"][lost] == "missing"
    assert (table["n"], table["coverage"]) == (19, 0.95)
    assert Counter(table["cells"].values())["repair"] == table["repairs"] == 5
    assert verdicts(folder) == ["accept"]


def test_invariant_6_below_the_coverage_floor_a_round_decides_nothing(tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"sweep": {"retries": 0}}})
    lost = set(select_ids(config)[:2])
    folder = search(
        tmp_path / "run",
        config,
        outages=[lambda candidate, task, _s: task.id in lost and "TEACH" in str(candidate.files)],
    )
    assert only(folder, "skill.table")["coverage"] == 0.75
    assert verdicts(folder) == ["undecided"]
    assert "6 of 8 select tasks" in whys(folder)[0]
    assert heads(folder) == []


def test_as_in_the_paper_an_infrastructure_failure_may_count_as_a_failed_task(tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"sweep": {"retries": 0, "missing": "fail"}}})
    known = [task.id for task in load_tasks(config.tasks).select if task.family == "alpha"]
    folder = search(
        tmp_path / "run",
        config,
        outages=[lambda candidate, task, _s: task.id == known[0] and "TEACH" in str(candidate.files)],
    )
    table = only(folder, "skill.table")
    assert table["cells"][known[0]] == "regression"
    assert (table["repairs"], table["regressions"], table["coverage"]) == (2, 1, 1.0)
    assert verdicts(folder) == ["reject"]


def _mixed(view: EditView) -> EditProposal:
    """Alternates what helps, what harms, and what does both."""
    kind = view.traces[0].task.family
    lines = {1: [f"TEACH {kind}"], 2: ["SPOIL alpha"], 3: [f"TEACH {kind}", "SPOIL alpha"], 0: [f"TEACH {kind}", "x"]}
    return write(view, *lines[view.round % 4], f"round {view.round}")


def test_invariant_8_that_success_may_not_fall_changes_no_decision_of_complete_binary_pairs(tmp_path: Path) -> None:
    runs = {}
    for variant in ("binary", "u_only"):
        gate = {"gate": {"kind": "repairs_over_regressions", "options": {"variant": variant}}}
        config = small("gso", {"search": {"generations": 6}}, gate)
        runs[variant] = verdicts(search(tmp_path / variant, config, edit=_mixed))
    assert runs["binary"] == runs["u_only"]
    assert set(runs["binary"]) >= {"accept", "reject"}


def test_invariant_9_the_frozen_guide_is_the_same_before_and_after_the_audit(tmp_path: Path) -> None:
    folder = start(tmp_path / "run", small("gso", {"audit": {"auto": False}}))
    final = only(folder, "run.finished")["final"]
    before = folder.load(final)
    assert heads(folder)[-1] == final == before.digest
    result = audit(Opening(folder.path, command="heldout audit", resume=True))
    assert result.final == final
    assert folder.load(final).files == before.files
    assert folder.load(final).digest == final
    assert {data["candidate"] for data in of_kind(folder, "outcome") if data["purpose"] == "audit"} >= {final}


def test_invariant_10_retention_is_refused_and_not_zero_where_no_skill_could_not_be_measured(tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"sweep": {"retries": 0}}})
    folder = start(tmp_path / "run", config, outages=[lambda candidate, _t, _s: "NO_SKILL.md" in candidate.files])
    found = only(folder, "retention")
    assert found["refused"]
    assert found["arms"] == []
    assert found.get("none_train") is None
    whole = only(start(tmp_path / "whole", config), "retention")
    assert [one["arm"] for one in whole["arms"]] == ["start", "final"]
    assert not whole.get("refused")


def test_invariant_11_every_recovery_is_in_the_ledger_and_happens_at_most_once_for_a_task(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("gso"))
    outcomes = of_kind(folder, "outcome")
    recoveries = [data["measures"]["recoveries"] for data in outcomes]
    assert set(recoveries) == {0.0, 1.0}
    assert all(data["spend"]["calls"] == 2 + data["measures"]["recoveries"] for data in outcomes)


def test_invariant_12_the_start_guide_is_always_a_finalist_and_wins_ties(tmp_path: Path) -> None:
    config = small("gso", ONE)
    fresh = {paired_seed(config.seed, task, FRESH_REPEAT) for task in select_ids(config)}

    def even(_candidate: Candidate, _task: Task, seed: int) -> float | None:
        return 1.0 if seed in fresh else None

    folder = start(tmp_path / "run", config, plays=[even])
    assert verdicts(folder) == ["accept"]
    selected, finished = only(folder, "selected"), only(folder, "run.finished")
    assert [one["digest"] for one in selected["finalists"]] == [finished["start"], heads(folder)[0]]
    assert [one["score"] for one in selected["finalists"]] == [1.0, 1.0]
    assert selected["final"] == finished["start"] == finished["final"]


def test_invariant_12_the_audit_pairs_the_final_with_the_start_guide(tmp_path: Path) -> None:
    folder = start(tmp_path / "run", small("gso"))
    finished = only(folder, "run.finished")
    result = next(data for data in of_kind(folder, "audit") if data["role"] == "audit")
    assert result["start"] == of_kind(folder, "candidate")[0]["digest"] == finished["start"]
    assert result["final"] == finished["final"] != finished["start"]
    with pytest.raises(SetupError, match="the start always competes"):
        start(tmp_path / "other", small("gso", {"options": {"final": ["last"]}}))


def test_a_flip_that_a_second_run_of_both_does_not_show_counts_as_none(tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"sweep": {"confirm_flips": True}}})
    ids = select_ids(config)
    first = {paired_seed(config.seed, task, 1) for task in ids[:2]}

    def lucky(candidate: Candidate, task: Task, seed: int) -> float | None:
        return float(seed in first and "NEW WORDS" in str(candidate.files)) if task.id in ids else None

    folder = search(tmp_path / "run", config, edit=better, plays=[lucky])
    table = only(folder, "skill.table")
    assert table["unconfirmed"] == ids[:2]
    assert (table["repairs"], table["utility"]) == (0, 0)
    assert verdicts(folder) == ["reject"]
    confirmed = [data["task"] for data in of_kind(folder, "outcome") if data["purpose"] == "confirm"]
    assert Counter(confirmed) == {ids[0]: 2, ids[1]: 2}
    whole = search(tmp_path / "whole", small("gso", ONE), edit=better, plays=[lucky])
    assert verdicts(whole) == ["accept"]


@pytest.mark.parametrize(("rerun", "repeats"), [(True, {0, 1, 2}), (False, {0})])
def test_a_parent_runs_again_in_each_round_or_its_recorded_outcomes_are_used(
    rerun: bool, repeats: set[int], tmp_path: Path
) -> None:
    folder = search(tmp_path / "run", small("gso", {"options": {"sweep": {"rerun_parent": rerun}}}))
    select = [data for data in of_kind(folder, "outcome") if data["purpose"] == "select"]
    assert {data.get("repeat", 0) for data in select} == repeats
    assert len(select) == 8 * (5 if rerun else 3)
    assert verdicts(folder) == ["accept", "accept"]


@pytest.mark.parametrize(("limit", "rounds"), [(2, 2), (0, 5)])
def test_rounds_in_a_row_without_an_acceptance_end_the_search(limit: int, rounds: int, tmp_path: Path) -> None:
    config = small("gso", {"search": {"generations": 5}, "options": {"stop_after": limit}})
    folder = search(tmp_path / "run", config, edit=lambda _view: EditProposal())
    assert len(of_kind(folder, "decision")) == rounds
    assert only(folder, "selected")["rule"] == "the only finalist"


def test_an_acceptance_starts_the_count_anew(tmp_path: Path) -> None:
    def edit(view: EditView) -> EditProposal:
        return teach(view) if view.round == 2 else EditProposal()

    config = small("gso", {"search": {"generations": 6}, "options": {"stop_after": 2}})
    folder = search(tmp_path / "run", config, edit=edit)
    assert verdicts(folder) == ["undecided", "accept", "undecided", "undecided"]


def test_batches_are_drawn_without_replacement_until_the_pool_is_used_up(tmp_path: Path) -> None:
    config = small("gso", {"search": {"generations": 6}}, {"options": {"batch": 4, "stop_after": 0}})
    folder = search(tmp_path / "run", config, edit=lambda _view: EditProposal())
    batches = [data["batch"] for data in of_kind(folder, "skill.round")]
    assert {len(batch) for batch in batches} == {4}
    for lap in (batches[:3], batches[3:]):
        assert sorted(task for batch in lap for task in batch) == sorted(train_ids(config))
    assert batches[:3] != batches[3:], "the second lap has an order of its own"


def test_a_pool_that_is_no_multiple_of_the_batch_ends_with_a_shorter_one() -> None:
    tasks = [TrainTask(id=str(number), input="") for number in range(10)]
    drawn = [draw_batch(tasks, size=4, number=number, seed=3) for number in range(1, 7)]
    assert [len(batch) for batch in drawn] == [4, 4, 2, 4, 4, 2]
    assert draw_batch(tasks, size=4, number=2, seed=3) == drawn[1]
    assert len(draw_batch(tasks, size=40, number=1, seed=3)) == 10


def test_the_gate_judges_on_the_rounds_own_seeds_and_the_final_on_fresh_ones(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("gso"))
    seeds = {
        (data["purpose"], data.get("repeat", 0)): data["seed"]
        for data in of_kind(folder, "outcome")
        if data["task"] == select_ids(small("gso"))[0]
    }
    assert len(set(seeds.values())) == len({repeat for _, repeat in seeds})
    assert ("final", FRESH_REPEAT) in seeds


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"solver": {"options": {"start": "none"}}}, "improves a guide of six modules, and the start is no skill"),
        ({"improver": {"kind": "catalog"}}, "changes the folders of agents"),
        ({"gate": {"kind": "repeats", "repeats": 2}}, "asks for repeats"),
        ({"gate": {"kind": "fresh", "fresh": 2}}, "asks for new tasks"),
        ({"options": {"attribution": {"map": {"bad luck": "m1_task.md"}}}}, "maps 'bad luck' to 'm1_task.md'"),
    ],
)
def test_what_does_not_fit_the_loop_is_refused_before_anything_is_learned(
    layer: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SetupError, match=message):
        start(tmp_path / "run", small("gso", layer))


@pytest.mark.parametrize("evaluations", range(20, 82, 15))
def test_a_budget_that_ends_leaves_a_usable_run(evaluations: int, tmp_path: Path) -> None:
    config = small("gso", {"budget": {"evaluations": evaluations}, "options": {"retention": False}})
    folder = start(tmp_path / "run", config)
    finished = only(folder, "run.finished")
    assert finished["status"] == "stopped"
    assert "budget.evaluations" in finished["stop_reason"]
    assert len(of_kind(folder, "outcome")) <= evaluations
    assert finished["final"] in {finished["start"], *heads(folder)}
    result = next(data for data in of_kind(folder, "audit") if data["role"] == "audit")
    assert result["final"] == finished["final"]


def _batch(config: RunConfig, number: int) -> Sequence[str]:
    tasks = load_tasks(config.tasks).train
    return [task.id for task in draw_batch(tasks, size=4, number=number, seed=config.seed)]


def _seed(task: str, repeat: int) -> int:
    return paired_seed(0, task, repeat)


def best_of(number: int, **options: Any) -> RunConfig:
    """The arm without iteration."""
    return small("gso", {"search": {"generations": number, "iterate": False}, "options": options})


def test_best_of_n_edits_the_start_each_time_and_moves_once_to_the_largest_gain(tmp_path: Path) -> None:
    config = best_of(3)
    ids = select_ids(config)
    play = only_on(ids, {"": [], "EDIT 1": ids[:1], "EDIT 2": ids[:5], "EDIT 3": ids[:3]})
    folder = search(tmp_path / "run", config, edit=lambda view: write(view, f"EDIT {view.round}"), plays=[play])
    edits = of_kind(folder, "skill.edit")
    begun = of_kind(folder, "candidate")[0]["digest"]
    assert [one["head"] for one in edits] == [begun] * 3
    assert verdicts(folder) == ["undecided"] * 3
    assert heads(folder) == [edits[1]["digest"]]


def test_best_of_n_takes_the_earliest_of_equals(tmp_path: Path) -> None:
    config = best_of(2)
    ids = select_ids(config)
    play = only_on(ids, {"": [], "EDIT": ids[:3]})
    folder = search(tmp_path / "run", config, edit=lambda view: write(view, f"EDIT {view.round}"), plays=[play])
    assert heads(folder) == [of_kind(folder, "skill.edit")[0]["digest"]]


def test_best_of_n_keeps_the_start_where_no_edit_gains(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", best_of(2), edit=lambda view: write(view, f"EDIT {view.round}"))
    assert heads(folder) == []
    assert only(folder, "selected")["final"] == of_kind(folder, "candidate")[0]["digest"]


def test_best_of_n_is_not_ended_by_rounds_without_an_acceptance(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", best_of(3, stop_after=1), edit=lambda view: write(view, f"EDIT {view.round}"))
    assert len(verdicts(folder)) == 3


def test_best_of_n_scores_each_edit_once_at_the_seeds_of_the_start(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", best_of(2), edit=lambda view: write(view, f"EDIT {view.round}"))
    select = [data for data in of_kind(folder, "outcome") if data["purpose"] == "select"]
    assert {data.get("repeat", 0) for data in select} == {0}
    assert len(select) == 3 * len(select_ids(best_of(2)))
