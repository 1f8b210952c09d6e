"""What the tests of whole runs of `verse` share: a served model that plays executor and improver, and reading runs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripted_solver import is_check

from heldout.records import Spend
from heldout.store import RunFolder, read_events
from heldout.testing.scripted_server import ScriptedReply, SeenRequest
from heldout.worlds.repair import RepairSource
from heldout.worlds.repair.grading import read_reference
from heldout.worlds.repair.package import Package

__all__ = ["CARE", "SMALL_WORLD", "Players", "ledger_total", "role_of", "tiny_words"]

CARE = "Mend the cause where it stands, not where it shows."
"""With this sentence in its harness the executor mends every package; without it, about every other one."""

SMALL_WORLD = {"count": 64, "ood": 12}
"""Packages of the world; all of them are generated whenever a process reads the source."""

USAGE: Mapping[str, tuple[int, int]] = {
    "check": (9, 1),
    "executor": (211, 31),
    "propose": (1013, 127),
    "repair": (1009, 113),
    "reflect": (907, 101),
    "suggest": (307, 11),
}
"""Tokens in and out that a reply in each role is said to have used; primes, so that a sum tells its parts."""

_ROLES: Mapping[str, str] = {
    "You work through a shell.": "executor",
    "You improve the harness of an agent:": "propose",
    "You improve the harnesses of agents,": "reflect",
    "You reduce a recorded shell session": "suggest",
}
"""How the system message of each role can be told."""

_FAILING = re.compile(r"^- (\S+): FAILED, [1-9]", re.MULTILINE)
_EVIDENCE = re.compile(r"evidence (\d+/-?\d+/\d+): ")

Fault = Callable[[str, SeenRequest], ScriptedReply | None]
"""(role, request) -> what the server does instead, or None."""


def role_of(request: SeenRequest) -> str:
    """Which part a request asks for, by its system message alone."""
    if is_check(request):
        return "check"
    system = str(request.body["messages"][0]["content"])
    (role,) = {role for words, role in _ROLES.items() if words in system}
    opening = str(request.body["messages"][1]["content"])
    return "repair" if role == "propose" and "## What is wrong with it" in opening else role


@dataclass
class Players:
    """One server's script: it plays the executor and the improver, and counts what it was asked."""

    protocol: str = "tools"
    """`text`: the improver writes its calls as blocks of JSON."""
    fault: Fault = lambda _role, _request: None
    counted: Counter[str] = field(default_factory=Counter)
    """Requests by role, failed ones included."""
    answered: Counter[str] = field(default_factory=Counter)
    """Requests by role that got a reply, and so used tokens."""
    models: set[tuple[str, str]] = field(default_factory=set)
    """(the name that was asked for, role)."""
    _packages: Mapping[str, Package] = field(default_factory=lambda: dict(_packages()))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: SeenRequest) -> ScriptedReply:
        """The reply to a request."""
        role = role_of(request)
        instead = self.fault(role, request)
        with self._lock:
            self.counted[role] += 1
            self.answered[role] += instead is None
            self.models.add((request.body["model"], role))
        return instead or self._played(role, request)

    def spend(self, prices: Mapping[str, tuple[float, float]]) -> Spend:
        """What was used; `prices` of a million tokens in and out by role, `""` for all that are not named."""
        total = Spend()
        for role, (tokens_in, tokens_out) in USAGE.items():
            times = self.answered[role]
            price_in, price_out = prices.get(role, prices[""])
            total += Spend(
                calls=self.counted[role],
                tokens_in=times * tokens_in,
                tokens_out=times * tokens_out,
                cost_usd=times * (tokens_in * price_in + tokens_out * price_out) / 1e6,
            )
        return total

    def _played(self, role: str, request: SeenRequest) -> ScriptedReply:
        usage = USAGE[role]
        if role == "check":
            return ScriptedReply(text="yes", usage=usage)
        if role == "suggest":
            return ScriptedReply(text="The first one does: [0]", usage=usage)
        if role == "executor":
            return ScriptedReply(text=self._work(request), usage=usage)
        calls = self._calls(role, request)
        if self.protocol == "tools":
            return ScriptedReply(text="I go on.", tool_calls=calls, usage=usage)
        name, arguments = calls[0]
        block = json.dumps({"tool": name, "arguments": json.loads(arguments)}, indent=1)
        return ScriptedReply(text=f"I go on.\n\n```json\n{block}\n```", usage=usage)

    def _work(self, request: SeenRequest) -> str:
        """An executor's turn: it looks, mends what it can mend or runs the checks, and submits."""
        system, issue, *past = (str(message["content"]) for message in request.body["messages"])
        package = self._packages[issue]
        able = CARE in system or hashlib.sha256(package.id.encode()).digest()[0] % 2 == 0
        mended = f"cat > {package.target} <<'MENDED'\n{package.solution[package.target]}\nMENDED"
        moves = [f"cat {package.target}", mended if able else "python3 check.py", "echo HELDOUT_SUBMIT"]
        return f"Turn {len(past) // 2 + 1}.\n\n```bash\n{moves[len(past) // 2]}\n```"

    def _calls(self, role: str, request: SeenRequest) -> list[tuple[str, str]]:
        """The improver's next calls: it lists, reads and searches, tries its draft, and submits."""
        messages = request.body["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        if role == "reflect":
            notes = {"path": "notes.md", "content": "Drafts that were tried held up.\n"}
            steps = [
                [call("read_file", path="evidence/card.md")],
                [call("submit_method", edits=[notes], note="Wrote down what held up.")],
            ]
            return steps[turn]
        failing = _FAILING.findall(str(messages[1]["content"]))[:1]
        edit = self._edit(messages)
        steps = [
            [call("list_files", folder="evidence")],
            [call("read_file", path="evidence/report.md")],
            [call("search", pattern="check.py")],
            [call("fix_probe", edits=[edit], tasks=failing)] if failing else [call("list_files")],
        ]
        return steps[turn] if turn < len(steps) else [self._submission(edit, failing, str(messages[-1]["content"]))]

    def _edit(self, messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        """By the guidance of the episode; another one where the first was refused."""
        guidance = str(messages[0]["content"]).partition("# Guidance for this proposal")[2].strip()
        refused = any("Not run, and" in str(one["content"]) or "Not accepted" in str(one["content"]) for one in messages)
        if guidance.startswith("Omission") and not refused:
            return {"path": "memory.md", "content": CARE}
        return {"path": "workflow.md", "content": f"Be brief{', and look twice' if refused else ''}."}

    def _submission(self, edit: Mapping[str, str], failing: list[str], told: str) -> tuple[str, str]:
        """Its claim cites the probe; it predicts what a probe did not refute."""
        cited = _EVIDENCE.findall(told)
        claims = [{"task": task, "diagnosis": "It mended a symptom.", "evidence": cited} for task in failing]
        predicted = failing if "supports" in told else []
        return call("submit_proposal", edits=[edit], predicted_fixes=predicted, claims=claims, note="Say where to mend.")


def call(tool: str, **arguments: Any) -> tuple[str, str]:
    """A tool call of a scripted reply."""
    return tool, json.dumps(arguments)


def _packages() -> Iterator[tuple[str, Package]]:
    for item in RepairSource(**SMALL_WORLD).items():
        yield item.input, read_reference(item.reference).package()


def tiny_words(url: str, **more: Any) -> list[str]:
    """What is said on the command line to run `examples/verse_llm.toml` small, on one server."""
    settings = {
        "solver.model.url": url,
        "improver.model.url": url,
        "tasks.train": 4,
        "tasks.select": 3,
        "tasks.audit": 3,
        "tasks.reports.ood": 2,
        "tasks.options.count": SMALL_WORLD["count"],
        "tasks.options.ood": SMALL_WORLD["ood"],
        "search.generations": 1,
        "search.candidates": 2,
        "executor.workers": 4,
        **more,
    }
    return [f"{key}={json.dumps(value)}" for key, value in settings.items()]


def ledger_total(folder: RunFolder) -> Spend:
    """Everything that the journal says was paid for."""
    from heldout.report import ledger_rows
    from heldout.store import Index

    with Index.open(folder.path) as index:
        return sum((row.spend for row in ledger_rows(index.connection)), start=Spend())


def kinds_of(folder: RunFolder) -> list[str]:
    """Kinds of all events, in order."""
    return [event.kind for event in read_events(folder.events)]


def written_in(folder: Path, text: str) -> list[Path]:
    """Files that hold a text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
