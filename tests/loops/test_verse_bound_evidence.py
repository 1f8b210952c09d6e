"""Evidence in `verse` is bound to a base and to edits of it, in the screen and in the checks of a winner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_events import of_kind
from scripted_agent import note, small, start

from heldout.improvers.agent import RoundView
from heldout.probes import Laboratory
from heldout.records import Edit, EditProposal, Evidence, EvidenceVerdict, ProbeKind
from heldout.worlds.repair.catalogue import CATALOGUE

UNITS = {"search": {"generations": 2}, "options": {"probe": {"units": 200}}}


def tried(
    view: RoundView, laboratory: Laboratory, verdict: EvidenceVerdict, *, base_round: int | None
) -> tuple[tuple[Edit, ...], Evidence]:
    """The first draft of the catalogue and the first failing task whose probe ends so."""
    failing = [task for task, trace in view.traces.items() if trace.passed is False]
    for entry in CATALOGUE:
        edits = entry.apply(view.bases[0].files)
        for task in failing:
            found = laboratory.probe(ProbeKind.FIX_PROBE, [task], edits=edits, base_round=base_round)
            if found.verdict is verdict:
                return edits, found
    raise AssertionError(f"no draft is found that a probe {verdict}")


@pytest.mark.parametrize(("submitted_on", "confirmed"), [(None, 0), (0, 1)])
def test_flips_on_another_base_do_not_count_on_the_screen(
    submitted_on: int | None, confirmed: int, tmp_path: Path
) -> None:
    def propose(view: Any, laboratory: Any) -> EditProposal:
        if view.round == 1:
            return note("Answer with care.")
        edits, _ = tried(view, laboratory, EvidenceVerdict.SUPPORTS, base_round=0)
        return EditProposal(edits=edits, base_round=submitted_on, note="tried on round 0")

    folder = start(tmp_path / "run", small(UNITS), propose=propose)
    assert of_kind(folder, "screen")[1]["confirmed"] == [confirmed]


def test_drafts_that_are_probed_on_the_head_bind_a_branch_too(tmp_path: Path) -> None:
    def propose(view: Any, laboratory: Any) -> EditProposal:
        if view.round == 1:
            return note("Answer with care.")
        edits, found = tried(view, laboratory, EvidenceVerdict.REFUTES, base_round=0)
        return EditProposal(edits=edits, base_round=0, predicted_fixes=found.tasks, note="refuted on the head")

    config = small(UNITS, {"options": {"probe": {"on": "head"}}})
    folder = start(tmp_path / "run", config, propose=propose)
    smoked = [data["check"] for data in of_kind(folder, "smoke") if data["round"] == 2]
    assert smoked == ["claims"] * 3


def test_a_manifest_reads_train_rows_and_tells_the_gain_on_select_alone(tmp_path: Path) -> None:
    def propose(view: Any, _laboratory: Any) -> EditProposal:
        failing = tuple(task for task, trace in view.traces.items() if trace.passed is False)
        return note("Read the whole file first 1.", predicted_fixes=failing)

    config = small({"gate": {"kind": "manifest"}, "tasks": {"select": 10}})
    folder = start(tmp_path / "run", config, propose=propose)
    (flips,), (decided,) = of_kind(folder, "flips"), of_kind(folder, "decision")
    decision = decided["decision"]
    assert "predicted fixes" in decision["reason"]
    assert decision["n"] == flips["n"] == 10
    assert decision["effect"] == pytest.approx(flips["score_after"] - flips["score_before"])
    assert decision["wins"] == len(flips["fixed"]) > 0
    assert decision.get("losses", 0) == len(flips["broken"])
