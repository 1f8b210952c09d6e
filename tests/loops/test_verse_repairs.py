"""Repairs in `verse`: each is a question of its own, with experiments of its own, whatever was asked before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_events import killed_after, of_kind
from scripted_agent import SCRIPT, note, small, start

from heldout.errors import ModelError
from heldout.records import EditProposal, ProbeKind
from heldout.workbench import Opening, resume

PROBING = {"improver": {"kind": "probing_agent:ProbingAgent"}}


def leaks(view: Any) -> EditProposal:
    return note(f"Task {next(iter(view.traces))} needs care.")


def mended_at_the_second(_view: Any, proposal: EditProposal, _fault: str) -> EditProposal:
    return note("Every task needs care.") if len(SCRIPT.faults) == 2 else proposal


def test_invariant_10_a_repair_after_a_kill_makes_the_experiments_that_it_would_have_made(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole", small(PROBING), propose=lambda view, _l: leaks(view), repair=mended_at_the_second)
    assert [data["check"] for data in of_kind(whole, "smoke")] == ["leak", "leak", ""]
    copy = killed_after(whole, tmp_path / "killed", kind="smoke", count=2)
    SCRIPT.faults[1:] = []
    resume(Opening(copy.path, command="again", resume=True))
    for kind in ("probe", "submission", "smoke"):
        assert [_lasting(data) for data in of_kind(copy, kind)] == [_lasting(data) for data in of_kind(whole, kind)]


def test_a_fault_is_told_although_a_repair_for_novelty_was_of_no_use(tmp_path: Path) -> None:
    def propose(view: Any, laboratory: Any) -> EditProposal:
        same = note("Read the whole file first.")
        if view.round == 1:
            return same
        failing = [task for task, trace in view.traces.items() if trace.passed is False]
        refuted = [
            task
            for task in failing
            if laboratory.probe(ProbeKind.FIX_PROBE, [task], edits=same.edits).verdict == "refutes"
        ]
        return same.model_copy(update={"predicted_fixes": tuple(refuted[:1])})

    config = small({"search": {"generations": 2}, "gate": {"kind": "mcnemar"}, "options": {"probe": {"units": 8}}})
    folder = start(tmp_path / "run", config, propose=propose)
    assert [data["check"] for data in of_kind(folder, "smoke") if data["round"] == 2] == ["claims"] * 3
    assert ["tried before" in fault for fault in SCRIPT.faults] == [True, False, False]
    assert [data.get("attempt", 0) for data in of_kind(folder, "submission") if data["round"] == 2] == [0, 1, 2, 3]


def test_an_episode_that_an_outage_ended_takes_its_place_in_the_lineage_when_it_is_asked_again(tmp_path: Path) -> None:
    down = True

    def propose(view: Any, _laboratory: Any) -> EditProposal:
        if down and view.episode == 0:
            raise ModelError("the endpoint is down", calls=1)
        return note(f"Read the whole file first, {view.episode}.")

    config = small({"search": {"candidates": 2}})
    whole = start(tmp_path / "whole", config, propose=propose)
    copy = killed_after(whole, tmp_path / "killed", kind="proposal", count=2)
    down = False
    resume(Opening(copy.path, command="again", resume=True))
    submitted = {data["digest"] for data in of_kind(copy, "submission") if data.get("digest")}
    assert len(submitted) == 2
    assert {data["digest"] for data in of_kind(copy, "proposal") if data.get("digest")} == submitted


def test_a_repair_that_an_outage_ended_and_smoke_has_judged_is_not_asked_again(tmp_path: Path) -> None:
    down = True

    def mended(_view: Any, _proposal: Any, _fault: str) -> EditProposal:
        if down and len(SCRIPT.faults) == 1:
            raise ModelError("the endpoint is down", calls=1)
        return note("Every task needs care.")

    whole = start(tmp_path / "whole", small(), propose=lambda view, _l: leaks(view), repair=mended)
    assert [data["check"] for data in of_kind(whole, "smoke")] == ["leak", "apply", ""]
    copy = killed_after(whole, tmp_path / "killed", kind="smoke", count=2)
    down, SCRIPT.faults[1:] = False, []
    resume(Opening(copy.path, command="again", resume=True))
    assert len(SCRIPT.faults) == 2, "the second repair alone"
    for kind in ("submission", "smoke"):
        assert [_lasting(data) for data in of_kind(copy, kind)] == [_lasting(data) for data in of_kind(whole, kind)]


def _lasting(value: Any) -> Any:
    """Without what depends on the clock."""
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key != "spend"}
    return [_lasting(item) for item in value] if isinstance(value, list) else value
