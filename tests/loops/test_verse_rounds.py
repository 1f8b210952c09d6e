"""Rounds of `verse`: what a faulty, a useless and a good edit lead to, and what never moves the head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_events import of_kind, only
from scripted_agent import SCRIPT, note, small, start

from heldout.records import Edit, EditProposal
from heldout.store import RunFolder
from heldout.testing.object_graph import reached


def heads(folder: RunFolder) -> list[str]:
    """Digests that the harness track moved to."""
    return [data["target"] for data in of_kind(folder, "track.moved") if data["track"] == "harness"]


def test_a_valid_edit_is_kept_under_keep_all_and_enters_the_final_beside_the_start(tmp_path: Path) -> None:
    folder = start(tmp_path / "run", small(), propose=lambda _v, _l: note("Read the whole file first."))
    assert len(heads(folder)) == 1
    assert only(folder, "decision")["decision"]["verdict"] == "accept"
    finalists = only(folder, "selected")["finalists"]
    assert [one["round"] for one in finalists] == [0, 1]
    assert only(folder, "run.finished")["final"] in {one["digest"] for one in finalists}


FAULTY = {
    "leaks": lambda view: note(f"Task {next(iter(view.traces))} needs care."),
    "too large": lambda _view: note("x" * 40_000, path="workflow.md"),
    "outside its folder": lambda _view: note("x", path="../escape.md"),
    "an unknown place": lambda _view: note("x", path="grader.py"),
    "hooks that do not parse": lambda _view: note("def before_tool(:\n", path="harness_code/hooks.py"),
    "hooks that import os": lambda _view: note("import os\n", path="harness_code/hooks.py"),
    "nothing at all": lambda _view: EditProposal(),
    "no change": lambda view: EditProposal(
        edits=tuple(Edit(path=path, content=text) for path, text in view.head.files.items())
    ),
    "half a base": lambda _view: note("fine", base_round=7),
}


@pytest.mark.parametrize("what", FAULTY)
def test_invariant_6_a_faulty_edit_leaves_the_head_where_the_round_began(what: str, tmp_path: Path) -> None:
    folder = start(tmp_path / "run", small({"search": {"generations": 2}}), propose=lambda view, _l: FAULTY[what](view))
    assert heads(folder) == []
    finished = only(folder, "run.finished")
    assert finished["final"] == finished["start"]
    assert len(of_kind(folder, "card")) == 2, "the run goes on, and the improver is told"
    assert not (tmp_path / "escape.md").exists()


def test_a_leak_is_told_to_the_improver_and_its_repair_is_used(tmp_path: Path) -> None:
    folder = start(
        tmp_path / "run",
        small(),
        propose=lambda view, _l: note(f"Task {next(iter(view.traces))} needs care."),
        repair=lambda _view, _proposal, _fault: note("Every task needs care."),
    )
    assert len(heads(folder)) == 1
    assert len(SCRIPT.faults) == 1
    assert "name a task" in SCRIPT.faults[0]
    assert [data["check"] for data in of_kind(folder, "smoke")] == ["leak", ""]


def test_three_failed_smokes_make_the_round_invalid(tmp_path: Path) -> None:
    folder = start(
        tmp_path / "run", small(), propose=lambda view, _l: note(f"Task {next(iter(view.traces))} needs care.")
    )
    assert len(of_kind(folder, "smoke")) == 3
    assert len(SCRIPT.faults) == 2
    assert SCRIPT.meta[0].note.verdict == "invalid"


def test_invariant_6_a_branch_that_is_reverted_restores_the_head_and_not_its_base(tmp_path: Path) -> None:
    def propose(view: Any, _laboratory: Any) -> EditProposal:
        if view.round == 1:
            return note("Read the whole file first.")
        return note(f"Task {next(iter(view.traces))} needs care.", base_round=0)

    folder = start(tmp_path / "run", small({"search": {"generations": 3}}), propose=propose)
    assert len(heads(folder)) == 1
    assert {data["head"] for data in of_kind(folder, "round.started")[2:]} == set(heads(folder))


def test_a_branch_applies_its_edits_to_the_base_that_it_names(tmp_path: Path) -> None:
    def propose(view: Any, _laboratory: Any) -> EditProposal:
        if view.round == 1:
            return note("Read the whole file first.")
        return note("Run the checks.", path="workflow.md", base_round=0)

    folder = start(tmp_path / "run", small({"search": {"generations": 2}}), propose=propose)
    last = folder.load(heads(folder)[-1])
    assert "memory.md" not in last.files
    assert "workflow.md" in last.files


def test_the_same_edit_again_gets_one_repair_and_then_goes_on(tmp_path: Path) -> None:
    config = small({"search": {"generations": 2}, "gate": {"kind": "mcnemar"}})
    folder = start(tmp_path / "run", config, propose=lambda _v, _l: note("Read the whole file first."))
    assert heads(folder) == []
    screens = of_kind(folder, "screen")
    assert "dead edit" in screens[1]["disqualified"][0]
    assert screens[1]["winner"] == 0
    assert any("tried before" in fault for fault in SCRIPT.faults)


def test_an_improver_that_raises_makes_an_error_round_and_the_run_goes_on(tmp_path: Path) -> None:
    def propose(view: Any, _laboratory: Any) -> EditProposal:
        if view.round == 1:
            raise RuntimeError("a bug of the improver")
        return note("Read the whole file first.")

    folder = start(tmp_path / "run", small({"search": {"generations": 2}}), propose=propose)
    assert "a bug of the improver" in of_kind(folder, "submission")[0]["proposal"]["error"]
    assert SCRIPT.meta[0].note.verdict == "error"
    assert len(heads(folder)) == 1


def test_train_is_swept_again_only_after_a_kept_round_or_stale_evidence(tmp_path: Path) -> None:
    def propose(view: Any, _laboratory: Any) -> EditProposal:
        return note("Read the whole file first.") if view.round == 4 else EditProposal()

    folder = start(tmp_path / "run", small({"search": {"generations": 5}}), propose=propose)
    swept = {data["round"]: data.get("swept", False) for data in of_kind(folder, "round.started")}
    assert swept == {0: True, 1: False, 2: False, 3: True, 4: True, 5: True}


def test_a_method_edit_moves_the_method_track_and_a_refused_one_does_not(tmp_path: Path) -> None:
    def reflect(view: Any) -> EditProposal:
        if view.round == 1:
            return note("Look at the traces first.\n", path="notes.md")
        return note("x" * 40_000, path="notes.md")

    folder = start(tmp_path / "run", small({"search": {"generations": 2}}), reflect=reflect)
    moved = [data for data in of_kind(folder, "track.moved") if data["track"] == "method"]
    assert [data["generation"] for data in moved] == [1]
    refused = of_kind(folder, "method.edited")[1]
    assert refused["target"] == refused["origin"] == moved[0]["target"]
    assert refused["faults"]
    assert len(SCRIPT.meta) == 3, "the faults of the first submission are told before the second"
    assert SCRIPT.meta[2].faults


def test_without_self_edit_no_meta_episode_runs(tmp_path: Path) -> None:
    folder = start(tmp_path / "run", small({"options": {"method": {"self_edit": False}}}))
    assert SCRIPT.meta == []
    assert not of_kind(folder, "method.edited")
    assert len(of_kind(folder, "card")) == 1


def test_invariant_7_no_sealed_or_select_body_or_answer_is_reachable_from_a_view(tmp_path: Path) -> None:
    config = small()
    start(tmp_path / "run", config, propose=lambda _v, _l: note("Read the whole file first."))
    from heldout.tasks import load_source, load_tasks

    tasks = load_tasks(config.tasks)
    train = {task.id for task in tasks.train}
    others = [item for item in load_source(config.tasks).items() if item.id not in train]
    secrets = [item.input for item in others] + [item.reference for item in load_source(config.tasks).items()]
    assert not reached((SCRIPT.views, SCRIPT.meta), secrets)


def test_invariant_11_a_final_that_is_the_start_says_that_nothing_improved(tmp_path: Path) -> None:
    folder = start(tmp_path / "run", small(), propose=lambda _v, _l: EditProposal())
    finished = only(folder, "run.finished")
    assert finished["status"] == "unchanged"
    assert {data["verdict"] for data in of_kind(folder, "audit")} == {"unchanged"}
