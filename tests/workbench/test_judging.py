"""The judge of finished texts: after the audit, on the ledger, and of no decision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from heldout.config import load_config
from heldout.report import run_json, summary
from heldout.store import Index, RunFolder, read_events
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer
from heldout.workbench import Opening, resume, run

SHADOW = "heldout.studies.gso.shadow"
CONFIG: Mapping[str, Any] = {
    "loop": "gso",
    "tasks": {
        "source": "tables",
        "grader": f"{SHADOW}:shadow_grade",
        "train": 8,
        "select": 10,
        "audit": 12,
    },
    "solver": {
        "model": {"name": "simulated_tables"},
        "harness": f"{SHADOW}:ShadowHarness",
        "options": {"max_turns": 8},
    },
    "improver": {"kind": "skill_catalog"},
    "search": {"generations": 4, "candidates": 1},
    "gate": {"kind": "keep_all"},
    "noise": {"tasks": 4, "simulations": 100},
    "options": {"batch": 4},
}


def _run(folder: Path, **over: Any) -> RunFolder:
    return run(load_config([CONFIG, over]), Opening(folder, command="test"))


def _events(folder: RunFolder) -> list[tuple[str, dict[str, Any]]]:
    return [(event.kind, dict(event.data)) for event in read_events(folder.events)]


def test_the_rules_judge_every_measured_guide_after_the_audit(tmp_path: Path) -> None:
    events = _events(_run(tmp_path / "run"))
    kinds = [kind for kind, _ in events]
    assert kinds.index("judge") > max(kinds.index("audit"), kinds.index("run.finished"))
    assert not {"decision", "track.moved", "selected"} & set(kinds[kinds.index("judge") :])
    judged = [data["candidate"] for kind, data in events if kind == "judge"]
    measured = {data["candidate"] for kind, data in events if kind == "skill.table"}
    assert set(judged) == measured | {events[kinds.index("candidate")][1]["digest"]}
    assert len(judged) == len(set(judged)) >= 2


def test_a_judge_changes_no_decision(tmp_path: Path) -> None:
    with_judge = _events(_run(tmp_path / "with"))
    without = _events(_run(tmp_path / "without", options={"batch": 4, "judge": {"kind": "none"}}))
    assert not [kind for kind, _ in without if kind == "judge"]
    decided = [[data for kind, data in run if kind == "decision"] for run in (with_judge, without)]
    assert decided[0] == decided[1]


def test_its_agreement_with_test_scores_is_told(tmp_path: Path) -> None:
    folder = _run(tmp_path / "run", tasks={**CONFIG["tasks"], "reports": {"gold": 12}}, audit={"oracle": "gold"})
    with Index.open(folder.path) as index:
        told = run_json(summary(index.connection))
    assert told.skills is not None
    assert told.skills.judge.agreement.startswith("Of ")
    assert "the order of the scores on gold" in told.skills.judge.agreement


def test_a_model_judges_the_start_and_the_final_alone_and_is_paid(tmp_path: Path) -> None:
    names = ("generalizability", "applicability", "executability", "robustness", "clarity")
    scores = {name: {"score": 3, "excerpt": "Name the first step", "reason": "It says so."} for name in names}
    answer = json.dumps({"scores": scores, "capped": ""})
    with ScriptedServer(lambda _request: ScriptedReply(text=answer)) as server:
        judge = {"kind": "model", "model": {"name": "openai:judge", "url": server.url}}
        events = _events(_run(tmp_path / "run", options={"batch": 4, "judge": judge}))
    judged = [data for kind, data in events if kind == "judge"]
    (finished,) = [data for kind, data in events if kind == "run.finished"]
    assert [one["candidate"] for one in judged] == list(dict.fromkeys([finished["start"], finished["final"]]))
    assert all(one["judge"] == "openai:judge" and one["total"] == pytest.approx(3.0) for one in judged)
    assert all(one["spend"]["calls"] == 1 for one in judged)


def test_a_judge_that_does_not_answer_leaves_a_whole_run(tmp_path: Path) -> None:
    judge = {"kind": "model", "model": {"name": "openai:judge", "url": "http://127.0.0.1:9/v1", "retries": 0}}
    events = _events(_run(tmp_path / "run", options={"batch": 4, "judge": judge}))
    judged = [data for kind, data in events if kind == "judge"]
    assert len(judged) == 1
    assert judged[0]["error"]
    assert [kind for kind, _ in events if kind == "audit"]


def test_a_judge_that_was_out_is_asked_again_when_the_run_is_opened_again(tmp_path: Path) -> None:
    names = ("generalizability", "applicability", "executability", "robustness", "clarity")
    scores = {name: {"score": 4, "excerpt": "Name the first step", "reason": "It says so."} for name in names}
    answers = [ScriptedReply(status=503), ScriptedReply(text=json.dumps({"scores": scores, "capped": ""}))]
    with ScriptedServer(answers) as server:
        judge = {"kind": "model", "model": {"name": "openai:judge", "url": server.url, "retries": 0}}
        folder = _run(tmp_path / "run", options={"batch": 4, "judge": judge})
        resume(Opening(folder.path, command="test", resume=True))
    with Index.open(folder.path) as index:
        told = run_json(summary(index.connection))
    assert told.skills is not None
    (finished,) = [data for kind, data in _events(folder) if kind == "run.finished"]
    judged = told.skills.judge.judged
    assert {one.candidate for one in judged} == {finished["start"], finished["final"]}
    assert [one.total for one in judged] == [pytest.approx(4.0)] * len(judged)


def test_a_judge_without_a_price_is_named(tmp_path: Path) -> None:
    judge = {"kind": "model", "model": {"name": "openai:judge", "url": "http://127.0.0.1:9/v1", "retries": 0}}
    events = _events(_run(tmp_path / "run", options={"batch": 4, "judge": judge}))
    (started,) = [data for kind, data in events if kind == "run.started"]
    assert started["unpriced"] == ["openai:judge"]
    assert started["simulated_improver"] is True


def test_a_verdict_on_record_is_not_asked_or_paid_for_again(tmp_path: Path) -> None:
    names = ("generalizability", "applicability", "executability", "robustness", "clarity")
    scores = {name: {"score": 3, "excerpt": "Name the first step", "reason": "It says so."} for name in names}
    answer = json.dumps({"scores": scores, "capped": ""})
    asked: list[object] = []

    def reply(request: object) -> ScriptedReply:
        asked.append(request)
        return ScriptedReply(text=answer)

    with ScriptedServer(reply) as server:
        judge = {"kind": "model", "model": {"name": "openai:judge", "url": server.url}}
        folder = _run(tmp_path / "run", options={"batch": 4, "judge": judge})
        before = len(asked)
        resume(Opening(folder.path, command="test", resume=True))
    assert before > 0
    assert len(asked) == before
