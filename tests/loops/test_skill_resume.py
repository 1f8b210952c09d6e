"""A run of a loop over skills that is killed after any event and resumed is the same run, and pays nothing twice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_events import killed_after, of_kind
from lesson_world import OUTAGES, SCRIPT, blame, say, search, searched, select_ids, small, teach, train_ids, write

from heldout.config import RunConfig
from heldout.errors import BudgetExhausted, ModelError
from heldout.improvers.skill_roles import EditView
from heldout.loops import SKILL_LOOPS
from heldout.records import EditProposal, Task
from heldout.store import RunFolder, read_events
from heldout.workbench import Opening, resume, run

LOOPS = sorted(SKILL_LOOPS)

STEPS = (
    "candidate",
    "noise.measured",
    "skill.round",
    "fault.attributed",
    "skill.edit",
    "skill.table",
    "decision",
    "track.moved",
    "selected",
)
"""Every kind of step of a search."""


def varied(view: EditView) -> EditProposal:
    """Helps, is refused, harms, in turn; what it says hangs on what became of the edits before it."""
    told = ", ".join(f"{note.round} {note.verdict}" for note in view.history)
    if view.round % 4 == 2:
        return EditProposal(error=f"no idea after {told}")
    if view.round % 4 == 3:
        return write(view, "SPOIL alpha", f"WAS {told}")
    kind = view.traces[0].task.family
    return write(view, f"TEACH {kind}", f"WAS {told}")


def tiny(loop: str, *layers: Any) -> RunConfig:
    sizes = {"tasks": {"train": 8, "select": 4, "audit": 4}, "noise": {"tasks": 1}, "search": {"generations": 4}}
    return small(loop, sizes, {"options": {"batch": 4, "stop_after": 0}}, *layers)


def same_search(whole: RunFolder, copy: RunFolder) -> None:
    for kind in STEPS:
        assert _lasting(whole, kind) == _lasting(copy, kind), kind
    for kind, key in (("outcome", "key"), ("skill.edit", "round")):
        paid = [data[key] for data in of_kind(copy, kind)]
        assert len(set(paid)) == len(paid), f"{kind} was paid twice"
        assert len(paid) == len(of_kind(whole, kind))


def _lasting(folder: RunFolder, kind: str) -> list[Any]:
    return [_without_clock(data) for data in of_kind(folder, kind)]


def _without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_clock(item) for key, item in value.items() if key != "spend"}
    return value


def copied(whole: RunFolder, folder: Path, *, lines: int) -> RunFolder:
    """The run as it was after so many events."""
    shutil.copytree(whole.path, folder, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
    copy = RunFolder(folder)
    copy.events.write_bytes(b"".join(whole.events.read_bytes().splitlines(keepends=True)[:lines]))
    return copy


def again(copy: RunFolder, config: RunConfig, **says: Any) -> RunFolder:
    say(**says)
    return searched(Opening(copy.path, command="again", resume=True), config)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_kill_after_any_event_and_a_resume_give_the_same_search(loop: str, every: bool, tmp_path: Path) -> None:
    config = tiny(loop, {"search": {"generations": 2}} if loop == "gepa" and not every else {})
    whole = search(tmp_path / "whole", config, edit=varied)
    kinds = [event.kind for event in read_events(whole.events)]
    first = {kind: at + 1 for at, kind in reversed(list(enumerate(kinds)))}
    last = {kind: at + 1 for at, kind in enumerate(kinds)}
    ends = {*first.values(), *last.values()} if not every else {at + 1 for at in range(len(kinds))}
    for kept in sorted(ends):
        copy = copied(whole, tmp_path / f"killed-{kept}", lines=kept)
        again(copy, config, edit=varied)
        same_search(whole, copy)
        shutil.rmtree(copy.path)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_finished_run_that_is_resumed_pays_nothing_and_asks_nobody(loop: str, tmp_path: Path) -> None:
    config = tiny(loop)
    say(edit=varied)
    whole = run(config, Opening(tmp_path / "run", command="heldout run test"))
    before = {kind: len(of_kind(whole, kind)) for kind in (*STEPS, "outcome", "audit", "retention")}
    say(edit=varied)
    resume(Opening(whole.path, command="again", resume=True))
    assert {kind: len(of_kind(whole, kind)) for kind in before} == before
    assert SCRIPT.faults == SCRIPT.views == SCRIPT.drafts == []


def _silent(_view: Any) -> Any:
    raise ModelError("the endpoint is down", calls=2)


@pytest.mark.parametrize(
    ("role", "kind"), [("attribute", "fault.attributed"), ("edit", "skill.edit"), ("draft", "skill.edit")]
)
def test_what_the_improvers_model_did_not_answer_is_asked_again_on_resume(role: str, kind: str, tmp_path: Path) -> None:
    config = tiny("gso" if role != "draft" else "persistent_skill")
    says: dict[str, Callable[..., Any]] = {role: _silent}
    if role == "draft":
        with pytest.raises(ModelError):
            search(tmp_path / "run", config, **says)
        copy = RunFolder(tmp_path / "run")
    else:
        copy = killed_after(search(tmp_path / "whole", config, **says), tmp_path / "run", kind=kind)
    assert of_kind(copy, kind)[0]["unanswered"] is True
    again(copy, config)
    first, second = of_kind(copy, kind)[:2]
    assert first.get("round", 0) == second.get("round", 0)
    assert not second.get("unanswered")
    assert of_kind(copy, "decision")[0]["decision"]["verdict"] == "accept"


def test_an_outage_that_a_round_was_decided_on_is_not_asked_about_again(tmp_path: Path) -> None:
    config = tiny("gso")
    whole = search(tmp_path / "whole", config, edit=lambda view: _silent(view) if view.round == 1 else teach(view))
    assert "the endpoint is down" in of_kind(whole, "decision")[0]["decision"]["reason"]
    copy = killed_after(whole, tmp_path / "killed", kind="decision")
    again(copy, config)
    assert [data["round"] for data in of_kind(copy, "skill.edit")] == [
        data["round"] for data in of_kind(whole, "skill.edit")
    ]
    assert of_kind(copy, "decision") == of_kind(whole, "decision")


def test_an_attributor_that_is_out_ends_the_round_and_not_the_run(tmp_path: Path) -> None:
    def sometimes(view: Any) -> Any:
        return _silent(view) if view.round == 1 else blame(view)

    folder = search(tmp_path / "run", tiny("gso"), attribute=sometimes)
    faults = of_kind(folder, "fault.attributed")
    assert [data["round"] for data in faults].count(1) == 1, "the others of the batch are not asked about"
    assert faults[0]["spend"]["calls"] == 2
    assert [data["decision"]["verdict"] for data in of_kind(folder, "decision")][:2] == ["undecided", "accept"]


@pytest.mark.parametrize("loop", LOOPS)
def test_what_was_missing_when_something_was_decided_stays_missing_on_resume(loop: str, tmp_path: Path) -> None:
    config = tiny(loop, {"tasks": {"select": 12}, "options": {"sweep": {"retries": 0}}})
    lost = {select_ids(config)[0], train_ids(config)[0]}

    def out(candidate: Any, task: Task, _seed: int) -> bool:
        del candidate
        return task.id in lost

    whole = search(tmp_path / "whole", config, outages=[out])
    moved = next(at for at, event in enumerate(read_events(whole.events)) if event.kind == "decision")
    copy = copied(whole, tmp_path / "killed", lines=moved + 1)
    say()
    assert not OUTAGES
    searched(Opening(copy.path, command="again", resume=True), config)
    assert of_kind(copy, "decision")[0] == of_kind(whole, "decision")[0]
    settled = {data["key"] for data in of_kind(whole, "outcome")[: moved + 1] if data.get("score") is None}
    measured = [data["key"] for data in of_kind(copy, "outcome") if data.get("score") is not None]
    early = {data["key"] for data in _before(copy, moved + 1)} & settled
    assert early
    assert not early & set(measured)


def _before(folder: RunFolder, lines: int) -> list[Any]:
    return [event.data for event in list(read_events(folder.events))[:lines] if event.kind == "outcome"]


@pytest.mark.parametrize("lesson", [1, 0])
def test_a_budget_that_is_just_enough_is_enough_for_a_killed_run_as_well(lesson: int, tmp_path: Path) -> None:
    def edit(view: EditView) -> EditProposal:
        return teach(view) if view.round == lesson else EditProposal(error="no idea")

    def costly(_candidate: Any, task: Task, _seed: int) -> float | None:
        return 0.0 if task.id in train else None

    def tried(calls: int, folder: Path) -> RunFolder | None:
        say(edit=edit, plays=[costly])
        try:
            return searched(Opening(folder, command="heldout run test"), limited(calls))
        except BudgetExhausted:
            return None

    train, too_few, enough = train_ids(limited(1_000)), 0, 1_000
    whole = tried(enough, tmp_path / "whole")
    assert whole is not None
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        found = tried(middle, tmp_path / str(middle))
        too_few, enough, whole = (middle, enough, whole) if found is None else (too_few, middle, found)
    kinds = [event.kind for event in read_events(whole.events)]
    for at in range(len(kinds) // 2, len(kinds), 7):
        copy = copied(whole, tmp_path / f"killed-{at}", lines=at)
        again(copy, limited(enough), edit=edit, plays=[costly])
        same_search(whole, copy)


def limited(calls: int) -> RunConfig:
    """Most of what it costs is its audit, which is held at what start and head have cost by then: a failed task costs a
    recovery, and train tasks fail in this test."""
    sizes = {"tasks": {"audit": 40, "select": 4, "train": 8}, "options": {"batch": 8}}
    return tiny("gso", sizes, {"search": {"generations": 2}, "budget": {"calls": calls}})


def test_best_of_n_is_the_same_search_after_a_kill(tmp_path: Path) -> None:
    config = tiny("gso", {"search": {"iterate": False}})
    whole = search(tmp_path / "whole", config)
    assert len(of_kind(whole, "track.moved")) == 1
    for kind in ("skill.table", "decision", "track.moved"):
        copy = killed_after(whole, tmp_path / kind, kind=kind)
        again(copy, config)
        same_search(whole, copy)
