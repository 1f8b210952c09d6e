"""Small real parts for the tests of probes: a scripted world, a book over a journal in memory, traces."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heldout.config import BudgetConfig
from heldout.harness.base import Episode, Preparation, Replayed
from heldout.harness.steps import Step
from heldout.ledger import Ledger
from heldout.models.base import Model
from heldout.probes import ProbeKit, ProbePool, ProbeRound, ProbeSettings, ReplayRunner, Trace
from heldout.records import Candidate, Edit, Outcome, Record, Spend, Task, TrainTask, Trajectory
from heldout.rollouts import Engine, InlineExecutor
from heldout.store.events import Prepared
from heldout.testing import FunctionModel, MemoryJournal

HEAD = Candidate(files={"workflow.md": "Work."})
USEFUL = (Edit(path="memory.md", content="Run the checks."),)

KEYS = {"probe": ("round", "episode", "ordinal"), "replay": ("round", "key"), "attribution": ("round", "task")}


@dataclass
class Clock:
    """Seconds that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class JournalBook:
    """A `Book` over a journal in memory: what a run's recorder is to probes."""

    def __init__(self, journal: MemoryJournal) -> None:
        self.journal = journal
        self._steps: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()
        for event in journal.read_from(0):
            if event.kind in KEYS:
                self._steps[(event.kind, self._key(event.kind, event.data))] = event.data

    def find(self, kind: str, key: str, record: type[Any]) -> Any:
        data = self._steps.get((kind, key))
        return None if data is None else record.model_validate(data)

    def record(self, kind: str, payload: Any) -> Any:
        event = self.journal.append(kind, payload)
        with self._lock:
            key = (kind, self._key(kind, event.data))
            assert key not in self._steps, f"{key} was recorded twice"
            self._steps[key] = event.data
        return payload

    def all(self, kind: str, record: type[Record]) -> list[Any]:
        return [record.model_validate(event.data) for event in self.journal.read_from(0) if event.kind == kind]

    def _key(self, kind: str, data: Mapping[str, Any]) -> str:
        return "/".join(str(data[name]) for name in KEYS[kind])


def fails_unless_useful(candidate: Candidate, task: Task, seed: int) -> str | None:  # noqa: ARG001 - no chance here
    """Tasks whose id begins with `p` pass; the others only with the useful edit."""
    return "ok" if task.id.startswith("p") or "memory.md" in candidate.files else "bad"


def last_command_decides(task: Task, commands: Sequence[str], seed: int) -> str | None:  # noqa: ARG001 - nor here
    """A world in which `fix` mends and `undo` reverts."""
    mended = task.id.startswith("p")
    for command in commands:
        mended = True if command == "fix" else False if command == "undo" else mended
    return "ok" if mended else "bad"


@dataclass
class ScriptedWorld:
    """A harness and a replayer that are functions of what they are given; both count their calls."""

    plays: Callable[[Candidate, Task, int], str | None] = fails_unless_useful
    replays: Callable[[Task, Sequence[str], int], str | None] = last_command_decides
    shows: Callable[[Sequence[str]], Sequence[tuple[str, int]]] = lambda commands: [("", 0)] * len(commands)
    fingerprint: str = "scripted"
    prepares: bool = False
    replayable: bool = True
    ran: list[tuple[str, str, int]] = field(default_factory=list)
    """(candidate, task, seed) of each episode."""
    replayed: list[tuple[str, tuple[str, ...], int]] = field(default_factory=list)

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:  # noqa: ARG002 - nothing to measure
        return Preparation()

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:  # noqa: ARG002 - no model is asked
        return Spend()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        self.ran.append((candidate.digest, task.id, episode.seed))
        return Trajectory(answer=self.plays(candidate, task, episode.seed))

    def replay(self, task: Task, commands: Sequence[str], *, seed: int) -> Replayed:
        self.replayed.append((task.id, tuple(commands), seed))
        shown = self.shows(commands)
        return Replayed(
            answer=self.replays(task, commands, seed),
            outputs=tuple(output for output, _ in shown),
            exit_codes=tuple(code for _, code in shown),
        )


def grade(task: str, answer: str | None) -> float:  # noqa: ARG001 - every task has the same answer
    return float(answer == "ok")


def trace(
    name: str, *commands: str, passed: bool | str | None = "by name", feedback: str = "", error: str = ""
) -> Trace:
    """A trace of silent commands; `p…` tasks pass unless told otherwise."""
    steps = tuple(Step(kind="command", command=command, exit_code=0) for command in commands)
    outcome = name.startswith("p") if isinstance(passed, str) else passed
    return Trace(TrainTask(id=name, input=f"do {name}"), outcome, steps, feedback, error)


def failed_trace(name: str, *ran: tuple[str, str, int], feedback: str = "wrong state", error: str = "") -> Trace:
    """A failing trace of (command, output, exit code)."""
    steps = tuple(Step(kind="command", command=c, output=o, exit_code=code) for c, o, code in ran)
    return Trace(TrainTask(id=name, input=f"do {name}"), False, steps, feedback, error)


TRACES = {name: trace(name, "look", "fix", "undo") for name in ("f1", "f2", "f3", "f4")} | {
    name: trace(name, "look", "fix") for name in ("p1", "p2", "p3")
}


@dataclass
class Bench:
    """A kit with everything around it, over one journal; `again` is the same run after a kill."""

    kit: ProbeKit
    world: ScriptedWorld
    engine: Engine
    book: JournalBook
    pool: ProbePool

    @property
    def ledger(self) -> Ledger:
        return self.engine.ledger


def bench(
    world: ScriptedWorld | None = None,
    *,
    units: int = 24,
    settings: ProbeSettings | None = None,
    journal: MemoryJournal | None = None,
    budget: BudgetConfig | None = None,
    **changed: Any,
) -> Bench:
    """A kit of round 1; what the journal holds is on record.

    `changed`: check, traces, bases, share, clock, grade, book."""
    world = world or ScriptedWorld()
    journal = MemoryJournal() if journal is None else journal
    book = JournalBook(journal)
    ledger = Ledger(budget or BudgetConfig())
    model = FunctionModel(lambda request: request.messages[-1].content)
    engine = Engine(world, model, InlineExecutor(), ledger, journal.append)
    for outcome in book.all("outcome", Outcome):
        engine.recorded[outcome.key] = outcome
    for entry in book.all("prepared", Prepared):
        engine.prepared[entry.key] = Preparation(values=entry.values, spend=entry.spend)
    pool = ProbePool(
        units, episodes=3, clock=changed.get("clock", Clock()), share=changed.get("share", "pool"), phase_s=3600.0
    )
    grader = changed.get("grade", grade)
    kit = ProbeKit(
        round=ProbeRound(1, HEAD, changed.get("bases", {0: HEAD}), changed.get("traces", TRACES)),
        engine=engine,
        replays=ReplayRunner(world, ledger, grader) if world.replayable else None,
        grade=grader,
        check=changed.get("check", lambda _: None),
        pool=pool,
        book=changed.get("book", book),
        settings=settings or ProbeSettings(),
    )
    return Bench(kit, world, engine, book, pool)
