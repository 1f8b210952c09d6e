"""`training_llm` through the whole loop over HTTP: its own strategy, its own data script in the sandbox, outages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from scripted_solver import DOWN, SECRET, is_check
from training_parts import cut, events, of_kind, only

import weights_world as world  # isort: skip
import heldout
from heldout.config import RunConfig
from heldout.records import Spend
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.store import RunFolder
from heldout.tasks import load_tasks
from heldout.testing.object_graph import reached
from heldout.testing.scripted_server import ScriptedReply, ScriptedServer, SeenRequest
from heldout.workbench import Opening, resume, run

FAULT = Bubblewrap().fault()
sandboxed = pytest.mark.skipif(FAULT is not None, reason=str(FAULT))

_ROLES = {
    "A small language model was measured": "diagnose",
    "One problem of a small language model": "research",
    "Write the recipe of one training": "build",
}
_ID = re.compile(r"^### train task (\S+)", re.MULTILINE)

LEARNS = """import json, sys
with open("train.jsonl") as tasks, open("examples.jsonl", "w") as out:
    for line in tasks:
        task = json.loads(line)
        out.write(json.dumps({"prompt": task["input"], "completion": task["reference"]}) + "\\n")
"""
"""The failed train tasks with their right answers."""

FAILS = 'raise SystemExit("I divided by zero")\n'


def role_of(request: SeenRequest) -> str:
    """Which part of the improver asks."""
    if is_check(request):
        return "check"
    system = str(request.body["messages"][0]["content"])
    return next(role for words, role in _ROLES.items() if words in system)


@dataclass
class Author:
    """A model that diagnoses, has an idea of its own, and writes one script after the other."""

    scripts: Sequence[str] = (LEARNS,)
    fault: Callable[[str, int], ScriptedReply | str | None] = lambda _role, _count: None
    """(role, how often it was asked before) -> what is answered instead."""
    asked: dict[str, int] = field(default_factory=dict)
    questions: list[tuple[str, str]] = field(default_factory=list)
    """(role, last message)."""

    def __call__(self, request: SeenRequest) -> ScriptedReply | str:
        role, question = role_of(request), str(request.body["messages"][-1]["content"])
        before = self.asked.get(role, 0)
        self.asked[role] = before + 1
        self.questions.append((role, question))
        instead = self.fault(role, before)
        if instead is not None:
            return instead
        if role == "diagnose":
            rates = [{"code": "stop", "rate": 0.9}]
            found = {"focal": "stop", "fix_rates": rates, "cited": _ID.findall(question)[:6], "why": "It never stops."}
            return json.dumps(found)
        if role == "research":
            return json.dumps(
                {"strategies": [idea(), known("end"), known("mixture")], "chosen": "my_idea", "why": "Mine."}
            )
        return "yes" if role == "check" else self.written()

    def written(self) -> str:
        repairs = self.asked["build"] - 1
        script = self.scripts[min(repairs, len(self.scripts) - 1)]
        return recipe(script)


def recipe(script: str, **changes: Any) -> str:
    """A builder's reply."""
    said: Mapping[str, Any] = {"builder": "script", "count": 64, "params": {}, "replay": 0.0, "train": {"steps": 60}}
    return f"{json.dumps({**said, 'note': 'from the failures', **changes})}\n\n```python\n{script}```\n"


def idea() -> Mapping[str, Any]:
    """The row of a strategy of its own."""
    return {
        "id": "my_idea",
        "fits": 1.0,
        "reproduces": 0.8,
        "why_not": "",
        "mechanism": "Answer the failed tasks rightly.",
        "reported_gain": 20,
        "reported_on": "my estimate",
        "data": "failed tasks",
        "implementation": "low",
        "cost_s": 1,
        "risk": "",
        "builder": "script",
    }


def known(name: str) -> Mapping[str, Any]:
    """The row of a strategy of the library."""
    empty = {"mechanism": "", "reported_gain": 0, "reported_on": "", "data": "", "cost_s": 0, "risk": "", "builder": ""}
    return {
        "id": name,
        "fits": 0.5,
        "reproduces": 0.5,
        "why_not": f"{name} is weaker",
        "implementation": "low",
        **empty,
    }


def config_for(tmp_path: Path, url: str, *over: Mapping[str, Any]) -> RunConfig:
    """The simulated learner, improved by a served model."""
    model = {"name": "openai:author", "url": url, "retries": 0, "timeout_s": 20, "max_tokens": 4096}
    improver = {"kind": "training_llm", "model": model, "options": {"rule": "model"}}
    few = {"options": {"min_strategies": 3}}
    return world.start(tmp_path, "end", "mixture", over=({"improver": improver}, few, *over))


def played(tmp_path: Path, author: Author, *over: Mapping[str, Any], name: str = "run") -> tuple[RunFolder, int]:
    """A whole run, and how many requests the server saw."""
    with ScriptedServer(author) as server:
        folder = run(config_for(tmp_path, server.url, *over), Opening(tmp_path / name, command="test"))
        return folder, len(server.requests)


@sandboxed
class TestScripts:
    def test_its_own_strategy_and_script_train_a_better_model(self, tmp_path: Path) -> None:
        author = Author()
        folder, requests = played(tmp_path, author)
        attempt = only(folder, "attempt")
        assert (attempt["status"], attempt["strategy"], attempt["focal"]) == ("accepted", "my_idea", "stop")
        weighed = only(folder, "strategies")
        assert [row["source"] for row in weighed["table"] if row["id"] == "my_idea"] == ["the model's own idea"]
        assert all(row["lost"] for row in weighed["table"] if row["id"] != "my_idea")
        built = only(folder, "dataset")
        assert built["builders"] == {"script": built["size"]}
        (builder,) = (data for data in of_kind(folder, "asset.added") if data["kind"] == "data_builder")
        assert folder.load(builder["blob"]).files["build.py"] == LEARNS
        assert builder["validated_on"] == only(folder, "training")["weights"]
        assert len(only(folder, "diagnosis")["cited"]) >= 5
        assert author.asked == {"check": 1, "diagnose": 1, "research": 1, "build": 1}
        assert requests == 4

    def test_a_script_that_fails_is_repaired_with_its_own_words(self, tmp_path: Path) -> None:
        author = Author(scripts=(FAILS, LEARNS))
        folder, _ = played(tmp_path, author)
        first, second = of_kind(folder, "dataset")
        assert "ended with exit code 1; it said: I divided by zero" in first["error"]
        assert (second["attempt"], second.get("error")) == (1, None)
        assert "I divided by zero" in author.questions[-1][1]
        attempt = only(folder, "attempt")
        assert (attempt["status"], attempt["repairs"]) == ("accepted", 1)

    def test_a_script_that_is_never_mended_ends_the_attempt_after_two_repairs(self, tmp_path: Path) -> None:
        author = Author(scripts=(FAILS,))
        folder, _ = played(tmp_path, author)
        assert [data.get("attempt", 0) for data in of_kind(folder, "dataset")] == [0, 1, 2]
        assert only(folder, "attempt")["status"] == "no_data"
        assert "I divided by zero" in only(folder, "attempt")["reason"]
        assert of_kind(folder, "training") == []

    def test_a_hostile_script_reads_and_writes_nothing_outside_its_folder(self, tmp_path: Path) -> None:
        record = Path(heldout.__file__).parent / "records.py"
        before = record.read_bytes()
        (tmp_path / "secret.txt").write_text(SECRET)
        paths = [str(tmp_path / "secret.txt"), str(tmp_path / "run/config.toml"), str(tmp_path / "run/events.jsonl")]
        script = f"""import json, os, socket
found = []
for path in {paths!r}:
    try:
        found.append(open(path).read()[:200])
    except OSError as error:
        found.append(type(error).__name__)
for path in {[str(record), paths[1]]!r}:
    try:
        open(path, "a").write("# mine")
        found.append("written")
    except OSError as error:
        found.append(type(error).__name__)
try:
    socket.create_connection(("127.0.0.1", 80), timeout=1)
    found.append("connected")
except OSError:
    found.append("no network")
found.append(repr(sorted(os.environ)))
with open("train.jsonl") as tasks, open("examples.jsonl", "w") as out:
    for number, line in enumerate(tasks):
        task = json.loads(line)
        told = json.dumps(found) if number == 0 else task["input"]
        out.write(json.dumps({{"prompt": told, "completion": task["reference"]}}) + "\\n")
"""
        author = Author(scripts=(script,))
        folder, _ = played(tmp_path, author, {"options": {"train": {"max_length": 2048}}})
        assert record.read_bytes() == before
        assert only(folder, "attempt")["status"] == "accepted", only(folder, "attempt")["reason"]
        built = folder.load(only(folder, "dataset")["blob"]).files["examples.jsonl"]
        told = json.loads(json.loads(built.splitlines()[0])["prompt"])
        assert told[:3] == ["FileNotFoundError"] * 3
        assert "written" not in told
        assert "no network" in told
        assert "OPENAI_API_KEY" not in told[-1]
        assert [data["moment"] for data in of_kind(folder, "trusted.hash")] == ["before", "after"]

    @pytest.mark.parametrize(
        ("script", "told"),
        [
            ("import os\nwhile True:\n    os.fork()\n", "processes at once"),
            ("open('examples.jsonl', 'w').write('x' * 200_000_000)\n", "File too large"),
            ("open('examples.jsonl', 'w').write('[1, 2]\\n')\n", 'is not {"prompt": text, "completion": text}'),
            ("import os\nos.symlink('/etc/passwd', 'examples.jsonl')\n", "left no regular UTF-8 file"),
            ("def broken(:\n", "no Python"),
        ],
        ids=["forks", "fills_the_disk", "no_pairs", "link", "syntax"],
    )
    def test_a_script_that_breaks_its_rules_is_named(self, tmp_path: Path, script: str, told: str) -> None:
        once = {"options": {"preflight": {"repairs": 0}}}
        folder, _ = played(tmp_path, Author(scripts=(script,)), once)
        attempt = only(folder, "attempt")
        assert attempt["status"] == "no_data"
        assert told in attempt["reason"]


class TestWhatIsSent:
    def test_no_request_holds_a_select_or_sealed_task(self, tmp_path: Path) -> None:
        author = Author(scripts=(FAILS,))
        with ScriptedServer(author) as server:
            config = config_for(tmp_path, server.url, world.rounds(2))
            run(config, Opening(tmp_path / "run", command="test"))
            bodies = [seen.body for seen in server.requests]
        tasks = load_tasks(config.tasks)
        sealed = [task for role in ("audit", "retain") for task in tasks.open_role(role).tasks]
        secret = {task.input for task in (*tasks.select, *sealed)} | {task.id for task in (*tasks.select, *sealed)}
        assert reached(bodies, {task.input for task in tasks.train})
        assert reached(bodies, secret | {str(tmp_path)}) == set()

    def test_invariant_6_no_reply_can_turn_the_metric_round(self, tmp_path: Path) -> None:
        """A recipe that sets a direction is refused, and asked for once more; the gate maximises as before."""

        def fault(role: str, before: int) -> str | None:
            if role == "build" and before == 0:
                return recipe(LEARNS, train={"steps": 60, "direction": "minimize"})
            return None

        author = Author(fault=fault)
        folder, _ = played(tmp_path, author)
        assert any("train holds direction; allowed are" in question for _, question in author.questions)
        recipes = json.dumps([data.get("recipe") for data in of_kind(folder, "dataset")])
        assert "minimize" not in recipes
        for data in of_kind(folder, "decision"):
            better = data["scores"][0] > data["incumbent_score"]
            assert (data["decision"]["verdict"] == "accept") == better


@sandboxed
class TestOutages:
    @pytest.mark.parametrize("role", ["diagnose", "research", "build"])
    def test_an_endpoint_that_is_down_is_not_measured_and_costs_what_it_cost(self, tmp_path: Path, role: str) -> None:
        def down(asked: str, before: int) -> ScriptedReply | None:
            return DOWN if asked == role and before == 0 else None

        folder, requests = played(tmp_path, Author(fault=down), world.rounds(2))
        first, second = of_kind(folder, "attempt")
        assert first["status"] == "not_measured"
        assert "HTTP 500" in first["reason"]
        assert (second["status"], second["strategy"]) == ("accepted", "my_idea"), "the next round asks anew"
        spends = [Spend.model_validate(event.data.get("spend", {})) for event in events(folder) if event.kind in PAID]
        assert sum((spend.calls for spend in spends), 0) == requests + sweeps(folder)

    @pytest.mark.parametrize("role", ["diagnose", "research", "build"])
    def test_what_was_not_answered_when_a_run_was_killed_is_asked_again_on_resume(
        self, tmp_path: Path, role: str
    ) -> None:
        def down(asked: str, before: int) -> ScriptedReply | None:
            return DOWN if asked == role and before == 0 else None

        author = Author(fault=down)
        kind = {"diagnose": "diagnosis", "research": "strategies", "build": "dataset"}[role]
        with ScriptedServer(author) as server:
            whole = run(config_for(tmp_path, server.url), Opening(tmp_path / "run", command="test"))
            kinds = [event.kind for event in events(whole)]
            assert only(whole, kind)["unanswered"] is True
            killed = cut(whole, kinds.index(kind) + 1, tmp_path / "killed")
            resume(Opening(killed.path, command="again", resume=True))
        assert only(whole, "attempt")["status"] == "not_measured"
        assert only(killed, "attempt")["status"] == "accepted"
        assert author.asked[role] == 2

    def test_nonsense_is_asked_for_twice_and_is_then_an_attempt_without_a_verdict(self, tmp_path: Path) -> None:
        author = Author(fault=lambda role, _: "I would rather not." if role == "research" else None)
        folder, _ = played(tmp_path, author)
        assert author.asked["research"] == 2
        assert only(folder, "attempt")["status"] == "not_measured"
        assert "It was asked twice" in only(folder, "attempt")["reason"]
        assert of_kind(folder, "dataset") == []


PAID = ("outcome", "prepared", "diagnosis", "strategies", "dataset", "preflight", "training")


def sweeps(folder: RunFolder) -> int:
    """Calls of the simulated learner."""
    return sum(data["spend"]["calls"] for data in of_kind(folder, "outcome"))
