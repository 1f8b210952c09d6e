"""Whole runs of loops over skills that are killed anywhere and resumed, or end with their budget, in the shadow world.

The shadow world decides as the real harness does, without a sandbox; `test_gso_real.py` kills real runs.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gso_parts import SPOILT, STEPS, blobs, only, same_run, shadow, transient_skills
from run_events import of_kind

from heldout.config import RunConfig
from heldout.errors import BudgetExhausted
from heldout.loops import SKILL_LOOPS
from heldout.report import run_json, summary
from heldout.skills import changed_modules
from heldout.store import Index, RunFolder, read_events
from heldout.workbench import Opening, audit, plan, resume, run

LOOPS = sorted(SKILL_LOOPS)


def ran(folder: Path, config: RunConfig) -> RunFolder:
    return run(config, Opening(folder, command="heldout run test"))


def cut(whole: RunFolder, folder: Path, *, lines: int) -> RunFolder:
    """The run as it was after so many events."""
    shutil.copytree(whole.path, folder, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
    copy = RunFolder(folder)
    copy.events.write_bytes(b"".join(whole.events.read_bytes().splitlines(keepends=True)[:lines]))
    return copy


def found(folder: RunFolder) -> Any:
    """The run's JSON object."""
    with Index.open(folder.path) as index:
        return run_json(summary(index.connection), report=None)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "loop", [name if name == "gso" else pytest.param(name, marks=pytest.mark.slow) for name in LOOPS]
)
def test_a_kill_after_any_event_of_a_whole_run_keeps_decisions_final_and_retention(
    tmp_path: Path, loop: str, every: bool
) -> None:
    whole = ran(tmp_path / "whole", shadow(tmp_path / "start", loop=loop))
    kinds = [event.kind for event in read_events(whole.events)]
    if loop == "gso":
        assert not set(STEPS) - set(kinds), "killing the run would show nothing of them"
        assert [data["decision"]["verdict"] for data in of_kind(whole, "decision")] == ["undecided", "reject", "accept"]
    last = {kind: at + 1 for at, kind in enumerate(kinds)}
    ends = {at + 1 for at in range(len(kinds))} if every else {*last.values(), 1}
    for kept in sorted(ends):
        copy = cut(whole, tmp_path / f"killed-{kept}", lines=kept)
        resume(Opening(copy.path, command="again", resume=True))
        same_run(whole, copy)
        for part in ("learning", "arms", "retention", "finalists", "recorded_gain"):
            assert getattr(found(copy).skills, part) == getattr(found(whole).skills, part)
        shutil.rmtree(copy.path)


def test_a_run_that_is_killed_in_its_audit_goes_on_with_the_command_audit(tmp_path: Path) -> None:
    whole = ran(tmp_path / "whole", shadow(tmp_path / "start"))
    kinds = [event.kind for event in read_events(whole.events)]
    for kept in (kinds.index("audit.opened") + 1, kinds.index("audit.opened") + 4, kinds.index("audit")):
        copy = cut(whole, tmp_path / f"killed-{kept}", lines=kept)
        audit(Opening(copy.path, command="heldout audit", resume=True))
        same_run(whole, copy)
        assert len(of_kind(copy, "audit.opened")) == 1


def test_a_kill_between_audit_and_retention_leaves_the_rest_to_the_command_audit(tmp_path: Path) -> None:
    whole = ran(tmp_path / "whole", shadow(tmp_path / "start"))
    kinds = [event.kind for event in read_events(whole.events)]
    for kept in range(kinds.index("audit") + 1, kinds.index("retention") + 1, 7):
        copy = cut(whole, tmp_path / f"killed-{kept}", lines=kept)
        result = audit(Opening(copy.path, command="heldout audit", resume=True))
        assert result.gain == of_kind(whole, "audit")[0].get("gain")
        same_run(whole, copy)


@pytest.mark.parametrize("part", range(6))
def test_a_budget_of_evaluations_that_ends_anywhere_leaves_a_usable_run(tmp_path: Path, part: int) -> None:
    config = shadow(tmp_path / "start")
    whole = ran(tmp_path / "whole", config)
    needed = len(of_kind(whole, "outcome"))
    limit = 4 + (needed - 4) * part // 5
    folder = ran(tmp_path / "r", shadow(tmp_path / "start", {"budget": {"evaluations": limit}}))
    (finished,) = of_kind(folder, "run.finished")
    assert len(of_kind(folder, "outcome")) <= limit
    one = found(folder)
    assert one.status == finished["status"]
    heads = {data["target"] for data in of_kind(folder, "track.moved")}
    assert finished["final"] in {finished["start"], *heads}
    if finished["status"] == "stopped":
        assert f"budget.evaluations = {limit} leaves no room for " in finished["stop_reason"]
    if finished["final"] != finished["start"]:
        assert one.audit is not None
        assert one.audit.n == 4, "the audit had the room that was held for it"
    assert folder.report.is_file()
    assert finished["status"] == "stopped" or of_kind(folder, "retention") == [] or part == 5
    if of_kind(folder, "retention") == [] and of_kind(folder, "audit.opened"):
        audit(
            Opening(folder.path, command="heldout audit", resume=True),
            config=shadow(tmp_path / "start", {"budget": {"evaluations": 1000}}),
        )
        assert only(folder, "retention")["arms"]


@pytest.mark.parametrize("budget", [{"calls": 90}, {"tokens": 150_000}, {"cpu_s": 0.002}, {"wall_s": 0.05}])
def test_other_limits_leave_a_usable_run_too(tmp_path: Path, budget: dict[str, float]) -> None:
    folder = ran(tmp_path / "r", shadow(tmp_path / "start", {"budget": budget}))
    (finished,) = of_kind(folder, "run.finished")
    (name,) = budget
    assert finished["status"] == found(folder).status == "stopped"
    assert finished["stop_reason"].startswith(f"budget.{name} = ")
    assert folder.report.is_file()


def test_a_budget_under_which_the_audit_cannot_be_finished_says_so_again(tmp_path: Path) -> None:
    whole = ran(tmp_path / "whole", shadow(tmp_path / "start"))
    needed = len(of_kind(whole, "outcome"))
    few = ran(tmp_path / "r", shadow(tmp_path / "start", {"budget": {"evaluations": needed - 3}}))
    assert only(few, "run.finished")["status"] == "improved"
    assert of_kind(few, "retention") == []
    with pytest.raises(BudgetExhausted, match=f"budget.evaluations = {needed - 3} leaves no room for audit"):
        audit(Opening(few.path, command="heldout audit", resume=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run whose audit is still closed."""
    base = tmp_path_factory.mktemp("invariants")
    return ran(base / "r", shadow(base / "start", {"audit": {"auto": False}}))


class TestInvariantsOfAWholeRun:
    def test_invariant_9_the_frozen_guide_is_the_same_before_and_after_the_audit(
        self, folder: RunFolder, tmp_path: Path
    ) -> None:
        copy = RunFolder(shutil.copytree(folder.path, tmp_path / "r"))
        final, before = only(copy, "run.finished")["final"], blobs(copy)
        audit(Opening(copy.path, command="heldout audit", resume=True))
        after = blobs(copy)
        assert copy.load(final).digest == final
        assert {digest: after[digest] for digest in before} == before
        audited = {data["candidate"] for data in of_kind(copy, "outcome") if data["purpose"] == "audit"}
        assert audited == {only(copy, "run.finished")["start"], final, only(copy, "retention")["none"]}

    def test_invariant_2_the_final_differs_from_the_start_in_the_attributed_module_alone(
        self, folder: RunFolder
    ) -> None:
        finished = only(folder, "run.finished")
        start, final = (folder.load(finished[name]).files for name in ("start", "final"))
        assert changed_modules(start, final) == (SPOILT,)
        assert {data["module"] for data in of_kind(folder, "fault.attributed")} == {SPOILT}

    def test_invariant_5_the_edit_with_a_train_name_was_never_run(self, folder: RunFolder) -> None:
        refused = of_kind(folder, "skill.edit")[0]
        assert "it holds names of train tasks" in refused["fault"]
        assert len({data["candidate"] for data in of_kind(folder, "outcome")}) == 3, "start, and the two that were run"

    def test_invariant_12_the_bold_gain_is_that_of_the_outcomes_and_the_start_is_a_finalist(
        self, folder: RunFolder, tmp_path: Path
    ) -> None:
        copy = RunFolder(shutil.copytree(folder.path, tmp_path / "r"))
        audit(Opening(copy.path, command="heldout audit", resume=True))
        finished, scores = only(copy, "run.finished"), {}
        for data in of_kind(copy, "outcome"):
            if data["purpose"] == "audit":
                scores.setdefault(data["candidate"], {})[data["task"]] = data["score"]
        start, final = scores[finished["start"]], scores[finished["final"]]
        gain = np.mean([final[task] - start[task] for task in start])
        one = found(copy)
        assert one.skills.learning.gain == pytest.approx(gain)
        assert one.skills.learning.what == "learning: final − start guide"
        assert finished["start"] in {entry.digest for entry in one.skills.finalists}

    def test_every_transient_skill_is_a_record_and_no_candidate(self, folder: RunFolder) -> None:
        kept = transient_skills(folder)
        assert len(kept) == len(of_kind(folder, "outcome")), "every candidate so far was a guide"
        assert not set(kept.values()) & {data["digest"] for data in of_kind(folder, "candidate")}


class TestPlans:
    @pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
    @pytest.mark.parametrize("loop", LOOPS)
    def test_a_run_pays_for_no_more_evaluations_than_its_plan_says(self, tmp_path: Path, loop: str, seed: int) -> None:
        config = shadow(tmp_path / "start", {"seed": seed}, loop=loop)
        assert len(of_kind(ran(tmp_path / "r", config), "outcome")) <= plan(config).total

    @pytest.mark.parametrize(
        "more",
        [
            {"options": {"sweep": {"confirm_flips": True}}},
            {"options": {"sweep": {"rerun_parent": False}}},
            {"options": {"modules": "any"}},
            {"options": {"retention": False}},
            {"search": {"iterate": False}},
            {"audit": {"repeats": 2}},
            {"tasks": {"reports": {"ood": 3}}},
            {"tasks": {"reports": {"ood": 3, "gold": 2}}, "audit": {"oracle": "gold"}},
            {"solver": {"options": {"recovery": False}}},
        ],
        ids=str,
    )
    def test_and_so_does_every_switch(self, tmp_path: Path, more: dict[str, Any]) -> None:
        config = shadow(tmp_path / "start", more)
        assert len(of_kind(ran(tmp_path / "r", config), "outcome")) <= plan(config).total
