"""What an improver submits is data: whatever stands in it, it is recorded or refused, and the run goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_events import of_kind
from scripted_agent import SCRIPT, note, small, start

from heldout.records import Claim, EditProposal, ProbeKind, Spend

REFUSED = {
    "half a character in a note": lambda: note("Read first.").model_copy(update={"note": "\ud800"}),
    "half a character in a claim": lambda: note("Read first.", claims=(Claim(task="\udfff", diagnosis="?"),)),
    "a negative cost": lambda: note("Read first.", spend=Spend(calls=-100_000)),
    "a cost that is no number": lambda: note("Read first.", spend=Spend(cost_usd=math.nan)),
    "no proposal": lambda: "Read first.",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_be_neither_written_nor_counted_is_an_error_of_its_episode(what: str, tmp_path: Path) -> None:
    def propose(_view: Any, _laboratory: Any) -> Any:
        return REFUSED[what]()

    folder = start(tmp_path / "run", small({"budget": {"dollars": 5.0}}), propose=propose)
    (submitted,) = of_kind(folder, "submission")
    assert "improver" in submitted["proposal"]["error"]
    assert SCRIPT.meta[0].note.verdict == "error"
    assert of_kind(folder, "run.finished")[0]["status"] == "unchanged"


def asks(**said: Any) -> Callable[[Any, Any], EditProposal]:
    def propose(view: Any, laboratory: Any) -> EditProposal:
        failing = [task for task, trace in view.traces.items() if trace.passed is False]
        laboratory.probe(ProbeKind.SUBSTITUTE, **{"tasks": failing[:1], "step": 0, "command": "ls", **said})
        return note("Read the whole file first.")

    return propose


def raises(_view: Any, _laboratory: Any) -> EditProposal:
    raise RuntimeError("\ud800" + "x" * 1_000_000)


ERRORS = {
    "half a character in a task": asks(tasks=["\ud800"]),
    "half a character in a command": asks(command="\ud800"),
    "a book for a command": asks(command="x" * 1_000_000),
    "half a character in an error": raises,
}


@pytest.mark.parametrize("what", ERRORS)
def test_a_request_or_an_error_that_cannot_be_written_ends_its_episode_and_not_the_run(
    what: str, tmp_path: Path
) -> None:
    folder = start(tmp_path / "run", small(), propose=ERRORS[what])
    (submitted,) = of_kind(folder, "submission")
    assert 0 < len(submitted["proposal"]["error"]) <= 10_000
    assert not of_kind(folder, "probe")
    assert of_kind(folder, "run.finished")[0]["status"] == "unchanged"


RECORDED = {
    "measures that are no numbers": {"measures": {"turns": math.nan, "calls": math.inf}},
    "predictions of nothing": {"predicted_fixes": ("no such task", "x" * 1_000), "at_risk": ("nor this",)},
    "a claim about nothing": {"claims": (Claim(task="?", diagnosis="!", step=-5, evidence=("9/9/9",)),)},
    "a note for a terminal and a page": {"note": "\x1b[2J\x07<script>alert(1)</script>\r\n|||"},
}


@pytest.mark.parametrize("what", RECORDED)
def test_odd_words_beside_an_edit_change_nothing_for_it(what: str, tmp_path: Path) -> None:
    def propose(_view: Any, _laboratory: Any) -> EditProposal:
        return note("Read the whole file first.").model_copy(update=RECORDED[what])

    folder = start(tmp_path / "run", small(), propose=propose)
    assert of_kind(folder, "decision")[0]["decision"]["verdict"] == "accept"
