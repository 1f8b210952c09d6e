"""Summary, history, verdict and JSON of runs written through the real journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from heldout.errors import StoreError
from heldout.records import Decision, Verdict
from heldout.report import Fate, candidates, generations, means, run_json, summary, verdict
from heldout.store import Index, Journal, RunFolder
from heldout.store.events import (
    AuditOpened,
    AuditResult,
    CandidateAdded,
    Decided,
    GenerationStarted,
    Proposed,
    RunFinished,
    RunStarted,
)

START = RunStarted(
    run="r", loop="winners_curse", config_digest="c", heldout="0", command="heldout run", simulated=False,
    solver="s", improver="i", description="", source="questions",
)  # fmt: skip


def index_of(folder: Path, *events: tuple[str, object]) -> Index:
    with Journal.open(folder / "events.jsonl") as journal:
        for kind, payload in events:
            journal.append(kind, payload)  # type: ignore[arg-type]
    return Index.open(folder)


def decided(generation: int, verdict: Verdict, winner: str | None, *names: str) -> tuple[str, Decided]:
    decision = Decision(gate="greedy", verdict=verdict, reason=f"because {generation}")
    scores = tuple(0.5 for _ in names)
    return "decision", Decided(
        generation=generation, incumbent="start", candidates=names, incumbent_score=0.4, scores=scores,
        winner=winner, decision=decision,
    )  # fmt: skip


def proposed(generation: int, index: int, digest: str | None, **more: object) -> tuple[str, Proposed]:
    return "proposal", Proposed(generation=generation, index=index, digest=digest, **more)  # type: ignore[arg-type]


def test_gains_are_differences_of_outcome_means(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run()) as index:
        whole = summary(index.connection)
        found = means(index.connection)
        start, final = found["select", whole.start.digest].value, found["select", whole.final.digest].value
        assert start is not None
        assert final is not None
        assert whole.audit is not None
        assert whole.audit.gain is not None
        assert whole.status == "improved"
        assert whole.gains.believed == pytest.approx(final - start)
        assert whole.gains.audited == whole.audit.gain
        assert whole.gains.overstatement == pytest.approx(final - start - whole.audit.gain)
        assert whole.total.evaluations == sum(mean.n + mean.missing for mean in found.values())


@pytest.mark.parametrize(("solver", "improver", "told"), [(False, True, 1), (True, True, 0), (False, False, 0)])
def test_a_simulated_improver_of_a_real_solver_is_told(tmp_path: Path, solver: bool, improver: bool, told: int) -> None:
    begun = START.model_copy(update={"simulated": solver, "simulated_improver": improver})
    start = CandidateAdded(digest="start", parent=None, generation=0, index=0)
    with index_of(tmp_path, ("run.started", begun), ("candidate", start)) as index:
        notes = summary(index.connection).notes
    assert sum("SIMULATION: the improver i" in note for note in notes) == told


def test_an_unaudited_run_has_no_overstatement_rather_than_a_zero(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(audited=False, generations=2)) as index:
        whole = summary(index.connection)
        assert whole.audit is None
        assert whole.gains.overstatement is None
        said = verdict(whole)
        assert "nobody has checked" in said.headline
        assert "better" not in said.headline


def test_a_run_without_its_end_is_running(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(finished=False, generations=2)) as index:
        whole = summary(index.connection)
        assert whole.status == "unfinished"
        assert whole.gains.believed is not None
        assert "not finished" in verdict(whole).headline


def test_start_equal_to_final_says_nothing_improved(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(improves=False, generations=2)) as index:
        whole = summary(index.connection)
        assert whole.gains.believed == 0.0
        assert whole.gains.modelled_overstatement == 0.0
        assert verdict(whole).headline.startswith("Nothing improved")


def finished(**more: object) -> tuple[str, RunFinished]:
    fields = {
        "status": "stopped", "stop_reason": "budget", "start": "start", "final": "start", "start_select": 0.4,
        "final_select": 0.4, "elapsed_s": 1.0,
    }  # fmt: skip
    return "run.finished", RunFinished(**{**fields, **more})  # type: ignore[arg-type]


def test_a_stopped_run_that_was_resumed_is_running_again(tmp_path: Path) -> None:
    begun = [("run.started", START), ("candidate", CandidateAdded(digest="start", parent=None, generation=0, index=0))]
    with index_of(tmp_path, *begun, finished()) as index:
        assert (summary(index.connection).status, summary(index.connection).stop_reason) == ("stopped", "budget")
    going_on = ("generation.started", GenerationStarted(generation=2, incumbent="start"))
    with index_of(tmp_path, going_on) as index:
        assert summary(index.connection).status == "unfinished"
    with index_of(tmp_path, finished(status="unchanged")) as index:
        assert summary(index.connection).status == "unchanged"


def test_an_empty_journal_is_a_store_error(tmp_path: Path) -> None:
    with index_of(tmp_path) as index, pytest.raises(StoreError, match=r"run\.started"):
        summary(index.connection)


def audit(difference: float, verdict: str, **more: object) -> AuditResult:
    fields = {
        "role": "audit", "start": "a", "final": "b", "n_tasks": 100, "missing": 0, "start_mean": 0.4,
        "final_mean": 0.4 + difference, "gain": difference, "standard_error": 0.04,
        "interval": (difference - 0.08, difference + 0.08),
        "confidence": 0.95, "fixed": 10, "broken": 5, "both": 40, "neither": 45, "p_value": 0.1,
        "verdict": verdict, "sentence": "",
    }  # fmt: skip
    return AuditResult(**{**fields, **more})  # type: ignore[arg-type]


def audited_run(folder: Path, *results: AuditResult) -> Index:
    ends = finished(status="improved", start="a", final="b", start_select=0.4, final_select=0.5)
    opened = ("audit.opened", AuditOpened(by="heldout run", start="a", final="b"))
    events = [event for result in results for event in (opened, ("audit", result))]
    return index_of(folder, ("run.started", START), ends, *events)


@pytest.mark.parametrize(
    ("result", "headline", "detail"),
    [
        (audit(0.02, "improved"), "It got better: +2.0 points", "+10.0 points, 8.0 more than the audit found."),
        (audit(-0.1, "worse"), "It got worse: −10.0 points", "+10.0 points, 20.0 more than the audit found."),
        (audit(0.13, "improved"), "It got better: +13.0 points", "+10.0 points, 3.0 less than the audit found."),
        (audit(0.1, "improved"), "It got better: +10.0 points", "which is what the audit found."),
        (audit(0.01, "undecided", tasks_to_decide=900), "anywhere from −7.0 to +9.0", "About 900 audit tasks"),
        (audit(0.2, "undecided", sentence="The exact test."), "The audit cannot tell.", "The exact test. The loop"),
        (audit(0.0, "undecided", gain=None, interval=None), "too few of its tasks were measured", "believes in +10.0"),
    ],
)
def test_verdicts_in_plain_words(result: AuditResult, headline: str, detail: str, tmp_path: Path) -> None:
    with audited_run(tmp_path, result) as index:
        said = verdict(summary(index.connection))
    assert headline in said.headline
    assert detail in said.detail


def test_the_first_opening_of_the_audit_is_the_one_that_counts(tmp_path: Path) -> None:
    with audited_run(tmp_path, audit(0.02, "undecided"), audit(0.3, "improved")) as index:
        whole = summary(index.connection)
    assert whole.gains.audited == 0.02
    assert whole.audit_openings == 2


def test_no_gain_at_a_stop_says_nothing_of_a_final_that_was_found_later(tmp_path: Path) -> None:
    stopped = audit(0.0, "unchanged", final="a", n_tasks=0, interval=(0.0, 0.0))
    with audited_run(tmp_path, stopped) as index:
        assert summary(index.connection).audit is None
    opened = ("audit.opened", AuditOpened(by="heldout run", start="a", final="b"))
    with index_of(tmp_path, opened, ("audit", audit(0.02, "undecided"))) as index:
        assert summary(index.connection).gains.audited == 0.02


def test_audits_of_other_roles_are_not_the_audit(tmp_path: Path) -> None:
    with audited_run(tmp_path, audit(0.3, "improved", role="ood")) as index:
        assert summary(index.connection).audit is None


def test_json_has_exactly_the_promised_keys(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(simulated=True, generations=2)) as index:
        whole = summary(index.connection)
    told = json.loads(run_json(whole, report=Path("runs/x/report.html")).model_dump_json())
    assert set(told) == {
        "run", "loop", "status", "stop_reason", "start", "final", "select_gain", "audit", "overstatement", "spend",
        "simulated", "report", "reports", "agents", "skills", "training",
    }  # fmt: skip
    assert set(told["start"]) == set(told["final"]) == {"digest", "select"}
    assert set(told["audit"]) == {"n", "gain", "standard_error", "interval"}
    assert told["select_gain"] == pytest.approx(told["final"]["select"] - told["start"]["select"])
    assert abs(told["select_gain"]) <= 1
    assert told["spend"]["evaluations"] == sum(one["evaluations"] for one in told["spend"]["by_purpose"].values())
    assert told["simulated"] is True
    assert told["report"] == "runs/x/report.html"


def test_json_of_an_unaudited_run_has_null(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(audited=False, generations=1)) as index:
        told = json.loads(run_json(summary(index.connection)).model_dump_json())
    assert told["audit"] is None
    assert told["overstatement"] is None


def test_what_became_of_each_proposal(tmp_path: Path) -> None:
    events = [
        ("run.started", START),
        ("candidate", CandidateAdded(digest="start", parent=None, generation=0, index=0)),
        proposed(1, 0, "a"),
        proposed(1, 1, "b"),
        proposed(1, 2, None, error="garbage"),
        proposed(1, 3, "a", duplicate_of="a"),
        decided(1, Verdict.ACCEPT, "a", "a", "b"),
        proposed(2, 0, "b", duplicate_of="b"),
        proposed(2, 1, "c"),
        decided(2, Verdict.REJECT, "c", "c"),
        proposed(3, 0, "d"),
        decided(3, Verdict.UNDECIDED, "d", "d"),
        proposed(4, 0, "e"),
        decided(4, Verdict.CONFIRM, "e", "e"),
        decided(4, Verdict.ACCEPT, "e", "e"),
        proposed(5, 0, "f"),
    ]
    with index_of(tmp_path, *events) as index:
        rows = candidates(index.connection)
        steps = generations(index.connection)
    assert [(row.generation, row.index, row.fate) for row in rows] == [
        (0, 0, Fate.START),
        (1, 0, Fate.ACCEPTED),
        (1, 1, Fate.OUTSCORED),
        (1, 2, Fate.INVALID),
        (1, 3, Fate.DUPLICATE),
        (2, 0, Fate.DUPLICATE),
        (2, 1, Fate.REJECTED),
        (3, 0, Fate.UNDECIDED),
        (4, 0, Fate.ACCEPTED),
        (5, 0, Fate.PENDING),
    ]
    assert [row.reason for row in rows][1:4] == [
        "because 1", "another candidate of its generation was taken to the gate", "garbage",
    ]  # fmt: skip
    assert [step.generation for step in steps] == [0, 1, 2, 3, 4]
    assert steps[1].head == "a"
    assert steps[2].head == "start"


def test_best_of_n_decides_candidates_of_earlier_generations_together(tmp_path: Path) -> None:
    events = [
        ("run.started", START),
        ("candidate", CandidateAdded(digest="start", parent=None, generation=0, index=0)),
        proposed(1, 0, "a"),
        proposed(2, 0, "b"),
        decided(2, Verdict.ACCEPT, "a", "a", "b"),
    ]
    with index_of(tmp_path, *events) as index:
        fates = [row.fate for row in candidates(index.connection)]
    assert fates == [Fate.START, Fate.ACCEPTED, Fate.OUTSCORED]


def test_the_curve_follows_heads_and_carries_gold(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(generations=3)) as index:
        steps = generations(index.connection)
        whole = summary(index.connection)
        found = means(index.connection)
    assert steps[0].head == whole.start.digest
    assert steps[-1].head == whole.final.digest
    for before, step in pairwise(steps):
        assert step.incumbent == before.head
    assert all(step.head_gold == found["gold", step.head] for step in steps)
    assert all(step.head_select == found["select", step.head] for step in steps)
