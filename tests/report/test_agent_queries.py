"""What the index says of a loop over agents, with answers worked out by hand from the story."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_story import KEPT_EDITS, METHOD, START, Told, agent_run

from heldout.config import RunConfig
from heldout.records import Spend, apply_edits
from heldout.report import (
    Fate,
    agent_history,
    candidates,
    failures,
    generations,
    ledger_rows,
    means,
    no_effect,
    predictions,
    probes_by_kind,
    probes_by_round,
    refusals,
    run_json,
    summary,
)
from heldout.report.candidate_files import CandidateFiles
from heldout.report.rounds import AgentHistory
from heldout.store import Index, Journal, RunFolder, read_events
from heldout.store.agent_events import RoundStarted
from heldout.store.events import RunFinished
from heldout.workbench.replaying import replay_ledger

KEPT = apply_edits(START, KEPT_EDITS)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return agent_run(tmp_path_factory.mktemp("told") / "run")


def history(run: RunFolder) -> AgentHistory:
    with Index.open(run) as index:
        found = agent_history(index.connection)
    assert found is not None
    return found


def test_each_round_says_what_was_edited_and_what_became_of_it(run: RunFolder) -> None:
    rounds = history(run).rounds
    assert [(one.verdict, one.label) for one in rounds] == [
        ("kept", "EFFECTIVE"),
        ("invalid", ""),
        ("reverted", "HARMFUL"),
    ]
    assert rounds[0].paths == ("harness_code/hooks.py", "tool_notes/shell.md", "workflow.md")
    assert rounds[0].flips is not None
    assert [len(getattr(rounds[0].flips, name)) for name in ("fixed", "broken", "flaky", "infra")] == [2, 0, 1, 1]
    assert [one.nets for one in rounds] == [(2, 0), (1, None), (-1,)]
    assert rounds[1].smoke_faults == (
        "hooks: line 1: import os is not allowed",
        "hooks: line 1: import os is still not allowed",
    )


def test_a_void_round_is_void_whatever_the_gate_is_called(tmp_path: Path) -> None:
    last = history(agent_run(tmp_path / "run", Told(void=True))).rounds[-1]
    assert (last.verdict, last.label) == ("void", "")
    assert last.flips is not None
    assert last.flips.coverage == 0.7


def test_the_rounds_of_a_method_audit_are_kept_apart(run: RunFolder) -> None:
    found = history(run)
    assert [one.number for one in found.rounds] == [1, 2, 3]
    assert [(one.number, one.verdict) for one in found.audited] == [(4, "measured"), (5, "measured")]
    with Index.open(run) as index:
        rows = candidates(index.connection, agents=found)
        assert {row.generation for row in rows} == {0, 1, 2, 3}
        assert [row.generation for row in generations(index.connection)] == [0, 1, 2, 3]


def test_a_proposal_that_no_gate_was_shown_says_why(run: RunFolder) -> None:
    with Index.open(run) as index:
        rows = candidates(index.connection, agents=history(run))
    told = {(row.generation, row.index): (row.fate, row.reason) for row in rows}
    assert told[1, 0] == (Fate.ACCEPTED, "because 1")
    assert told[1, 1] == (Fate.OUTSCORED, "net 0 on the screen; candidate 1 went on with +2")
    assert told[2, 0][0] is Fate.INVALID
    assert told[2, 0][1].startswith("refused by the mechanical checks: hooks: line 1: import os")
    assert told[2, 1] == (Fate.INVALID, "the improver submitted no edits")
    assert told[3, 0] == (Fate.REJECTED, "because 3")
    assert METHOD.digest not in {row.digest for row in rows}, "the method is no candidate for the harness"


def test_the_curve_shows_confirmed_scores_and_not_raw_ones(run: RunFolder) -> None:
    with Index.open(run) as index:
        raw = means(index.connection)
        known = history(run).with_confirmed(raw)
        heads = [row.head_select.value for row in generations(index.connection, known=known)]
    assert raw["select", KEPT.digest].value == 0.8, "two of its flips were not confirmed"
    assert heads == [0.4, 0.6, 0.6, 0.6]


def test_probes_are_summed_by_kind_and_by_round(run: RunFolder) -> None:
    found = history(run)
    replay, fix = probes_by_kind(found.evidence)
    assert (replay.name, replay.run, replay.units, replay.meta, replay.inconclusive) == ("replay", 1, 1, 1, 1)
    assert (fix.name, fix.run, fix.refused, fix.units) == ("fix_probe", 3, 1, 5)
    assert (fix.supports, fix.refutes, fix.inconclusive, fix.plain) == (1, 1, 1, 0)
    assert [(row.name, row.units) for row in probes_by_round(found)] == [("1", 6), ("2", 0), ("3", 0)]


def test_an_unconfirmed_pass_is_no_flip(run: RunFolder) -> None:
    (fix,) = [row for row in probes_by_kind(history(run).evidence) if row.name == "fix_probe"]
    assert (fix.confirmed, fix.unconfirmed, fix.broken) == (1, 2, 1)


def test_a_refused_probe_costs_nothing_and_keeps_its_reason(run: RunFolder) -> None:
    (refused,) = refusals(history(run).evidence)
    assert (refused.reason, refused.count) == ("'select-1' is no train task", 1)
    assert sum(row.units for row in probes_by_kind(history(run).evidence)) == 6


def test_what_no_effect_would_show_follows_from_the_runs_own_noise(run: RunFolder) -> None:
    """d = 0.2 and half of train fails: a failing task passes once with 0.2 / (2 · 0.5), twice with half of that."""
    with Index.open(run) as index:
        found = no_effect(index.connection)
    assert found is not None
    assert (found.rates.gained, found.rates.confirmed, found.rates.lost) == pytest.approx((0.2, 0.1, 0.2))
    assert found.select_flips == pytest.approx(10 * 0.2 / 4)
    assert found.support(3) == pytest.approx(1 - 0.9**3)
    # two drafts on two targets, one on one
    assert found.supported(history(run).evidence) == pytest.approx(2 * (1 - 0.81) + 0.1)
    screened = history(run).rounds[0].screened
    assert screened is not None
    net, best = found.screen(screened)
    assert net == pytest.approx(4 * 0.2 - 1 * 0.2)
    assert best > net


def test_without_second_runs_twice_as_many_flips_are_spurious(tmp_path: Path) -> None:
    with Index.open(agent_run(tmp_path / "run", Told(rounds=0, finished=False))) as index:
        found = no_effect(index.connection)
    assert found is not None
    assert found.select_flips == pytest.approx(10 * 0.2 / 2)


def test_the_failure_ledger_counts_hits_by_sweep(run: RunFolder) -> None:
    with Index.open(run) as index:
        found = failures(index.connection)
    assert found.sweeps == (1, 2), "the sweep of the start is read in round 1"
    told = {row.entry.signature: (row.entry.status, row.entry.cause, row.hits) for row in found.rows}
    assert told == {
        "AssertionError: <n>": ("GROWING", "omission", (2, 3)),
        "cat: <path>": ("EXTINCT", "unknown", (2, 0)),
    }
    assert [[one.task for one in row.minimised] for row in found.rows] == [["train-0"], []]
    assert [one.task for one in found.successes] == ["train-4"]


def test_predictions_are_counted_by_what_became_of_them(run: RunFolder) -> None:
    (row,) = predictions(history(run))
    assert (row.round, row.predicted) == (1, 2)
    assert row.counts == {"flipped": 1, "still_T": 0, "still_F": 1, "regressed": 0, "absent": 0}


def test_the_ledger_names_everything_that_the_budget_was_charged_for(run: RunFolder) -> None:
    """The same purposes and sums as a resumed run's ledger has, so that no view leaves out a cost."""
    with Index.open(run) as index:
        rows = {row.purpose: row.spend for row in ledger_rows(index.connection)}
    charged = replay_ledger(RunConfig(), read_events(run.events), elapsed_s=lambda: 0.0)
    assert sum(rows.values(), start=Spend()).calls == charged.total.calls
    assert sum(rows.values(), start=Spend()).evaluations == charged.total.evaluations
    assert rows["repair"].calls == 2
    assert rows["propose"].calls == 2 * 7
    assert rows["reflect"].calls == 2 * 2
    assert (rows["attribute"].evaluations, rows["probe"].evaluations) == (1, 1)
    assert {"select", "train", "noise", "confirm", "final", "audit", "ood", "check"} <= rows.keys()


def test_believed_is_what_the_final_selection_compared_and_recorded_what_was_kept(run: RunFolder) -> None:
    with Index.open(run) as index:
        whole = summary(index.connection)
    assert (whole.start.select.value, whole.final.select.value) == (0.4, 0.5)
    assert whole.gains.believed == pytest.approx(0.1)
    assert whole.gains.recorded == pytest.approx(0.2)
    assert whole.gains.audited == pytest.approx(0.05)
    assert whole.gains.overstatement == pytest.approx(0.05)
    assert [one.role for one in whole.reports] == ["ood"]


def test_an_unfinished_run_ends_at_the_harness_and_never_at_the_method(tmp_path: Path) -> None:
    with Index.open(agent_run(tmp_path / "run", Told(finished=False))) as index:
        whole = summary(index.connection)
    assert whole.status == "unfinished"
    assert (whole.start.digest, whole.final.digest) == (START.digest, KEPT.digest)
    assert whole.gains.recorded is None
    assert whole.gains.believed == pytest.approx(0.2), "the confirmed score, since there is no other"


def test_a_stopped_run_that_was_resumed_is_unfinished_again(tmp_path: Path) -> None:
    folder = agent_run(tmp_path / "run", Told(rounds=1, finished=False))
    with Journal.open(folder.events) as journal:
        ends = {"start": START.digest, "final": KEPT.digest, "start_select": 0.4, "final_select": 0.6}
        journal.append("run.finished", RunFinished(status="stopped", stop_reason="budget", elapsed_s=1.0, **ends))
    with Index.open(folder) as index:
        assert summary(index.connection).status == "stopped"
    with Journal.open(folder.events) as journal:
        started = RoundStarted(round=2, head=KEPT.digest, method=METHOD.digest, swept=True)
        journal.append("round.started", started)
    with Index.open(folder) as index:
        assert summary(index.connection).status == "unfinished"


def test_json_has_the_same_facts(run: RunFolder) -> None:
    with Index.open(run) as index:
        answer = json.loads(run_json(summary(index.connection)).model_dump_json())
    agents = answer["agents"]
    assert [one["verdict"] for one in agents["rounds"]] == ["kept", "invalid", "reverted"]
    assert [one["method"] for one in agents["rounds"]] == ["edited", "", "refused"]
    assert [(one["select_before"], one["select_after"]) for one in agents["rounds"]] == [
        (0.4, 0.6),
        (None, None),
        (0.6, 0.5),
    ]
    assert [(one["fixed"], one["broken"], one["flaky"], one["infra"]) for one in agents["rounds"][::2]] == [
        (2, 0, 1, 1),
        (0, 1, 0, 0),
    ]
    assert agents["probes"]["units_by_kind"] == {"replay": 1, "fix_probe": 5}
    assert agents["probes"]["drafts_supported_without_effect"] == pytest.approx(0.48)
    assert agents["recorded_gain"] == pytest.approx(0.2)
    assert [one["round"] for one in agents["finalists"]] == [0, 1]
    assert agents["method_audit"]["interval"] == [-0.05, 0.25]
    assert answer["reports"]["ood"]["gain"] == pytest.approx(0.125)


def test_another_loop_has_no_rounds(make_run: Callable[..., RunFolder]) -> None:
    with Index.open(make_run(generations=1)) as index:
        assert agent_history(index.connection) is None
        assert json.loads(run_json(summary(index.connection)).model_dump_json())["agents"] is None


def test_a_difference_has_files_that_were_added_and_deleted(run: RunFolder) -> None:
    found = CandidateFiles(run).diff(START.digest, KEPT.digest)
    assert found is not None
    assert [(one.path, one.status) for one in found] == [
        ("harness_code/hooks.py", "added"),
        ("tool_notes/shell.md", "removed"),
        ("workflow.md", "changed"),
    ]
    assert CandidateFiles(run).diff(START.digest, "0" * 64) is None


def test_no_model_of_overstatement_is_applied_to_finalists_that_were_measured_anew(run: RunFolder) -> None:
    with Index.open(run) as index:
        gains = summary(index.connection).gains
    assert gains.modelled_overstatement is None
    assert gains.corrected is None
