"""Attributions and edits of the loop `gso`: what of them is used, what is refused, and what an improver is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_events import of_kind, only, verdicts, whys
from lesson_world import (
    KINDS,
    RUNS,
    SCRIPT,
    blame,
    mark,
    search,
    small,
    teach,
    train_ids,
    write,
)

from heldout.improvers.skill_roles import Attribution, EditView, FaultView
from heldout.records import Edit, EditProposal, SelectTask
from heldout.skills.guide import start_guide
from heldout.skills.modules import MODULES
from heldout.store import RunFolder
from heldout.tasks import load_tasks

ONE = {"search": {"generations": 1}}


def heads(folder: RunFolder) -> list[str]:
    return [data["target"] for data in of_kind(folder, "track.moved")]


def run_under(digest: str) -> list[str]:
    """Tasks that were run under a candidate."""
    return [task for candidate, task, _ in RUNS if candidate == digest]


def test_invariant_2_an_edit_of_another_module_than_the_attributed_one_is_refused_whatever_it_repairs(
    tmp_path: Path,
) -> None:
    def elsewhere(view: EditView) -> EditProposal:
        return write(view, *(f"TEACH {kind}" for kind in KINDS), module="m1_task.md")

    folder = search(tmp_path / "run", small("gso", ONE), edit=elsewhere)
    edit = only(folder, "skill.edit")
    assert edit["attributed"] == "m3_skill.md"
    assert "attributed to m3_skill.md, and the edit changes m1_task.md" in edit["fault"]
    assert edit.get("digest") is None
    assert verdicts(folder) == ["undecided"]
    assert heads(folder) == []
    refused = of_kind(folder, "candidate")[-1]["digest"]
    assert run_under(refused) == [], "it stays in the lineage, and is never run"


def test_with_modules_any_the_same_edit_is_run_and_kept(tmp_path: Path) -> None:
    def elsewhere(view: EditView) -> EditProposal:
        assert view.module is None
        return write(view, *(f"TEACH {kind}" for kind in KINDS), module="m1_task.md")

    folder = search(tmp_path / "run", small("gso", ONE, {"options": {"modules": "any"}}), edit=elsewhere)
    assert only(folder, "skill.edit").get("attributed") is None
    assert verdicts(folder) == ["accept"]


def test_invariant_3_no_transient_skill_reaches_the_context_of_another_task(tmp_path: Path) -> None:
    def nosy(view: EditView) -> EditProposal:
        return write(view, f"TEACH {view.traces[0].task.family}")

    config = small("gso", {"options": {"attribution": {"tries": 4}}})
    folder = search(tmp_path / "run", config, attribute=_second_time(), edit=nosy)
    everyone = [mark(task) for task in (*load_tasks(config.tasks).train, *load_tasks(config.tasks).select)]
    assert any(one in path.read_text() for path in folder.blobs.rglob("SKILL.md") for one in everyone), "they are kept"
    assert len(SCRIPT.faults) > len(SCRIPT.views) > 0
    for view in SCRIPT.faults:
        assert [one for one in everyone if one in repr(view)] == [mark(view.trace.task)]
    for edited in SCRIPT.views:
        assert [one for one in everyone if one in repr(edited)] == [mark(edited.traces[0].task)]
    for added in of_kind(folder, "candidate"):
        texts = "".join(folder.load(added["digest"]).files.values())
        assert not [one for one in everyone if one in texts]


def _second_time() -> Callable[[FaultView], Attribution]:
    """An attributor that can learn from every second trace."""
    asked: list[str] = []

    def attribute(view: FaultView) -> Attribution:
        asked.append(view.trace.task.id)
        return blame(view) if len(asked) % 2 == 0 else Attribution(evidence="the shell was slow")

    return attribute


def test_the_first_learnable_failure_is_edited_after_and_each_attribution_is_on_record(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("gso", ONE), attribute=_second_time())
    faults = of_kind(folder, "fault.attributed")
    failed = only(folder, "skill.round")["failed"]
    assert [one["task"] for one in faults] == failed[:2]
    assert [one.get("module") for one in faults] == [None, "m3_skill.md"]
    assert SCRIPT.views[0].traces[0].task.id == failed[1]


def test_invariant_5_a_module_that_holds_a_train_literal_is_refused_before_it_is_run(tmp_path: Path) -> None:
    def literal(view: EditView) -> EditProposal:
        return write(view, f"TEACH beta, as {view.traces[0].task.id} asks")

    folder = search(tmp_path / "run", small("gso", ONE), edit=literal)
    edit = only(folder, "skill.edit")
    assert repr(SCRIPT.views[0].traces[0].task.id) in edit["fault"]
    assert "names of train tasks" in edit["fault"]
    assert set(SCRIPT.views[0].forbidden) >= set(train_ids(small("gso")))
    refused = of_kind(folder, "candidate")[-1]["digest"]
    assert run_under(refused) == []
    assert verdicts(folder) == ["undecided"]


def test_without_the_scan_a_literal_is_run_like_any_text(tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"literals": False}})
    folder = search(tmp_path / "run", config, edit=lambda view: write(view, "TEACH beta", view.traces[0].task.id))
    assert SCRIPT.views[0].forbidden == ()
    assert verdicts(folder) == ["accept"]


def test_a_name_that_the_start_guide_holds_already_came_from_no_task_and_is_no_hit(tmp_path: Path) -> None:
    guide = tmp_path / "guide"
    guide.mkdir()
    for path, text in start_guide().items():
        (guide / path).write_text(text + f"\n{train_ids(small('gso'))[0]}\n", encoding="utf-8")
    folder = search(tmp_path / "run", small("gso", ONE, {"solver": {"start": str(guide)}}))
    assert only(folder, "skill.edit").get("fault", "") == ""
    assert verdicts(folder) == ["accept"]


REFUSED: dict[str, tuple[Callable[[EditView], Any], str]] = {
    "no edit": (lambda _view: EditProposal(), "nothing left to try"),
    "garbage": (lambda _view: "TEACH beta", "the improver returned str, not an EditProposal"),
    "an error": (lambda view: write(view, "TEACH beta", error="I am not sure"), "I am not sure"),
    "a broken guide": (
        lambda view: EditProposal(edits=(Edit(path=str(view.module), content="TEACH beta"),)),
        "m3_skill.md has no section '## Inputs'",
    ),
    "a missing module": (
        lambda view: EditProposal(edits=(Edit(path=str(view.module), content=None),)),
        "the guide has no module m3_skill.md",
    ),
    "a path out of the folder": (
        lambda _view: EditProposal(edits=(Edit(path="../m3_skill.md", content="x"),)),
        "the edited folder is not usable",
    ),
    "what is there already": (
        lambda view: EditProposal(edits=(Edit(path=str(view.module), content=view.head.files[str(view.module)]),)),
        "the edit changes nothing",
    ),
    "what no harness runs": (lambda view: write(view, "UNUSABLE"), "the folder says that it is not usable"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_edit_that_cannot_be_used_is_on_record_with_its_reason_and_the_run_goes_on(
    what: str, tmp_path: Path
) -> None:
    edit, reason = REFUSED[what]
    folder = search(tmp_path / "run", small("gso"), edit=lambda view: edit(view) if view.round == 1 else teach(view))
    first, second = of_kind(folder, "skill.edit")
    assert reason in first["fault"]
    assert first.get("digest") is None
    assert verdicts(folder) == ["undecided", "accept"]
    assert reason in whys(folder)[0]
    told = SCRIPT.views[1].history[0]
    assert (told.verdict, told.round) == ("refused", 1)
    assert reason in told.reason
    assert second["digest"] == heads(folder)[0]


def test_an_improver_that_raises_makes_a_refused_edit(tmp_path: Path) -> None:
    def broken(_view: EditView) -> EditProposal:
        raise RuntimeError("a bug of the improver")

    folder = search(tmp_path / "run", small("gso", ONE), edit=broken)
    assert "a bug of the improver" in only(folder, "skill.edit")["fault"]
    assert not only(folder, "skill.edit").get("unanswered"), "its model did not fail"


def test_an_edit_that_was_tried_before_is_not_run_again(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("gso"), edit=lambda view: write(view, "SPOIL alpha"))
    assert verdicts(folder) == ["reject", "undecided"]
    assert of_kind(folder, "skill.edit")[1]["fault"] == "it was tried before"


@pytest.mark.parametrize(
    ("says", "error"),
    [
        (Attribution(stage="bad luck", module="m3_skill.md"), "the attributor named the stage 'bad luck'"),
        (Attribution(stage="execution", module="m9.md"), "the attributor named the module 'm9.md'"),
        ("m3_skill.md", "the improver returned str, not an Attribution"),
    ],
)
def test_an_attribution_that_names_nothing_that_there_is_teaches_nothing(says: Any, error: str, tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("gso", ONE), attribute=lambda _view: says)
    faults = of_kind(folder, "fault.attributed")
    assert len(faults) == len(only(folder, "skill.round")["failed"])
    assert all(error in one["error"] for one in faults)
    assert of_kind(folder, "skill.edit") == []


@pytest.mark.parametrize(
    ("stage", "mapped", "module"),
    [
        ("contract parsing", {}, "m1_task.md"),
        ("artifact validation", {}, "m4_validation.md"),
        ("execution", {"execution": "m6_repair.md"}, "m6_repair.md"),
    ],
)
def test_a_stage_leads_to_its_module(stage: str, mapped: dict[str, str], module: str, tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"attribution": {"map": mapped}}})
    search(tmp_path / "run", config, attribute=lambda _view: Attribution(stage=stage))
    assert SCRIPT.views[0].module == module
    assert SCRIPT.views[0].faults[0].module == module


def test_no_select_body_reaches_an_improver(tmp_path: Path) -> None:
    config = small("gso")
    search(tmp_path / "run", config)
    shown = repr((SCRIPT.faults, SCRIPT.views))
    assert all(task.input not in shown for task in load_tasks(config.tasks).select)
    assert any(task.input in shown for task in load_tasks(config.tasks).train)
    assert not any(isinstance(trace.task, SelectTask) for view in SCRIPT.views for trace in view.traces)


def test_the_modules_that_no_edit_touched_are_the_start_guides_own(tmp_path: Path) -> None:
    folder = search(tmp_path / "run", small("gso"))
    first, last = (folder.load(of_kind(folder, "candidate")[at]["digest"]).files for at in (0, -1))
    assert [name for name in MODULES if first[name] != last[name]] == ["m3_skill.md"]


@pytest.mark.parametrize("tries", [1, 2])
def test_no_more_failures_are_asked_about_than_the_options_say(tries: int, tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"batch": 12, "attribution": {"tries": tries}}})
    folder = search(tmp_path / "run", config, attribute=lambda _view: Attribution())
    assert len(only(folder, "skill.round")["failed"]) > 2
    assert len(SCRIPT.faults) == len(of_kind(folder, "fault.attributed")) == tries


def test_attributor_and_editor_draw_from_seeds_of_their_own(tmp_path: Path) -> None:
    def second(view: FaultView) -> Attribution:
        return blame(view) if len(SCRIPT.faults) > 1 else Attribution()

    search(tmp_path / "run", small("gso", ONE, {"options": {"batch": 12}}), attribute=second)
    seeds = [view.seed for view in (*SCRIPT.faults, *SCRIPT.views)]
    assert len(seeds) == len(set(seeds)) == 3
