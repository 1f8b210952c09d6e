"""The loop `merged_patches` with the simulated improver itself: fewer faults than traces are no error."""

from __future__ import annotations

from pathlib import Path

from agent_events import of_kind
from lesson_world import search

from heldout.config import load_config
from heldout.loops import preset
from heldout.skills.modules import SKILL_FILE
from heldout.worlds.tables.catalogue import CATALOGUE

EXAMPLES = 3

TABLES = {
    "loop": "merged_patches",
    "tasks": {
        "source": "tables",
        "train": 12,
        "select": 8,
        "audit": 4,
        "grader": "heldout.studies.gso.shadow:shadow_grade",
    },
    "solver": {"harness": "heldout.studies.gso.shadow:ShadowHarness"},
    "improver": {"kind": "skill_catalog", "options": {"accuracy": 1.0}},
    "noise": {"tasks": 2, "simulations": 100},
    "executor": {"kind": "inline"},
    "search": {"generations": 2},
    "options": {"examples": EXAMPLES, "passes": 2},
}


def test_a_pass_with_failed_and_passed_traces_becomes_one_edit_with_a_sentence_of_each(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", load_config([preset("merged_patches", "small"), TABLES]))
    rounds, edits = of_kind(folder, "skill.round"), of_kind(folder, "skill.edit")
    assert len(rounds) == len(edits) == 2
    for begun, edit in zip(rounds, edits, strict=True):
        assert 0 < len(begun["failed"]) < len(begun["batch"]) == 12, "some traces failed, and some passed"
        faults = [one for one in of_kind(folder, "fault.attributed") if one["round"] == begun["round"]]
        assert [one["task"] for one in faults] == begun["failed"]
        assert len(faults) < len(begun["batch"])
        assert not edit.get("fault"), "the improver raised"
        text = folder.load(edit["digest"]).files[SKILL_FILE]
        before = folder.load(edit["head"]).files.get(SKILL_FILE, "")
        added = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ") and line not in before]
        assert 2 <= len(added) == len(set(added)) <= len(faults) + EXAMPLES
        assert all(any(line.startswith(one.text.partition("{name}")[0]) for one in CATALOGUE) for line in added)
    assert {one["decision"]["verdict"] for one in of_kind(folder, "decision")} <= {"accept", "reject"}
