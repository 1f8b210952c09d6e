"""What the tests of whole runs of `verse` share: a served model that plays executor and improver, and reading runs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from run_events import of_kind
from scripted_solver import is_check

from heldout.config import ImproverConfig
from heldout.improvers.agent import MetaView, RoundView
from heldout.improvers.catalog import CatalogImprover
from heldout.models import Model
from heldout.probes import Laboratory, Suggestion, Trace
from heldout.records import Edit, EditProposal, ProbeKind, Spend
from heldout.report import ledger_rows
from heldout.store import Index, RunFolder, read_events
from heldout.testing.scripted_server import ScriptedReply, SeenRequest
from heldout.worlds.repair import RepairSource
from heldout.worlds.repair.grading import read_reference
from heldout.worlds.repair.package import Package

__all__ = [
    "CARE",
    "EXECUTORS",
    "SMALL_WORLD",
    "STEPS",
    "Players",
    "ScriptedAgent",
    "SlowToReflect",
    "kinds_of",
    "lasting",
    "ledger_rows_of",
    "ledger_total",
    "role_of",
    "same_run",
    "tiny_words",
    "written_in",
]

CARE = "Mend the cause where it stands, not where it shows."
"""With this sentence in its harness the executor mends most packages, without it, about half of them."""

SMALL_WORLD = {"count": 64, "ood": 12}
"""Packages of the world; all of them are generated whenever a process reads the source."""

WORLD_SEED = 2
"""Of its tasks, some of train fail with CARE in the harness, too."""

USAGE: Mapping[str, tuple[int, int]] = {
    "check": (9, 1),
    "executor": (211, 31),
    "careful executor": (1511, 37),
    "propose": (1013, 127),
    "repair": (1009, 113),
    "reflect": (907, 101),
    "suggest": (307, 11),
}
"""Tokens in and out that a reply in each role is said to have used; primes, so that a sum tells its parts."""

_ROLES: Mapping[str, str] = {
    CARE: "careful executor",
    "You work through a shell.": "executor",
    "You improve the harness of an agent:": "propose",
    "You improve the harnesses of agents,": "reflect",
    "You reduce a recorded shell session": "suggest",
}
"""How the system message of each role can be told."""

EXECUTORS = ("executor", "careful executor")

_FAILING = re.compile(r"^- (\S+): FAILED, [1-9]", re.MULTILINE)
_EVIDENCE = re.compile(r"evidence (\d+/-?\d+/\d+): ")

Fault = Callable[[str, SeenRequest], ScriptedReply | None]
"""(role, request) -> what the server does instead, or None."""


def role_of(request: SeenRequest) -> str:
    """Which part a request asks for, by its system message alone."""
    if is_check(request):
        return "check"
    system = str(request.body["messages"][0]["content"])
    role = next(role for words, role in _ROLES.items() if words in system)
    opening = str(request.body["messages"][1]["content"])
    return "repair" if role == "propose" and "## What is wrong with it" in opening else role


@dataclass
class Players:
    """One server's script: it plays the executor and the improver, and counts what it was asked."""

    protocol: str = "tools"
    """`text`: the improver writes its calls as blocks of JSON."""
    fault: Fault = lambda _role, _request: None
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests by model and role, failed ones included."""
    answered: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those that got a reply, and so used tokens."""
    _packages: Mapping[str, Package] = field(default_factory=lambda: dict(_packages()))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: SeenRequest) -> ScriptedReply:
        """The reply to a request."""
        role = role_of(request)
        instead = self.fault(role, request)
        asked = (f"openai:{request.body['model']}", role)
        with self._lock:
            self.counted[asked] += 1
            self.answered[asked] += instead is None
        return instead or self._played(role, request)

    def spend(self, prices: Mapping[str, tuple[float, float]]) -> Spend:
        """What was used, at these dollars for a million tokens in and out, by model."""
        total = Spend()
        for (model, role), calls in self.counted.items():
            tokens_in, tokens_out = (self.answered[model, role] * tokens for tokens in USAGE[role])
            dollars = (tokens_in * prices[model][0] + tokens_out * prices[model][1]) / 1e6
            total += Spend(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, cost_usd=dollars)
        return total

    def _played(self, role: str, request: SeenRequest) -> ScriptedReply:
        usage = USAGE[role]
        if role == "check":
            return ScriptedReply(text="yes", usage=usage)
        if role == "suggest":
            return ScriptedReply(text="The first one does: [0]", usage=usage)
        if role in EXECUTORS:
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
        able = hashlib.sha256(package.id.encode()).digest()[0] % 8 < (7 if CARE in system else 4)
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
        failing = _FAILING.findall(str(messages[1]["content"]))[:2]
        edit = self._edit(messages)
        steps = [
            [call("list_files", folder="evidence")],
            [call("read_file", path="evidence/report.md")],
            [call("search", pattern="check.py")],
        ]
        told = str(messages[-1]["content"])
        if turn < len(steps):
            return steps[turn]
        if failing and "evidence " not in told and "Not accepted" not in told:
            return [call("fix_probe", edits=[edit], tasks=failing)]
        return [self._submission(edit, failing, told)]

    def _edit(self, messages: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
        """By the guidance of the episode; another one where the first was refused."""
        guidance = str(messages[0]["content"]).partition("# Guidance for this proposal")[2].strip()
        told = "\n".join(str(message["content"]) for message in messages)
        refused = "Not run, and nothing spent" in told or "Not accepted" in told
        if guidance.startswith("Omission") and not refused:
            return {"path": "memory.md", "content": CARE}
        return {"path": "workflow.md", "content": f"Be brief{', and look twice' if refused else ''}."}

    def _submission(self, edit: Mapping[str, str], failing: list[str], told: str) -> tuple[str, str]:
        """Its claim cites the probe; it predicts what a probe did not refute."""
        cited = _EVIDENCE.findall(told)
        claims = [{"task": task, "diagnosis": "It mended a symptom.", "evidence": cited} for task in failing]
        flips = told.partition("confirmed flips: ")[2].partition(";")[0]
        predicted = [task for task in failing if task in flips]
        given = {"edits": [edit], "predicted_fixes": predicted, "claims": claims, "note": "Say where to mend."}
        return call("submit_proposal", **given)


def call(tool: str, **arguments: Any) -> tuple[str, str]:
    """A tool call of a scripted reply."""
    return tool, json.dumps(arguments)


def _packages() -> Iterator[tuple[str, Package]]:
    for item in RepairSource(seed=WORLD_SEED, **SMALL_WORLD).items():
        yield item.input, read_reference(item.reference).package()


def tiny_words(url: str, **more: Any) -> list[str]:
    """What is said on the command line to run `examples/verse_llm.toml` small, on one server."""
    settings = {
        "solver.model.url": url,
        "improver.model.url": url,
        "tasks.seed": WORLD_SEED,
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


def ledger_rows_of(folder: RunFolder) -> Mapping[str, Spend]:
    """What the journal says was paid for, by purpose."""
    with Index.open(folder.path) as index:
        return {row.purpose: row.spend for row in ledger_rows(index.connection)}


def ledger_total(folder: RunFolder) -> Spend:
    """Everything that the journal says was paid for."""
    return sum(ledger_rows_of(folder).values(), start=Spend())


def kinds_of(folder: RunFolder) -> list[str]:
    """Kinds of all events, in order."""
    return [event.kind for event in read_events(folder.events)]


def written_in(folder: Path, text: str) -> list[Path]:
    """Files that hold a text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


STEPS = (
    "candidate",
    "proposal",
    "round.started",
    "submission",
    "probe",
    "screen",
    "smoke",
    "flips",
    "prediction.scored",
    "attribution",
    "ledger.signature",
    "method.edited",
    "card",
    "decision",
    "track.moved",
    "selected",
    "meta_audit",
    "audit",
)
"""Every kind of step, so that no phase is left out."""


def same_run(a: RunFolder, b: RunFolder) -> None:
    """Heads, decisions, submissions and everything else that lasts; and nothing paid twice or left out."""
    for kind in STEPS:
        assert lasting(a, kind) == lasting(b, kind), kind
    assert of_kind(a, "run.finished")[-1]["final"] == of_kind(b, "run.finished")[-1]["final"]
    assert _paid(a) == _paid(b), "work was paid twice, or left out"


def _paid(folder: RunFolder) -> tuple[int, int, int]:
    """Evaluations, replays and units of probes; each once."""
    outcomes = [data["key"] for data in of_kind(folder, "outcome")]
    replays = [(data["round"], data["key"]) for data in of_kind(folder, "replay")]
    assert len(set(outcomes)) == len(outcomes)
    assert len(set(replays)) == len(replays)
    return len(outcomes), len(replays), sum(data.get("units", 0) for data in of_kind(folder, "probe"))


def lasting(folder: RunFolder, kind: str) -> list[Any]:
    """Events without what depends on the clock, in an order that does not depend on which thread was first."""
    return sorted((_without_clock(event.data) for event in read_events(folder.events) if event.kind == kind), key=str)


def _without_clock(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_clock(item) for key, item in value.items() if key not in ("spend", "notes")}
    return [_without_clock(item) for item in value] if isinstance(value, list | tuple) else value


class ScriptedAgent:
    """An improver that does what its options say: `script` holds `round/episode` and `meta/round` to what it submits.

    A submission has `files` (path to text) and may have `base_round` and `substitute`, a command that it tries in a
    probe before. In texts {task} stands for the id of a train task. Repairs submit the same again.
    """

    agent: ClassVar[bool] = True
    uses_model: ClassVar[bool] = False
    bound: ClassVar[Spend] = Spend()
    start_method: ClassVar[Mapping[str, str]] = {"prompt.md": "I do as I am told.\n"}

    def __init__(self, config: ImproverConfig, model: Model | None) -> None:
        del model
        self._script: Mapping[str, Mapping[str, Any]] = config.options["script"]

    def propose(self, view: RoundView, laboratory: Laboratory) -> EditProposal:
        said = self._script.get(f"{view.round}/{view.episode}", {})
        failing = sorted(task for task, trace in view.traces.items() if trace.passed is False)
        if "substitute" in said:
            laboratory.probe(ProbeKind.SUBSTITUTE, failing[:1], step=0, command=said["substitute"])
        edits = [(path, text.replace("{task}", failing[0])) for path, text in said.get("files", {}).items()]
        return EditProposal(
            edits=tuple(Edit(path=path, content=text) for path, text in edits),
            base_round=said.get("base_round"),
            note=f"as scripted for {view.round}/{view.episode}",
        )

    def repair(self, view: RoundView, proposal: EditProposal, fault: str, laboratory: Laboratory) -> EditProposal:
        del view, fault, laboratory
        return proposal

    def reflect(self, view: MetaView, laboratory: Laboratory) -> EditProposal:
        del laboratory
        files = self._script.get(f"meta/{view.round}", {}).get("files", {})
        return EditProposal(edits=tuple(Edit(path=path, content=text) for path, text in files.items()))

    def suggestion(self, trace: Trace, fault: str) -> Suggestion:
        del trace, fault
        return Suggestion(None, Spend())


class SlowToReflect(CatalogImprover):
    """The simulated improver, with a meta-episode that lasts long enough to be killed in."""

    def reflect(self, view: MetaView, laboratory: Laboratory) -> EditProposal:
        time.sleep(0.4)
        return super().reflect(view, laboratory)
