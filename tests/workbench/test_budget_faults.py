"""Hard limits with work in flight: never passed, counted in full, and the audit is still done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from run_events import of_kind
from scripted_solver import DOWN, asked, is_check, kinds, served, skilled_by_rows, spent

from heldout.config import RunConfig
from heldout.report import ledger_rows
from heldout.store import Index, RunFolder, read_events
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer, SeenRequest

Config = Callable[..., RunConfig]
Finish = Callable[[RunConfig], RunFolder]
Command = Callable[..., tuple[int, str, str]]


class TestBudgets:
    """Sixteen requests in flight on a slow server, and no limit is passed."""

    THREADS: ClassVar[dict[str, Any]] = {"executor": {"kind": "threads", "workers": 16}, "search": {"generations": 40}}

    @pytest.mark.parametrize(
        ("limit", "field", "value"),
        [
            ("calls", "calls", 170),
            ("tokens", "tokens", 25000),
            ("dollars", "cost_usd", 0.3),
            ("evaluations", "evaluations", 150),
        ],
    )
    def test_a_limit_is_never_passed_and_the_audit_has_its_share(
        self, launch: Command, tiny: Config, rows: Path, limit: str, field: str, value: float
    ) -> None:
        prices = {"openai:test": {"input": 10.0, "output": 40.0}}
        budget = {"budget": {limit: value, "prices": prices}}

        def script(request: SeenRequest) -> ScriptedReply:
            size = sum(len(message["content"]) for message in request.body["messages"])
            reply = solve(request)
            return ScriptedReply(text=reply.text, delay_s=0.01, usage=(size // 3, 3))

        solve = skilled_by_rows(rows, tiny)
        with ScriptedServer(script) as server:
            code, out, _ = launch(tiny(served(server.url), self.THREADS, budget), "--json")
            requests = len(server.requests)
            reported = sum(
                sum(len(message["content"]) for message in seen.body["messages"]) // 3 + 3 for seen in server.requests
            )
        folder = RunFolder(rows.parent / "r")
        total = spent(folder)
        assert code == 3
        assert f"budget.{limit} = {value:g} leaves no room" in json.loads(out)["stop_reason"]
        assert (total["calls"], total["tokens"]) == (requests, reported)
        assert total[field] <= value
        # Bounds are one token a byte, and sixteen of them stay free: a small limit is used less.
        assert total[field] >= 0.4 * value, "the limit was hardly used"
        (result,) = of_kind(folder, "audit")
        assert result["verdict"] == "unchanged" or result["n_tasks"] == 20
        assert json.loads(out)["spend"]["calls"] == requests

    def test_a_limit_on_calls_holds_for_retries_too(self, launch: Command, tiny: Config, rows: Path) -> None:
        def fault(request: SeenRequest) -> ScriptedReply | None:
            return DOWN if sum(asked(request).encode()) % 4 == 0 else None

        budget = {"budget": {"calls": 150}, "tasks": {"select": 8, "audit": 10}, "noise": {"tasks": 0}}
        with ScriptedServer(skilled_by_rows(rows, tiny, fault)) as server:
            code, _, _ = launch(tiny(served(server.url, retries=1), self.THREADS, budget))
            requests = len(server.requests)
        assert code == 3
        assert requests <= 150
        assert spent(RunFolder(rows.parent / "r"))["calls"] == requests

    def test_a_limit_on_elapsed_time_leaves_time_for_the_audit(self, launch: Command, tiny: Config, rows: Path) -> None:
        slow = {"executor": {"kind": "threads", "workers": 4}, "search": {"generations": 200}}
        with ScriptedServer(skilled_by_rows(rows, tiny, delay_s=0.05)) as server:
            code, out, _ = launch(tiny(served(server.url), slow, {"budget": {"wall_s": 4}}), "--json")
        folder = RunFolder(rows.parent / "r")
        events = list(read_events(folder.events))
        opened = [event.at for event in events if event.kind == "outcome"]
        assert code == 3
        assert "budget.wall_s = 4 leaves no room" in json.loads(out)["stop_reason"]
        # A request in flight may end after the limit; none may start.
        assert opened[-1] - events[0].at <= 4 + 0.5
        (result,) = of_kind(folder, "audit")
        assert result["verdict"] == "unchanged" or result["n_tasks"] >= 16

    def test_the_first_request_of_every_opening_is_in_the_ledger(
        self, launch: Command, tiny: Config, rows: Path
    ) -> None:
        with ScriptedServer(skilled_by_rows(rows, tiny)) as server:
            config = tiny(served(server.url), {"budget": {"prices": {"openai:test": {"input": 1.0, "output": 1.0}}}})
            launch(config)
            launch(config, "--resume")
            checks = sum(is_check(seen) for seen in server.requests)
            requests = len(server.requests)
        folder = RunFolder(rows.parent / "r")
        recorded = [data for data in of_kind(folder, "prepared") if data["purpose"] == "check"]
        assert checks == len(recorded) == len({data["key"] for data in recorded}) == 2
        assert recorded[0]["spend"] == {"calls": 1, "tokens_in": 7, "tokens_out": 3, "cost_usd": pytest.approx(1e-5)}
        assert spent(folder)["calls"] == requests
        with Index.open(folder.path) as index:
            rows_of = {row.purpose: row.spend.calls for row in ledger_rows(index.connection)}
        assert rows_of["check"] == 2
        assert kinds(folder)[0] == "run.started"

    def test_a_resume_asks_nothing_where_the_budget_has_no_room(
        self, launch: Command, tiny: Config, rows: Path
    ) -> None:
        with ScriptedServer(skilled_by_rows(rows, tiny)) as server:
            config = tiny(served(server.url), {"budget": {"calls": 14}})
            assert launch(config)[0] == 3
            paid = len(server.requests)
            assert paid == 13  # the check and the start; the audit of 40 does not fit
            assert launch(config, "budget.calls=13", "--resume")[0] == 3
            assert len(server.requests) == paid

    def test_a_simulation_is_not_asked(self, tiny: Config, finish: Finish) -> None:
        assert all(data["purpose"] != "check" for data in of_kind(finish(tiny()), "prepared"))
