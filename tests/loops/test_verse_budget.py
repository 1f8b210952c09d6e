"""A budget of `verse` that is just enough is enough for a run that was killed and resumed as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_events import killed_after, of_kind
from scripted_agent import note, small, start

from heldout.config import RunConfig
from heldout.records import EditProposal
from heldout.store import RunFolder
from heldout.workbench import Opening, resume


def limited(calls: int) -> RunConfig:
    """A run whose audit is most of what it costs, and whose kept harness is cheaper than its start."""
    sizes = {"tasks": {"audit": 40}, "search": {"generations": 2}}
    return small(sizes, {"options": {"attribute": {"failures": 0, "successes": 0}}, "budget": {"calls": calls}})


def test_invariant_10_a_resumed_run_stops_at_its_budget_only_where_it_would_have_stopped(tmp_path: Path) -> None:
    def propose(view: Any, _laboratory: Any) -> EditProposal:
        return note("max_turns = 4\n", path="harness_code/loop.toml") if view.round == 1 else EditProposal()

    def tried(calls: int) -> RunFolder:
        return start(tmp_path / str(calls), limited(calls), propose=propose)

    def finishes(folder: RunFolder) -> bool:
        return of_kind(folder, "run.finished")[-1]["status"] != "stopped"

    too_few, enough = 0, 2_000
    whole = tried(enough)
    assert finishes(whole)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        found = tried(middle)
        too_few, enough, whole = (too_few, middle, found) if finishes(found) else (middle, enough, whole)
    copy = killed_after(whole, tmp_path / "killed", kind="card")
    resume(Opening(copy.path, command="again", resume=True))
    assert finishes(copy)
    assert of_kind(copy, "track.moved") == of_kind(whole, "track.moved")
