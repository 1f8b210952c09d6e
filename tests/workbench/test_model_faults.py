"""Whole runs on a served model that misbehaves: at its first request, on some tasks, for a while, within budgets."""

from __future__ import annotations

import json
import shutil
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_events import of_kind
from scripted_solver import DOWN, SECRET, asked, is_check, kinds, served, skilled_by_rows, spent

from heldout.config import RunConfig
from heldout.report import ledger_rows
from heldout.store import Index, RunFolder
from heldout.tasks import load_tasks
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer, SeenRequest
from heldout.workbench import Opening, audit, resume, run

Config = Callable[..., RunConfig]
Finish = Callable[[RunConfig], RunFolder]
Command = Callable[..., tuple[int, str, str]]


def closed_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def nowhere(folder: Path, text: str) -> bool:
    return all(text.encode() not in path.read_bytes() for path in folder.rglob("*") if path.is_file())


class TestTheFirstRequest:
    """What keeps a model from being used is told before anything is written."""

    @pytest.mark.parametrize(
        ("reply", "message"),
        [
            (ScriptedReply(status=401, text=f"bad key {SECRET}"), "refused the key (HTTP 401)"),
            (ScriptedReply(status=403, text=f"bad key {SECRET}"), "check the environment variable TEST_MODEL_KEY"),
            (ScriptedReply(status=404, text=f"no model for {SECRET}"), "has no model 'test'"),
            (ScriptedReply(status=400, text=f"{SECRET} may not"), "HTTP 400"),
            (ScriptedReply(status=500, text=f"{SECRET}?"), "HTTP 500"),
            (ScriptedReply(raw=b"<html>hello</html>"), "no chat completion"),
            (ScriptedReply(raw=b'{"choices": []}'), "no chat completion (choices"),
            (ScriptedReply(raw=b'{"answer": "yes"}'), "no chat completion (choices"),
            (ScriptedReply(text=None), "the reply has no content"),
            (ScriptedReply(disconnect="before"), "the connection broke"),
        ],
        ids=lambda value: value.replace(SECRET, "KEY") if isinstance(value, str) else "",
    )
    def test_is_wrong_use(
        self, launch: Command, tiny: Config, tmp_path: Path, reply: ScriptedReply, message: str
    ) -> None:
        with ScriptedServer([reply]) as server:
            code, out, err = launch(tiny(served(server.url, api_key_env="TEST_MODEL_KEY")), "--json")
            assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
        assert code == 2
        assert message in err
        assert message in json.loads(out)["error"]
        assert "Traceback" not in err
        assert SECRET not in out + err
        assert not (tmp_path / "r").exists()

    def test_an_unreachable_url_is_wrong_use(self, launch: Command, tiny: Config, tmp_path: Path) -> None:
        code, _, err = launch(tiny(served(closed_url())))
        assert code == 2
        assert "cannot connect" in err
        assert "is the server running?" in err
        assert not (tmp_path / "r").exists()

    @pytest.mark.parametrize(("key", "message"), [(None, "no key for 'test'"), ("two words", "it has odd characters")])
    def test_a_hosted_model_needs_a_key(
        self, launch: Command, tiny: Config, monkeypatch: pytest.MonkeyPatch, key: str | None, message: str
    ) -> None:
        if key is not None:
            monkeypatch.setenv("ANOTHER_KEY", key)
        code, _, err = launch(tiny(served("http://models.invalid/v1", api_key_env="ANOTHER_KEY")))
        assert code == 2
        assert message in err
        assert "ANOTHER_KEY" in err
        assert "two words" not in err

    def test_a_model_that_cannot_choose_is_wrong_use(self, launch: Command, tiny: Config, tmp_path: Path) -> None:
        with ScriptedServer(["yes"]) as server:
            code, _, err = launch(tiny(served(server.url), {"solver": {"answer": "choose"}}))
        assert code == 2
        assert "set solver.answer=generate" in err
        assert not (tmp_path / "r").exists()

    def test_the_improvers_own_model_is_asked_too(self, launch: Command, tiny: Config, tmp_path: Path) -> None:
        improver = {"kind": "rewrite", "model": served(closed_url())["solver"]["model"]}
        with ScriptedServer(["big"]) as server:
            code, _, err = launch(tiny(served(server.url), {"improver": improver}))
            assert len(server.requests) == 1
        assert code == 2
        assert "cannot connect" in err
        assert not (tmp_path / "r").exists()

    def test_a_resume_without_its_server_changes_nothing(self, launch: Command, tiny: Config, rows: Path) -> None:
        with ScriptedServer(skilled_by_rows(rows, tiny)) as server:
            config = tiny(served(server.url))
            assert launch(config, "audit.auto=false")[0] == 0
        folder = RunFolder(rows.parent / "r")
        before = folder.events.read_bytes()
        code, _, err = launch(config, "audit.auto=false", "--resume")
        assert code == 2
        assert "cannot connect" in err
        assert folder.events.read_bytes() == before

    def test_a_taken_or_refused_folder_asks_nothing_of_a_plug_in_that_is_wrong(
        self, launch: Command, tiny: Config, tmp_path: Path
    ) -> None:
        with ScriptedServer(["big"]) as server:
            for fault in ("gate.kind=magic", "improver.kind=magic", "solver.harness=magic", "solver.start=absent"):
                assert launch(tiny(served(server.url)), fault)[0] == 2
            assert server.requests == ()
        assert not (tmp_path / "r").exists()


def test_the_key_is_in_no_file_and_no_message(launch: Command, tiny: Config, rows: Path) -> None:
    quoting = ScriptedReply(text=f"who is {SECRET}? " * 20, status=500)
    broken = some(tiny, select=2, audit=3)
    with ScriptedServer(
        skilled_by_rows(rows, tiny, lambda request: quoting if asked(request) in broken else None)
    ) as server:
        code, out, err = launch(tiny(served(server.url, api_key_env="TEST_MODEL_KEY")), "--json")
        assert {seen.headers["authorization"] for seen in server.requests} == {f"Bearer {SECRET}"}
    assert code == 0
    assert SECRET not in out + err
    errors = [data["error"] for data in of_kind(RunFolder(rows.parent / "r"), "outcome") if "error" in data]
    assert errors
    assert all("who is ***?" in error for error in errors)
    assert nowhere(rows.parent / "r", SECRET[:12])


def some(tiny: Config, *, select: int = 0, audit: int = 0) -> set[str]:
    """Texts of the first tasks of two roles."""
    tasks = load_tasks(tiny().tasks)
    return {task.input for task in (*tasks.select[:select], *tasks.open_role("audit").tasks[:audit])}


FAULTS = {
    "500 forever": DOWN,
    "429 forever": ScriptedReply(text="slow down", status=429, headers={"Retry-After": "0"}),
    "disconnect": ScriptedReply(disconnect="before"),
    "half a reply": ScriptedReply(disconnect="middle"),
    "garbage": ScriptedReply(raw=b"not json"),
    "refused": ScriptedReply(text="not this one", status=400),
}


class TestSomeTasksFail:
    """Missing is counted and is never zero."""

    @pytest.mark.parametrize("reply", FAULTS.values(), ids=FAULTS)
    def test_they_are_not_measured_and_the_run_goes_on(
        self, tiny: Config, finish: Finish, rows: Path, reply: ScriptedReply
    ) -> None:
        broken = some(tiny, select=2, audit=3)
        with ScriptedServer(skilled_by_rows(rows, tiny, lambda one: reply if asked(one) in broken else None)) as server:
            folder = finish(tiny(served(server.url), {"executor": {"kind": "threads", "workers": 4}}))
        outcomes = of_kind(folder, "outcome")
        texts = {row["id"]: row["input"] for row in map(json.loads, rows.read_text().splitlines())}
        for data in outcomes:
            missing = texts[data["task"]] in broken
            assert (data["status"] == "not_measured") == missing == ("score" not in data), data
            assert bool(data.get("error")) == missing
        assert of_kind(folder, "run.finished")[-1]["status"] == "improved"
        for data in of_kind(folder, "decision"):
            assert data["decision"]["n"] == 10
            assert data["decision"]["verdict"] != "undecided"
        (result,) = of_kind(folder, "audit")
        assert (result["n_tasks"], result["missing"]) == (17, 3)
        with Index.open(folder.path) as index:
            counted = {row.purpose: row.missing for row in ledger_rows(index.connection)}
        assert counted["select"] == sum(d["purpose"] == "select" and "score" not in d for d in outcomes) > 0
        assert counted["audit"] == 6
        assert "not measured" in folder.report.read_text()

    def test_below_the_coverage_floor_gate_and_audit_are_undecided(
        self, launch: Command, tiny: Config, rows: Path
    ) -> None:
        broken = some(tiny, select=3)
        with ScriptedServer(skilled_by_rows(rows, tiny, lambda one: DOWN if asked(one) in broken else None)) as server:
            code, out, _ = launch(tiny(served(server.url)), "--json")
        folder = RunFolder(rows.parent / "r")
        assert code == 0
        assert json.loads(out)["status"] == "unchanged"
        assert {data["decision"]["verdict"] for data in of_kind(folder, "decision")} == {"undecided"}

    def test_an_audit_below_its_coverage_is_undecided_and_says_so(
        self, launch: Command, tiny: Config, rows: Path
    ) -> None:
        broken = some(tiny, audit=5)
        with ScriptedServer(skilled_by_rows(rows, tiny, lambda one: DOWN if asked(one) in broken else None)) as server:
            assert launch(tiny(served(server.url)))[0] == 0
        (result,) = of_kind(RunFolder(rows.parent / "r"), "audit")
        assert (result["verdict"], result["n_tasks"], result["missing"]) == ("undecided", 15, 5)
        assert "75% of the tasks were measured, and 80% are needed" in result["sentence"]

    def test_a_storm_of_429_that_ends_leaves_no_trace_but_its_calls(
        self, tiny: Config, finish: Finish, rows: Path
    ) -> None:
        times: Counter[str] = Counter()
        stormy = some(tiny, select=3)

        def fault(request: SeenRequest) -> ScriptedReply | None:
            times[asked(request)] += 1
            return FAULTS["429 forever"] if asked(request) in stormy and times[asked(request)] == 1 else None

        with ScriptedServer(skilled_by_rows(rows, tiny, fault)) as server:
            folder = finish(tiny(served(server.url, retries=2), {"executor": {"kind": "threads", "workers": 16}}))
            assert spent(folder)["calls"] == len(server.requests)
        with ScriptedServer(skilled_by_rows(rows, tiny)) as server:
            calm = finish(tiny(served(server.url)))
        assert all("score" in data for data in of_kind(folder, "outcome"))
        assert of_kind(folder, "decision") == of_kind(calm, "decision")
        assert spent(folder)["calls"] == spent(calm)["calls"] + 3


class Outage:
    """Every request under another candidate than the start fails while it lasts."""

    def __init__(self, start: str = "Answer the question.") -> None:
        self.lasts = True
        self.start = start

    def __call__(self, request: SeenRequest) -> ScriptedReply | None:
        messages = request.body["messages"]
        is_start = len(messages) == 2 and messages[0]["content"].strip() == self.start
        return DOWN if self.lasts and not is_start else None


def cut(folder: RunFolder, to: Path, *, lines: int) -> RunFolder:
    """A copy of a run as a kill after so many events would have left it."""
    shutil.copytree(folder.path, to, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
    copy = RunFolder(to)
    copy.events.write_bytes(b"".join(folder.events.read_bytes().splitlines(keepends=True)[:lines]))
    return copy


def steps(folder: RunFolder) -> list[Any]:
    """What a run decided, without what it cost."""
    return [of_kind(folder, kind) for kind in ("candidate", "decision", "track.moved")] + [
        of_kind(folder, "run.finished")[-1]["final"]
    ]


class TestAnOutage:
    """Everything fails after the start was measured."""

    def test_rejects_nothing_and_ends_without_a_crash(self, launch: Command, tiny: Config, rows: Path) -> None:
        with ScriptedServer(skilled_by_rows(rows, tiny, Outage())) as server:
            code, out, err = launch(tiny(served(server.url)), "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["status"], found["final"]) == ("unchanged", found["start"])
        decisions = of_kind(RunFolder(rows.parent / "r"), "decision")
        assert [data["decision"]["verdict"] for data in decisions] == ["undecided", "undecided"]

    def test_in_a_preparation_is_not_the_candidates_fault(self, tiny: Config, finish: Finish) -> None:
        likely = [{"big": -0.5, "small": -1.0, "yes": -1.0, "no": -1.0}]
        outage = Outage()

        def script(request: SeenRequest) -> ScriptedReply:
            instead = None if is_check(request) else outage(request)
            return instead or ScriptedReply(text="big", logprobs=likely)

        with ScriptedServer(script) as server:
            folder = finish(tiny(served(server.url), {"solver": {"answer": "choose"}}))
            assert spent(folder)["calls"] == len(server.requests)
        assert [data["decision"]["verdict"] for data in of_kind(folder, "decision")] == ["undecided", "undecided"]
        missing = [data for data in of_kind(folder, "outcome") if data["status"] == "not_measured"]
        assert missing
        assert all("the server is down" in data["error"] for data in missing)

    def test_of_the_improver_is_not_a_rejection_and_it_is_asked_again(
        self, tiny: Config, finish: Finish, rows: Path, tmp_path: Path
    ) -> None:
        down = True

        def improver(request: SeenRequest) -> ScriptedReply:
            if down and not is_check(request):
                return DOWN
            return ScriptedReply(text=f"Think about number {request.body['seed'] % 97} and answer in one word.")

        with ScriptedServer(improver) as proposer, ScriptedServer(skilled_by_rows(rows, tiny)) as server:
            rewrite = {"kind": "rewrite", "model": served(proposer.url)["solver"]["model"]}
            config = tiny(served(server.url), {"improver": rewrite})
            folder = finish(config)
            decisions = of_kind(folder, "decision")
            assert [data["decision"]["verdict"] for data in decisions] == ["undecided", "undecided"]
            assert "did not answer 2 of 2 times" in decisions[0]["decision"]["reason"]
            before = cut(folder, tmp_path / "before", lines=kinds(folder).index("decision"))
            down = False
            resume(Opening(before.path, command="again", resume=True))
            whole = finish(config)
        assert [data.get("unanswered", False) for data in of_kind(before, "proposal")] == [True] * 2 + [False] * 4
        assert steps(before) == steps(whole)

    def test_then_a_resume_anywhere_before_a_decision_gives_the_run_that_had_none(
        self, tiny: Config, finish: Finish, rows: Path, tmp_path: Path
    ) -> None:
        outage = Outage()
        with ScriptedServer(skilled_by_rows(rows, tiny, outage)) as server:
            config = tiny(served(server.url))
            broken = finish(config)
            outage.lasts = False
            whole = finish(config)
            assert of_kind(whole, "run.finished")[-1]["status"] == "improved"
            first = kinds(broken).index("decision")
            begun = kinds(broken).index("generation.started")
            for lines in range(begun, first + 1, 5):
                copy = cut(broken, tmp_path / f"cut-{lines}", lines=lines)
                resume(Opening(copy.path, command="again", resume=True))
                assert steps(copy) == steps(whole), lines

    @pytest.mark.parametrize("gate", ["greedy", "fresh", "bayes_online"])
    def test_a_kill_after_any_event_of_a_run_with_missing_tasks_can_be_resumed(
        self, tiny: Config, finish: Finish, rows: Path, tmp_path: Path, gate: str
    ) -> None:
        """Also where something was computed from outcomes that would now be measured: it keeps what it rests on."""
        down = True

        def fault(request: SeenRequest) -> ScriptedReply | None:
            # By the whole prompt, so that a candidate misses other tasks than the start.
            return DOWN if down and sum(str(request.body["messages"]).encode()) % 5 == 0 else None

        with ScriptedServer(skilled_by_rows(rows, tiny, fault)) as server:
            small = {"train": 12, "select": 16, "audit": 8}
            config = tiny(served(server.url), {"tasks": small, "gate": {"kind": gate, "fresh": 4}})
            broken = finish(config)
            down = False
            names = kinds(broken)
            missing = {data["purpose"] for data in of_kind(broken, "outcome") if data["status"] == "not_measured"}
            assert missing >= {"select", "feedback"}
            ends = [at + 1 for at, kind in enumerate(names) if kind != "outcome"] + list(range(4, len(names), 9))
            for lines in sorted(set(ends)):
                copy = cut(broken, tmp_path / f"cut-{lines}", lines=lines)
                resume(Opening(copy.path, command="again", resume=True))
                assert "run.finished" in kinds(copy)

    def test_in_the_audit_is_undecided_and_a_second_opening_measures_what_is_missing(
        self, tiny: Config, finish: Finish, rows: Path
    ) -> None:
        sealed = some(tiny, audit=20)
        down = True

        def fault(request: SeenRequest) -> ScriptedReply | None:
            return DOWN if down and asked(request) in sealed else None

        with ScriptedServer(skilled_by_rows(rows, tiny, fault)) as server:
            folder = finish(tiny(served(server.url)))
            (result,) = of_kind(folder, "audit")
            assert (result["verdict"], result["n_tasks"], result["missing"]) == ("undecided", 0, 20)
            assert of_kind(folder, "run.finished")[-1]["status"] == "improved"
            down = False
            again = audit(Opening(folder.path, command="heldout audit", resume=True), again=True)
        assert (again.n_tasks, again.missing) == (20, 0)
        assert again.gain is not None
        assert again.gain > 0
        assert [data.get("again", False) for data in of_kind(folder, "audit.opened")] == [False, True]

    def test_from_the_first_task_on_is_told_and_resumed(self, launch: Command, tiny: Config, rows: Path) -> None:
        outage = Outage(start="nothing is spared")
        with ScriptedServer(skilled_by_rows(rows, tiny, outage)) as server:
            config = tiny(served(server.url))
            code, _, err = launch(config)
            assert code == 1
            assert "not one select task could be measured under the start" in err
            assert "the server is down" in err
            outage.lasts = False
            assert launch(config, "--resume")[0] == 0
        assert of_kind(RunFolder(rows.parent / "r"), "run.finished")[-1]["status"] == "improved"

    def test_a_key_that_is_withdrawn_in_the_middle_stops_the_run_which_can_be_resumed(
        self, launch: Command, tiny: Config, rows: Path
    ) -> None:
        withdrawn = True

        def fault(request: SeenRequest) -> ScriptedReply | None:
            shown = len(request.body["messages"]) > 2
            return ScriptedReply(status=401, text="expired") if withdrawn and shown else None

        with ScriptedServer(skilled_by_rows(rows, tiny, fault)) as server:
            config = tiny(served(server.url), {"executor": {"kind": "threads", "workers": 4}})
            code, _, err = launch(config)
            assert code == 2
            assert "refused the key (HTTP 401)" in err
            withdrawn = False
            assert launch(config, "--resume")[0] == 0
            whole = run(config, Opening(rows.parent / "whole", command="test"))
        assert steps(RunFolder(rows.parent / "r")) == steps(whole)
