"""`examples/verse_llm.toml` as it stands, on a real HTTP server that plays the executor and the improver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from run_events import of_kind
from scripted_solver import DOWN, SECRET
from verse_parts import (
    CARE,
    EXECUTORS,
    Players,
    kinds_of,
    ledger_rows_of,
    ledger_total,
    role_of,
    same_run,
    tiny_words,
    written_in,
)

from heldout.harness import make_harness
from heldout.improvers.llm import LlmImprover
from heldout.ledger import Ledger
from heldout.models import make_model
from heldout.records import Spend
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.store import RunFolder, read_events
from heldout.tasks import load_tasks
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer, SeenRequest

FAULT = Bubblewrap().fault()
pytestmark = pytest.mark.skipif(FAULT is not None, reason=str(FAULT))

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "verse_llm.toml"
EXECUTOR, IMPROVER = "openai:qwen3-8b", "openai:qwen3-32b"

ONE_EPISODE = {
    "search.candidates": 1,
    "options.method.audit": False,
    "solver.model.retries": 0,
    "improver.model.retries": 0,
    "options.select.retries": 0,
}
"""The smallest run that has everything, on a server that is not asked again."""


@dataclass(frozen=True)
class Ran:
    """A run of the command line, and what its server saw."""

    folder: RunFolder
    code: int
    out: str
    err: str
    counted: Counter[tuple[str, str]]
    """Requests by model and role."""
    used: Spend
    """What the server counted."""
    requests: tuple[SeenRequest, ...]

    @property
    def found(self) -> dict[str, Any]:
        """What was printed with `--json`."""
        answer: dict[str, Any] = json.loads(self.out)
        return answer


def command(folder: Path, *words: str) -> tuple[int, str, str]:
    """`heldout run` in a process of its own, with the key in its environment."""
    environment = {**os.environ, "OPENAI_API_KEY": SECRET, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "heldout", *words, "--json"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def started(folder: Path, players: Players, **settings: Any) -> Iterator[Ran]:
    """The example, small, in `folder/r`; its server stays up in the block."""
    with ScriptedServer(players) as server:
        code, out, err = command(folder, "run", str(EXAMPLE), *tiny_words(server.url, **settings), "--out", "r")
        run = RunFolder(folder / "r")
        used = players.spend(prices_of(run))
        yield Ran(run, code, out, err, Counter(players.counted), used, server.requests)


def start(folder: Path, players: Players, **settings: Any) -> Ran:
    """The same for a run that is not gone on with."""
    with started(folder, players, **settings) as ran:
        return ran


def prices_of(folder: RunFolder) -> dict[str, tuple[float, float]]:
    return {name: (price.input, price.output) for name, price in folder.load_config().budget.prices.items()}


def moves(folder: RunFolder, track: str) -> list[str]:
    return [data["target"] for data in of_kind(folder, "track.moved") if data["track"] == track]


def same_money(paid: Spend, used: Spend) -> None:
    assert (paid.calls, paid.tokens_in, paid.tokens_out) == (used.calls, used.tokens_in, used.tokens_out)
    assert paid.cost_usd == pytest.approx(used.cost_usd)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with started(tmp_path_factory.mktemp("example"), Players()) as ran:
        yield ran


class TestTheExample:
    def test_runs_to_its_audit_and_moves_both_tracks(self, ran: Ran) -> None:
        assert (ran.code, ran.err) == (0, "")
        assert ran.found["status"] == "improved"
        assert ran.found["simulated"] is False
        (head,), (method,) = moves(ran.folder, "harness"), moves(ran.folder, "method")
        assert ran.folder.load(head).files["memory.md"] == CARE
        assert ran.folder.load(method).files["notes.md"] == "Drafts that were tried held up.\n"
        assert ran.found["final"]["digest"] == head
        assert (ran.found["audit"]["n"], ran.found["reports"]["ood"]["n"]) == (3, 2)

    def test_the_improver_read_experimented_and_submitted_with_its_evidence(self, ran: Ran) -> None:
        submitted = {data["episode"]: data["proposal"] for data in of_kind(ran.folder, "submission")[:2]}
        probes = {data["episode"]: data for data in of_kind(ran.folder, "probe") if data["round"] == 1}
        first, second, supported, refuted = submitted[0], submitted[1], probes[0], probes[1]
        assert (supported["verdict"], refuted["verdict"]) == ("supports", "refutes")
        assert first["predicted_fixes"] == supported["flips"] != []
        assert first["claims"][0]["evidence"] == ["1/0/0"]
        assert second.get("predicted_fixes", []) == []
        measures = first["measures"]
        assert (measures["turns"], measures["tool_calls"], measures["tool_errors"]) == (5, 5, 0)

    def test_calls_tokens_and_dollars_are_what_the_server_counted(self, ran: Ran) -> None:
        assert ran.used.calls == len(ran.requests)
        same_money(ledger_total(ran.folder), ran.used)
        assert ran.found["spend"]["calls"] == ran.used.calls
        assert ran.found["spend"]["cost_usd"] == pytest.approx(ran.used.cost_usd) != 0.0

    def test_every_purpose_has_its_own_part_of_them(self, ran: Ran) -> None:
        counted, rows = ran.counted, ledger_rows_of(ran.folder)
        assert rows["check"].calls == counted[EXECUTOR, "check"] + counted[IMPROVER, "check"] == 2
        assert rows["propose"].calls == counted[IMPROVER, "propose"]
        assert rows["reflect"].calls == counted[IMPROVER, "reflect"] == 2
        assert rows["attribute"].calls == counted[IMPROVER, "suggest"] > 0
        others = sum(row.calls for name, row in rows.items() if name not in _IMPROVERS)
        assert others == sum(counted[EXECUTOR, role] for role in EXECUTORS) > 0

    def test_each_model_was_asked_for_its_own_part(self, ran: Ran) -> None:
        asked = {(model, role) for model, role in ran.counted}
        assert {model for model, role in asked if role in EXECUTORS} == {EXECUTOR}
        assert {model for model, role in asked if role in ("propose", "reflect", "suggest")} == {IMPROVER}

    def test_the_key_went_to_the_server_and_nowhere_else(self, ran: Ran) -> None:
        assert {seen.headers["authorization"] for seen in ran.requests} == {f"Bearer {SECRET}"}
        assert written_in(ran.folder.path, SECRET) == []
        assert SECRET not in ran.out + ran.err

    def test_invariant_7_nothing_that_was_sent_to_the_improver_holds_a_body_of_another_role(self, ran: Ran) -> None:
        tasks = load_tasks(ran.folder.load_config().tasks)
        others = [task.input for task in tasks.select]
        others += [task.input for role in ("audit", "ood") for task in tasks.open_role(role).tasks]
        told = [json.dumps(seen.body) for seen in ran.requests if role_of(seen) in ("propose", "reflect", "suggest")]
        assert any(json.dumps(tasks.train[0].input)[1:-1] in text for text in told), "nothing was searched"
        assert not [text for text in others if any(json.dumps(text)[1:-1] in one for one in told)]

    def test_resuming_it_pays_for_its_two_first_questions_and_nothing_else(self, ran: Ran, tmp_path: Path) -> None:
        copy = RunFolder(shutil.copytree(ran.folder.path, tmp_path / "r"))
        code, out, _ = command(tmp_path, "run", "--resume", "--out", "r")
        assert code == 0
        assert json.loads(out)["final"] == ran.found["final"]
        paid = ledger_total(copy)
        assert (paid.calls, paid.evaluations) == (ran.used.calls + 2, ledger_total(ran.folder).evaluations)
        assert kinds_of(copy)[len(kinds_of(ran.folder)) :] == ["run.resumed", "prepared", "prepared"]


_IMPROVERS = ("check", "propose", "repair", "reflect", "attribute")
"""Purposes of the ledger that are no evaluations."""


@pytest.mark.slow
def test_a_server_that_knows_no_tools_is_spoken_to_in_text(tmp_path: Path) -> None:
    ran = start(tmp_path, Players(protocol="text"), **ONE_EPISODE, **{"improver.options.protocol": "text"})
    assert (ran.code, ran.err) == (0, "")
    assert (len(moves(ran.folder, "harness")), len(moves(ran.folder, "method"))) == (1, 1)
    assert not any("tools" in seen.body for seen in ran.requests)
    same_money(ledger_total(ran.folder), ran.used)


FOR_GOOD: dict[str, ScriptedReply] = {
    "500": DOWN,
    "429": ScriptedReply(text="slow down", status=429, headers={"Retry-After": "0"}),
}


def down_from(role: str, reply: ScriptedReply, *, after: int = 0) -> Callable[[str, SeenRequest], ScriptedReply | None]:
    """A server that is down for good from the request after so many in a role."""
    seen = 0

    def fault(asked: str, _request: SeenRequest) -> ScriptedReply | None:
        nonlocal seen
        seen += asked == role
        return reply if seen > after else None

    return fault


@pytest.mark.parametrize("what", ["500", pytest.param("429", marks=pytest.mark.slow)])
def test_a_server_that_goes_down_in_an_episode_leaves_it_unanswered_and_the_run_usable(
    tmp_path: Path, what: str
) -> None:
    players = Players(fault=down_from("propose", FOR_GOOD[what], after=2))
    ran = start(tmp_path, players, **ONE_EPISODE)
    assert (ran.code, ran.err) == (0, "")
    (submitted,) = of_kind(ran.folder, "submission")
    assert submitted["proposal"]["unanswered"] is True
    assert f"HTTP {what}" in submitted["proposal"]["error"]
    (decided,) = of_kind(ran.folder, "decision")
    assert decided["decision"]["verdict"] == "undecided"
    assert of_kind(ran.folder, "method.edited")[0]["proposal"]["unanswered"] is True
    assert (moves(ran.folder, "harness"), moves(ran.folder, "method")) == ([], [])
    assert ran.found["status"] == "unchanged"
    assert ran.found["final"] == ran.found["start"]
    same_money(ledger_total(ran.folder), ran.used)


def test_a_server_that_goes_down_in_an_executors_episode_scores_nothing_and_still_has_its_price(tmp_path: Path) -> None:
    """The candidate's select sweep: its second of three tasks stops in its second turn."""

    def fault(role: str, _request: SeenRequest) -> ScriptedReply | None:
        nonlocal selecting
        selecting += role in EXECUTORS and bool(of_kind(RunFolder(tmp_path / "r"), "smoke"))
        return DOWN if selecting > 4 and role != "check" else None

    selecting = 0
    players = Players(fault=fault)
    ran = start(tmp_path, players, **ONE_EPISODE, **{"executor.kind": "inline"})
    assert (ran.code, ran.err) == (0, "")
    (flips,) = of_kind(ran.folder, "flips")
    assert flips["label"] == "void"
    assert (flips["n"], flips["coverage"]) == (1, pytest.approx(1 / 3))
    candidate = flips["candidate"]
    outcomes = [data for data in of_kind(ran.folder, "outcome") if data["candidate"] == candidate]
    missing = [data for data in outcomes if data["purpose"] == "select"][1:]
    assert [data["status"] for data in missing] == ["not_measured"] * 2
    assert not any("score" in data for data in missing)
    assert missing[0]["spend"]["calls"] == 2, "the turn that was answered and the one that was not"
    assert missing[0]["spend"]["tokens_in"] > 0
    assert moves(ran.folder, "harness") == []
    assert ran.found["status"] == "unchanged"
    same_money(ledger_total(ran.folder), ran.used)


LIMITED = {
    **ONE_EPISODE,
    "audit.auto": False,
    "executor.kind": "inline",
    "search.generations": 2,
    "solver.options.max_turns": 4,
    "solver.options.obs_cap": 1024,
    "solver.model.max_tokens": 256,
    "improver.options.max_turns": 8,
    "improver.options.repair_turns": 4,
    "improver.options.meta_turns": 4,
    "improver.options.reply_tokens": 512,
    "improver.options.episode_tokens": 200_000,
}
"""Two rounds whose upper bounds are small, so that a budget can be chosen which ends where a test wants it to."""


def test_a_budget_that_ends_inside_attribution_keeps_the_price_of_its_suggestions(tmp_path: Path) -> None:
    """Ten evaluations come before the first replay, and the audit's six are held."""
    ran = start(tmp_path, Players(), **LIMITED, **{"budget.evaluations": 17})
    assert ran.code == 3
    assert "leaves no room for attribute" in ran.found["stop_reason"]
    assert of_kind(ran.folder, "attribution") == []
    assert len(of_kind(ran.folder, "replay")) == 1
    lost = [data for data in of_kind(ran.folder, "prepared") if data["purpose"] == "attribute"]
    assert [data["spend"]["calls"] for data in lost] == [ran.counted[IMPROVER, "suggest"]] == [2]
    same_money(ledger_total(ran.folder), ran.used)


def limit_inside_an_episode(whole: RunFolder) -> float:
    """Dollars with which the second round's episode begins, and a run of its draft does not.

    When it begins there must be room for what is held for the audit (each task at its measured cost, and the bound of
    a run) and for the bound of the episode; here there is half of a run's bound more.
    """
    config = whole.load_config()
    tasks, ledger = load_tasks(config.tasks), Ledger(config.budget)
    harness = make_harness(config.solver, labels=(), environment=tasks.environment)
    assert config.improver.model is not None
    bound = LlmImprover(config.improver, make_model(config.improver.model)).bound
    head = whole.load(moves(whole, "harness")[0])
    run = max((harness.bound(head, task, make_model(config.solver.model)) for task in tasks.select), key=_tokens)
    events = list(read_events(whole.events))
    begun = next(at for at, event in enumerate(events) if event.kind == "round.started" and event.data["round"] == 2)
    probed = next(at for at, event in enumerate(events) if at > begun and event.data.get("purpose") == "probe")
    spent = sum(_cost(event.data) for event in events[:probed])
    each = {data["candidate"]: _cost(data) for data in of_kind(whole, "outcome") if data["purpose"] == "select"}
    audit = config.tasks.audit * (each[of_kind(whole, "run.finished")[0]["start"]] + each[head.digest])
    a_run = ledger.price(EXECUTOR, run).cost_usd
    return spent + audit + a_run + ledger.price(IMPROVER, bound).cost_usd + a_run / 2


def _tokens(spend: Spend) -> int:
    return spend.tokens_in


def _cost(data: Mapping[str, Any]) -> float:
    spend = data.get("spend") or data.get("proposal", {}).get("spend") or {}
    return float(spend.get("cost_usd", 0.0))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return start(tmp_path_factory.mktemp("whole"), Players(), **LIMITED)


def stopped_inside_an_episode(ran: Ran, dollars: float) -> None:
    """The second round's episode got as far as its probe, and every turn of it is paid for."""
    assert (ran.code, ran.err) == (3, "")
    assert ran.found["status"] == "stopped"
    assert "leaves no room for probe" in ran.found["stop_reason"]
    assert [data["round"] for data in of_kind(ran.folder, "submission")] == [1], "the second one is not on record"
    assert ran.found["final"]["digest"] == moves(ran.folder, "harness")[0]
    lost = [data for data in of_kind(ran.folder, "prepared") if data["purpose"] == "propose"]
    assert [data["spend"]["calls"] for data in lost] == [5]
    same_money(ledger_total(ran.folder), ran.used)
    assert ran.used.cost_usd <= dollars


RAISED = ("run", "r/config.toml", "budget.dollars=1.0", "--resume", "--out", "r")
"""The run goes on under a larger limit."""


@pytest.mark.slow
def test_a_budget_that_ends_inside_an_episode_leaves_the_audit_its_share_after_which_the_search_is_over(
    whole: Ran, tmp_path: Path
) -> None:
    dollars = limit_inside_an_episode(whole.folder)
    with started(tmp_path, Players(), **{**LIMITED, "audit.auto": True, "budget.dollars": dollars}) as ran:
        stopped_inside_an_episode(ran, dollars)
        assert {data["role"]: data["n_tasks"] for data in of_kind(ran.folder, "audit")} == {"audit": 3, "ood": 2}
        code, _, err = command(tmp_path, *RAISED)
        assert code == 2
        assert "Start a new run with the larger budget" in err


@pytest.mark.slow
def test_a_budget_that_ends_inside_an_episode_can_be_raised_while_the_audit_is_closed(
    whole: Ran, tmp_path: Path
) -> None:
    players = Players()
    dollars = limit_inside_an_episode(whole.folder)
    with started(tmp_path, players, **LIMITED, **{"budget.dollars": dollars}) as ran:
        stopped_inside_an_episode(ran, dollars)
        before = Counter(players.counted)
        code, out, err = command(tmp_path, *RAISED)
        assert (code, err) == (0, "")
        assert json.loads(out)["status"] == whole.found["status"]
        same_run(whole.folder, ran.folder)
        turns = of_kind(ran.folder, "submission")[1]["proposal"]["measures"]["turns"]
        assert players.counted[IMPROVER, "propose"] - before[IMPROVER, "propose"] == turns == 6
        same_money(ledger_total(ran.folder), players.spend(prices_of(ran.folder)))
