"""Retention after the audit of a run: its numbers, when it is refused, and what a later audit makes up for."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from taught_world import OUT, PASSES, RUNS, SECOND, config, events, of_kind, ran

from heldout.audit import measure_retention
from heldout.errors import BudgetExhausted, SetupError
from heldout.report import print_summary, run_json, summary
from heldout.skills import NO_SKILL_FILE
from heldout.store import Index, RunFolder
from heldout.store.skill_events import Retention
from heldout.workbench import Opening, audit, resume, run
from heldout.workbench.opening import open_run

SEARCH = 4 + 4 + 2 * 4 + 2 * 4
"""Evaluations of the one round: start on select, a batch, both sides on select, both finalists."""

AUDIT = 2 * 8
RETENTION = 3 * 4 + 8
"""Three arms on train, no skill on audit; start and final are there already."""


def only(folder: RunFolder, kind: str = "retention") -> Retention:
    (found,) = of_kind(folder, kind)
    return Retention.model_validate(found)


def evaluations(folder: RunFolder) -> int:
    return len(of_kind(folder, "outcome"))


def again(folder: RunFolder, *, reopen: bool = False, **budget: Any) -> None:
    changed = config({"budget": budget}) if budget else None
    audit(Opening(folder.path, command="heldout audit", resume=True), again=reopen, config=changed)


def stopped_before(folder: Path, *, left: int) -> RunFolder:
    """A run whose budget ends with so many evaluations of the retention done."""
    return ran(folder, {"budget": {"evaluations": SEARCH + AUDIT + left}})


def printed(folder: RunFolder) -> str:
    text = io.StringIO()
    with Index.open(folder.path) as index:
        print_summary(summary(index.connection), console=Console(file=text, width=300))
    return " ".join(text.getvalue().split())


class TestWhatIsMeasured:
    def test_gains_and_retention_are_those_of_the_table(self, tmp_path: Path) -> None:
        found = only(ran(tmp_path / "r"))
        start, final = found.arms
        assert (found.n_train, found.n_audit, found.none_train, found.none_audit) == (4, 8, 0.25, 0.25)
        assert (start.arm, start.train_gain, start.audit_gain, start.retention) == ("start", 0.25, 0.125, -0.125)
        assert (final.arm, final.train_gain, final.audit_gain, final.retention) == ("final", 0.5, 0.375, -0.125)
        for arm in found.arms:
            assert arm.train_interval[0] <= arm.train_gain <= arm.train_interval[1]
            assert arm.retention_interval[0] <= arm.retention <= arm.retention_interval[1]
            assert arm.verdict == "undecided"

    def test_the_audits_own_outcomes_serve_and_are_not_paid_twice(self, tmp_path: Path) -> None:
        folder = ran(tmp_path / "r")
        assert evaluations(folder) == SEARCH + AUDIT + RETENTION
        counted = Counter((arm, task) for arm, task in RUNS if task.startswith("a"))
        assert set(counted.values()) == {1}
        assert {arm for arm, _ in counted} == {"none", "start", "taught"}

    def test_arms_are_measured_in_the_order_none_start_final_on_train_and_then_on_audit(self, tmp_path: Path) -> None:
        folder = ran(tmp_path / "r")
        finished, none = of_kind(folder, "run.finished")[0], only(folder).none
        names = {none: "none", finished["start"]: "start", finished["final"]: "final"}
        last = [(data["purpose"], names[data["candidate"]]) for data in of_kind(folder, "outcome")[-RETENTION:]]
        assert list(dict.fromkeys(last)) == [
            ("retention", "none"),
            ("retention", "start"),
            ("retention", "final"),
            ("audit", "none"),
        ]

    def test_train_is_run_at_seeds_that_no_round_used(self, tmp_path: Path) -> None:
        outcomes = of_kind(ran(tmp_path / "r"), "outcome")
        seeds = {
            name: {data["seed"] for data in outcomes if data["purpose"] == name} for name in ("train", "retention")
        }
        assert len(seeds["retention"]) == 4, "the three arms share them"
        assert not seeds["train"] & seeds["retention"]
        repeats = {data["purpose"]: data.get("repeat", 0) for data in outcomes}
        assert repeats["retention"] == 2_000_000, "further than any round, sweep or confirmation counts"

    def test_a_final_is_not_kept_by_what_it_lacks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Taught: right on a0 to a4, where no skill is wrong; out on a5 to a7, where no skill is right."""
        monkeypatch.setitem(PASSES, "none", frozenset({"t0", "a5", "a6", "a7"}))  # type: ignore[arg-type]
        lenient = {"audit": {"coverage": 0.6}}
        arm = only(ran(tmp_path / "r", lenient, out=[lambda arm, task: arm == "taught" and task in "a5 a6 a7"])).arms[1]
        assert (arm.arm, arm.audit_gain, arm.audit_interval[0] > 0.0) == ("final", 1.0, True)
        assert arm.verdict == "undecided", "with its missing tasks as failures, 5 are gained and 3 lost"

    def test_repeats_of_the_audit_are_means_over_repeats(self, tmp_path: Path) -> None:
        """a5 passes in one of two repeats: the final's gain is (3 + 1/2) / 8."""
        folder = ran(tmp_path / "r", {"audit": {"repeats": 2}})
        start, final = only(folder).arms
        assert (start.audit_gain, final.audit_gain, final.retention) == (0.125, 0.4375, -0.0625)
        assert evaluations(folder) == SEARCH + 2 * AUDIT + 3 * 4 + 2 * 8
        assert of_kind(folder, "audit")[-1]["gain"] == pytest.approx(0.4375 - 0.125)
        assert RUNS.count(("taught", SECOND)) == 2

    def test_a_start_without_a_skill_has_no_gain_of_its_own(self, tmp_path: Path) -> None:
        folder = RunFolder(tmp_path / "r")
        drafted = config(
            {
                "loop": "persistent_skill",
                "solver": {"options": {"start": "none"}},
                "improver": {"kind": "taught_world:Drafter"},
            }
        )
        RUNS.clear()
        run(drafted, Opening(folder.path, command="heldout run test"))
        start, final = only(folder).arms
        assert (start.candidate, start.train_gain, start.audit_gain) == (only(folder).none, 0.0, 0.0)
        assert start.verdict == "no train gain"
        assert (final.train_gain, final.audit_gain) == (0.5, 0.375)
        with Index.open(folder.path) as index:
            shown = run_json(summary(index.connection), report=None).skills
        assert shown is not None
        assert [arm.name for arm in shown.arms] == ["no skill", "final skill"]


class TestRefused:
    def test_invariant_10_where_no_skill_was_not_measured_on_a_role_there_is_no_number(self, tmp_path: Path) -> None:
        for letter, role in (("t", "train"), ("a", "audit")):
            folder = ran(tmp_path / role, out=[lambda arm, task, letter=letter: arm == "none" and task[0] == letter])
            found = only(folder)
            assert found.refused == f"no skill was not measured on {role}"
            assert (found.arms, found.none_train, found.none_audit) == ((), None, None)
            assert found.refused in printed(folder)

    def test_where_the_final_is_the_start_and_audit_stays_sealed(self, tmp_path: Path) -> None:
        folder = ran(tmp_path / "r", {"improver": {"options": {"teach": False}}})
        assert only(folder).refused == "the final is the start, so that audit stays sealed"
        assert not any(task.startswith("a") for _, task in RUNS)
        assert "audit.opened" not in events(folder)

    def test_not_where_the_role_was_never_opened_which_says_nothing_yet(self, tmp_path: Path) -> None:
        folder = ran(tmp_path / "r", {"audit": {"auto": False}})
        assert of_kind(folder, "retention") == []
        finished = of_kind(folder, "run.finished")[0]
        with open_run(folder.load_config(), Opening(folder.path, command="x", resume=True)) as opened:
            start, final = (folder.load(finished[name]) for name in ("start", "final"))
            assert measure_retention(opened.session, start, final) is None
        assert of_kind(folder, "retention") == []
        again(folder)
        assert only(folder).arms[1].audit_gain == 0.375

    def test_not_for_a_run_that_does_not_want_it(self, tmp_path: Path) -> None:
        folder = ran(tmp_path / "r", {"options": {"retention": False}})
        assert of_kind(folder, "retention") == []
        assert evaluations(folder) == SEARCH + AUDIT
        with pytest.raises(SetupError, match="opened once means once"):
            again(folder)

    def test_a_few_missing_outcomes_leave_their_tasks_out_and_are_no_zeros(self, tmp_path: Path) -> None:
        """Without t3 and a7, which every arm fails: gains over 3 and 7 tasks, where the run takes that for enough."""
        out = [lambda arm, task: (arm, task) in {("none", "t3"), ("none", "a7")}]
        found = only(ran(tmp_path / "r", {"audit": {"coverage": 0.7}}, out=out))
        assert (found.n_train, found.n_audit) == (3, 7)
        assert found.none_train == pytest.approx(1 / 3)
        assert found.arms[1].train_gain == pytest.approx(2 / 3)
        assert found.arms[1].audit_gain == pytest.approx(3 / 7)
        refused = only(ran(tmp_path / "strict", {"audit": {"coverage": 0.9}}, out=out))
        assert (refused.arms, refused.none_train, refused.n_audit) == ((), None, 0)
        assert "train" in refused.refused


class TestLater:
    @pytest.mark.parametrize("left", [0, 5, 13, RETENTION - 1])
    def test_a_budget_that_ends_inside_leaves_it_to_a_later_audit_which_pays_for_the_rest_alone(
        self, tmp_path: Path, left: int
    ) -> None:
        whole = only(ran(tmp_path / "whole"))
        folder = stopped_before(tmp_path / "r", left=left)
        assert of_kind(folder, "retention") == []
        assert evaluations(folder) == SEARCH + AUDIT + left
        assert of_kind(folder, "run.finished")[0]["status"] == "improved"
        assert "Retention: not measured" in printed(folder)
        assert "heldout audit r budget.evaluations=MORE" in printed(folder)
        again(folder, evaluations=SEARCH + AUDIT + RETENTION)
        assert only(folder) == whole
        assert evaluations(folder) == SEARCH + AUDIT + RETENTION
        assert events(folder).count("audit.opened") == events(folder).count("audit") == 1

    def test_under_the_same_budget_it_says_that_there_is_no_room(self, tmp_path: Path) -> None:
        folder = stopped_before(tmp_path / "r", left=3)
        with pytest.raises(BudgetExhausted, match=r"budget\.evaluations = 43 leaves no room for retention"):
            again(folder)
        assert evaluations(folder) == SEARCH + AUDIT + 3

    def test_a_resumed_run_under_a_larger_budget_measures_it_too(self, tmp_path: Path) -> None:
        folder = stopped_before(tmp_path / "r", left=3)
        larger = config({"budget": {"evaluations": 1000}})
        resume(Opening(folder.path, command="again", resume=True), config=larger)
        assert only(folder).arms[1].audit_gain == 0.375
        assert evaluations(folder) == SEARCH + AUDIT + RETENTION

    def test_once_it_is_on_record_a_resumed_run_pays_nothing_and_records_nothing(self, tmp_path: Path) -> None:
        folder = ran(tmp_path / "r")
        before = events(folder)
        RUNS.clear()
        resume(Opening(folder.path, command="again", resume=True))
        assert events(folder) == [*before, "run.resumed"]
        assert RUNS == []
        with pytest.raises(SetupError, match="opened once means once"):
            again(folder)

    def test_a_kill_after_any_of_its_events_and_a_resume_give_the_same(self, tmp_path: Path) -> None:
        whole = ran(tmp_path / "whole")
        lines = whole.events.read_bytes().splitlines(keepends=True)
        for kept in range(len(lines) - RETENTION - 3, len(lines), 4):
            copy = RunFolder(tmp_path / f"killed-{kept}")
            shutil.copytree(whole.path, copy.path, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
            copy.events.write_bytes(b"".join(lines[:kept]))
            resume(Opening(copy.path, command="again", resume=True))
            assert only(copy) == only(whole)
            assert evaluations(copy) == evaluations(whole)

    def test_a_search_that_stopped_before_it_found_anything_is_not_refused_for_good(self, tmp_path: Path) -> None:
        folder = ran(tmp_path / "r", {"budget": {"evaluations": 4 + 4 + AUDIT}})
        (finished,) = of_kind(folder, "run.finished")
        assert (finished["status"], finished["start"]) == ("stopped", finished["final"])
        assert of_kind(folder, "retention") == []
        resume(Opening(folder.path, command="again", resume=True), config=config({"budget": {"evaluations": 1000}}))
        assert only(folder).arms[1].audit_gain == 0.375

    def test_what_an_outage_made_missing_is_measured_where_the_audit_is_opened_again(self, tmp_path: Path) -> None:
        whole = only(ran(tmp_path / "whole"))
        folder = ran(tmp_path / "r", out=[lambda arm, task: arm == "none" and task[0] in "ta"])
        assert only(folder).refused
        OUT.clear()
        again(folder, reopen=True)
        refused, found = (Retention.model_validate(data) for data in of_kind(folder, "retention"))
        assert (bool(refused.refused), found) == (True, whole)
        assert "refused" not in printed(folder)
        audited = [data["key"] for data in of_kind(folder, "outcome") if data["purpose"] == "audit" and "score" in data]
        assert len(audited) == len(set(audited)), "what audit had measured was not measured again"
        before = events(folder)
        resume(Opening(folder.path, command="again", resume=True))
        assert events(folder) == [*before, "run.resumed"], "of the two records the later one counts"

    def test_opening_the_audit_again_records_no_retention_that_is_the_same(self, tmp_path: Path) -> None:
        folder = ran(tmp_path / "r")
        again(folder, reopen=True)
        assert only(folder).arms[1].audit_gain == 0.375
        assert events(folder).count("audit") == 2


def test_no_skill_is_kept_in_the_run_and_enters_no_lineage(tmp_path: Path) -> None:
    folder = ran(tmp_path / "r")
    assert set(folder.load(only(folder).none).files) == {NO_SKILL_FILE}
    assert only(folder).none not in {data["digest"] for data in of_kind(folder, "candidate")}
