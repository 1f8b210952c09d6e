"""The probe kit: the trusted side of the laboratory, which checks, pays, runs and records every probe of a round."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Literal

from heldout.probes.base import Trace
from heldout.probes.book import Book
from heldout.probes.experiments import Experiments, Finding
from heldout.probes.pool import ProbePool
from heldout.probes.refusals import not_train, request_fault
from heldout.probes.replays import ATTEMPTS, REQUESTS, ReplayRunner
from heldout.probes.requests import DRAFTS, ProbeRequest, Schedule, scheduled
from heldout.records import Candidate, Evidence, ProbeKind, Record, apply_edits, digest_of, edits_digest
from heldout.rollouts.engine import Engine, Grade

__all__ = ["ProbeKit", "ProbeRound", "ProbeSettings", "canary_for"]


class ProbeSettings(Record):
    """Which probes a run offers, and who chooses them."""

    kinds: tuple[ProbeKind, ...] = tuple(ProbeKind)
    schedule: Schedule = "chosen"
    """`random` and `fixed` are arms without agency: they put their own request in place of the improver's."""
    on: Literal["base", "head"] = "base"
    """What a draft is applied to: the base that it declares, or always the head."""
    seed: int = 0
    """Of the schedule and of the canaries."""


@dataclass(frozen=True, slots=True)
class ProbeRound:
    """What the probes of one round are about."""

    number: int
    head: Candidate
    bases: Mapping[int, Candidate]
    """Kept rounds to the harness after them, which a draft may be based on."""
    traces: Mapping[str, Trace]
    """Train id to its newest trace under the head. What is not in here is no train task."""
    draw: int | None = None
    """Seeds what is run and drawn, where two rounds are to share that; None is the round's own number."""

    def place(self, episode: int, ordinal: int) -> tuple[int, int, int]:
        """What a probe's chances are drawn from."""
        return (self.number if self.draw is None else self.draw, episode, ordinal)


@dataclass(slots=True)
class ProbeKit:
    """Executes the probes of one round. Safe to use from several threads, one for each episode.

    What is on record is handed back and takes nothing: on resume an episode that asks the same things in the same
    order gets the same answers. A recorded probe that it does not ask for again stays paid.
    """

    round: ProbeRound
    engine: Engine
    replays: ReplayRunner | None
    """None for a harness that cannot replay: probes of a trace are then absent, not failing."""
    grade: Grade
    check: Callable[[Candidate], str | None]
    """Why a draft cannot run (it does not apply, sizes, paths, hooks), or None."""
    pool: ProbePool
    book: Book
    settings: ProbeSettings = field(default_factory=ProbeSettings)
    _next: dict[int, int] = field(default_factory=dict)
    _end: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for episode in range(-1, self.pool.episodes):
            for recorded in self._on_record(episode):
                self.pool.restore(recorded)

    @property
    def available(self) -> frozenset[ProbeKind]:
        """Kinds that this run offers on this harness."""
        return frozenset(self._kinds())

    def begin(self, episode: int, *, attempt: int = 0) -> None:
        """A phase of an episode begins: 0 is its proposal (or the meta-episode), then come repairs.

        Each phase has ordinals and a clock of its own.
        """
        if not 0 <= attempt < ATTEMPTS:
            raise ValueError(f"an episode has at most {ATTEMPTS} phases, got attempt {attempt!r}")
        self.pool.begin(episode, first=attempt * REQUESTS)
        with self._lock:
            self._next[episode], self._end[episode] = attempt * REQUESTS, (attempt + 1) * REQUESTS

    def units_left(self, episode: int) -> int:
        """Units that this episode may still spend."""
        return self.pool.left(episode)

    def execute(self, episode: int, request: ProbeRequest) -> Evidence:
        """Carry out one request, or say why not. Only `BudgetExhausted`, `SetupError`, `TaskError` and `StoreError`
        leave it, after the units of the probe were given back."""
        while (ordinal := self._take(episode)) is not None:
            asked = self._asked(episode, ordinal, request)
            question = self._question(episode, ordinal, asked)
            recorded = self._find(episode, ordinal)
            if recorded is None:
                return self.book.record("probe", self._carried_out(request, asked, question))
            self.pool.asked_again(recorded)
            if _same(recorded, question):
                return recorded
        last = self._question(episode, ATTEMPTS * REQUESTS, request)
        return _refused(last, f"the count: one phase may ask for at most {REQUESTS} probes")

    def _take(self, episode: int) -> int | None:
        with self._lock:
            ordinal = self._next.setdefault(episode, 0)
            if ordinal >= self._end.setdefault(episode, REQUESTS):
                return None
            self._next[episode] = ordinal + 1
        return ordinal

    def _find(self, episode: int, ordinal: int) -> Evidence | None:
        return self.book.find("probe", f"{self.round.number}/{episode}/{ordinal}", Evidence)

    def _on_record(self, episode: int) -> Iterator[Evidence]:
        """Recorded probes of an episode; the ordinals of a phase have no gaps."""
        for first in range(0, ATTEMPTS * REQUESTS, REQUESTS):
            for ordinal in range(first, first + REQUESTS):
                recorded = self._find(episode, ordinal)
                if recorded is None:
                    break
                yield recorded

    def _asked(self, episode: int, ordinal: int, request: ProbeRequest) -> ProbeRequest:
        return scheduled(
            request,
            self.settings.schedule,
            kinds=self._kinds(),
            traces=self.round.traces,
            seed=self.settings.seed,
            place=self.round.place(episode, ordinal),
        )

    def _kinds(self) -> list[ProbeKind]:
        able = set(self.settings.kinds) & (set(ProbeKind) if self.replays is not None else DRAFTS)
        return [kind for kind in ProbeKind if kind in able]

    def _question(self, episode: int, ordinal: int, asked: ProbeRequest) -> Evidence:
        base = self._base(asked)
        return Evidence(
            round=self.round.number,
            episode=episode,
            ordinal=ordinal,
            kind=asked.kind,
            tasks=asked.tasks,
            step=asked.step,
            command=asked.command,
            base=base.digest if base else "",
            edits=edits_digest(asked.edits) if asked.edits else "",
        )

    def _base(self, asked: ProbeRequest) -> Candidate | None:
        if asked.base_round is None or self.settings.on == "head":
            return self.round.head
        return self.round.bases.get(asked.base_round)

    def _carried_out(self, request: ProbeRequest, asked: ProbeRequest, question: Evidence) -> Evidence:
        traces = self.round.traces
        fault = not_train(request, traces) or request_fault(asked, traces, kinds=self._kinds())
        fault = fault or self._draft_fault(asked)
        fault = fault or self.pool.reserve(question.episode, asked.units)
        if fault:
            return _refused(question, fault)
        with self._paid(question.episode, asked.units):
            found = self._run(asked, question)
        told = {name.name: getattr(found, name.name) for name in fields(found)}
        return question.model_copy(update=told | {"units": asked.units})

    def _draft_fault(self, asked: ProbeRequest) -> str:
        if asked.kind not in DRAFTS:
            return ""
        base = self._base(asked)
        if base is None:
            kept = ", ".join(str(number) for number in sorted(self.round.bases))
            return f"base_round {asked.base_round!r} is no kept round; there is {kept}"
        if not asked.edits:
            return "fix_probe takes edits, got none" if asked.kind is ProbeKind.FIX_PROBE else ""
        draft = apply_edits(base, asked.edits)
        if draft.digest == base.digest:
            return "the draft changes nothing in its base"
        fault = self.check(draft)
        return f"the draft does not apply: {fault}" if fault else ""

    @contextmanager
    def _paid(self, episode: int, units: int) -> Iterator[None]:
        """Units that were set aside stay spent where the probe came to its end."""
        done = False
        try:
            yield
            done = True
        finally:
            if not done:
                self.pool.refund(episode, units)

    def _run(self, asked: ProbeRequest, question: Evidence) -> Finding:
        place = self.round.place(question.episode, question.ordinal)
        experiments = Experiments(self.engine, self.replays, self.grade, place)
        targets = [self.round.traces[task] for task in asked.tasks]
        if asked.kind is ProbeKind.REPLAY:
            return experiments.replay(targets[0])
        if asked.kind is ProbeKind.ABLATE and asked.step is not None:
            return experiments.ablate(targets[0], asked.step)
        if asked.kind is ProbeKind.SUBSTITUTE and asked.step is not None and asked.command is not None:
            return experiments.substitute(targets[0], asked.step, asked.command)
        base = self._base(asked) or self.round.head
        draft = apply_edits(base, asked.edits) if asked.edits else base
        canary = self._canary(asked, place) if asked.edits else None
        if asked.kind is ProbeKind.FIX_PROBE:
            return experiments.fix_probe(draft, targets, canary)
        return experiments.run_episode(draft, targets[0], canary)

    def _canary(self, asked: ProbeRequest, place: tuple[int, int, int]) -> Trace | None:
        passing = [task for task, trace in self.round.traces.items() if trace.passed and task not in asked.tasks]
        drawn = canary_for(passing, seed=self.settings.seed, place=place)
        return None if drawn is None else self.round.traces[drawn]


def canary_for(passing: Iterable[str], *, seed: int, place: tuple[int, int, int]) -> str | None:
    """A task that passes now, in seeded rotation: successive probes of an episode take different ones.

    The paper's code takes the first in sorted order, so nearly always the same. None where nothing passes.
    """
    order = sorted(passing, key=lambda task: digest_of(["canary", seed, task]))
    if not order:
        return None
    round, episode, ordinal = place
    start = int(digest_of(["canaries", seed, round, episode])[:8], 16)
    return order[(start + ordinal) % len(order)]


def _refused(question: Evidence, reason: str) -> Evidence:
    return question.model_copy(update={"refused": reason, "detail": f"not run: {reason}"})


def _same(recorded: Evidence, question: Evidence) -> bool:
    """Whether a recorded probe answers this question."""
    names = ("kind", "tasks", "step", "command", "base", "edits")
    return all(getattr(recorded, name) == getattr(question, name) for name in names)
