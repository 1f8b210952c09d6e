"""The state of one run and the durable steps that every loop is made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heldout.config import RunConfig
from heldout.errors import GateError, ModelError, boundary
from heldout.gates import Gate, GenerationTable, weigh_missing
from heldout.harness import Replayer
from heldout.improvers import Attempt, Improver
from heldout.improvers.agent import AgentImprover
from heldout.improvers.skill_roles import SkillImprover
from heldout.improvers.training_roles import TrainingImprover
from heldout.ledger import Ledger
from heldout.loops.recorder import Recorder
from heldout.records import Candidate, Decision, Outcome, Spend, Task
from heldout.rollouts import Engine, Sweep
from heldout.stats import paired_difference
from heldout.store import MemoryTraces, Traces
from heldout.store.events import CandidateAdded, NoiseMeasured, TrackMoved
from heldout.store.weights import WeightsStore
from heldout.tasks import TaskSet

__all__ = [
    "CandidateStore",
    "Scored",
    "Session",
    "TrainingGround",
    "gain_over",
    "mean_score",
    "score_column",
    "unscored",
]


@dataclass(frozen=True, slots=True)
class CandidateStore:
    """Where candidate folders are kept: two functions of the run's folder."""

    save: Callable[[Candidate], object]
    load: Callable[[str], Candidate]


@dataclass(frozen=True, slots=True)
class TrainingGround:
    """Where a run trains: the weights that it keeps, and a folder for work in progress."""

    store: WeightsStore
    work: Path
    trainer: str
    """Name of the trainer that fits the solver's model."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A candidate with its select scores, shape (n, repeats), NaN where not measured."""

    candidate: Candidate
    scores: NDArray[np.float64]

    @property
    def mean(self) -> float | None:
        """Mean over measured tasks, or None."""
        return mean_score(self.scores)


@dataclass(slots=True)
class Session:
    """Everything a loop works with. It holds no body of a sealed task, and no improver can reach it."""

    config: RunConfig
    tasks: TaskSet
    recorder: Recorder
    ledger: Ledger
    engine: Engine
    improver: Improver | None
    """What proposes whole candidates; None where the improver is an agent."""
    improver_model: str
    """Name that the ledger prices proposals by."""
    gate: Gate
    store: CandidateStore
    check: Callable[[Candidate], str | None]
    """Says what makes a candidate invalid for the harness, or None."""
    agent: AgentImprover | None = None
    """What edits folders, where the improver is an agent."""
    skills: SkillImprover | None = None
    """What edits skills and guides, where the improver does that."""
    trainer: TrainingImprover | None = None
    """What says on what weights are trained, where the improver does that."""
    ground: TrainingGround | None = None
    """Where weights are trained, of a model that serves weights."""
    traces: Traces = field(default_factory=lambda: MemoryTraces({}))
    """Whole episodes of train tasks."""
    sleep: Callable[[float], object] = time.sleep
    """Waits between attempts after an infrastructure failure."""
    clock: Callable[[], float] = time.monotonic
    """Seconds, for the limits of phases."""
    replayer: Replayer | None = None
    """The harness, where it can replay commands."""
    heads: dict[str, Scored] = field(default_factory=dict)
    """The current head of each track; what a run that stops early returns."""
    start: Scored | None = None
    """The start, once it was scored on select."""
    history: list[Attempt] = field(default_factory=list)

    @property
    def asks_model(self) -> bool:
        """Whether proposals cost model calls."""
        return any(one is not None and one.uses_model for one in (self.improver, self.agent, self.skills, self.trainer))

    def add_candidate(self, candidate: Candidate, added: CandidateAdded) -> None:
        """Put a candidate's folder, then its place in the lineage, on record."""
        self.store.save(candidate)
        if not self.known(added.digest):
            self.recorder.record("candidate", added)

    def known(self, digest: str) -> bool:
        """Whether a candidate of this content is already in the lineage."""
        return self.recorder.find("candidate", digest, CandidateAdded) is not None

    def note_of(self, candidate: Candidate) -> str:
        """What its improver said of a candidate in the lineage."""
        added = self.recorder.find("candidate", candidate.digest, CandidateAdded)
        return "" if added is None else added.note

    def candidates(self) -> list[str]:
        """Digests of every candidate in the lineage, in the order in which they came."""
        return [key for kind, key in self.recorder.steps if kind == "candidate"]

    def move(self, head: Scored, moved: TrackMoved) -> None:
        """Move a track's head, and keep room for the audit of the new one."""
        self.recorder.record("track.moved", moved)
        self.heads[moved.track] = head

    def measure(
        self, candidate: Candidate, tasks: Sequence[Task], *, purpose: str, first_repeat: int = 0, repeats: int = 1
    ) -> NDArray[np.float64]:
        """Scores of shape (tasks, repeats) on train or select tasks."""
        columns = [
            score_column(self.engine.evaluate(Sweep(candidate, tasks, purpose, repeat), grade=self.tasks.grade))
            for repeat in range(first_repeat, first_repeat + repeats)
        ]
        return np.stack(columns, axis=1)

    def decide(self, table: GenerationTable) -> Decision:
        """The gate's decision, undecided where it rests on missing scores.

        `GateError` names a gate that raises or answers with something else.
        """
        name = f"the gate {self.config.gate.kind!r}"
        with boundary(GateError, f"{name} raised"):
            decision = self.gate.decide(table)
        if not isinstance(decision, Decision):
            raise GateError(f"{name} returned {decision!r}, not a heldout.records.Decision")
        count = len(table.candidates)
        if decision.winner is not None and not 0 <= decision.winner < count:
            raise GateError(f"{name} named candidate {decision.winner} the winner; there are {count}, from 0")
        with boundary(GateError, f"{name} raised"):
            return weigh_missing(self.gate, table, decision)

    def score_on_select(self, candidate: Candidate, *, first_repeat: int = 0) -> Scored:
        """The candidate on the whole select role, as many repeats as the gate asks for."""
        scores = self.measure(
            candidate, self.tasks.select, purpose="select", first_repeat=first_repeat, repeats=self.gate.repeats
        )
        return Scored(candidate, scores)

    def score_start(self, start: Candidate, *, track: str) -> Scored:
        """The start on select, which becomes the track's head.

        A model that answers nothing at all raises `ModelError` before more is spent.
        """
        self.add_candidate(start, CandidateAdded(digest=start.digest, parent=None, track=track, generation=0, index=0))
        scored = self.score_on_select(start)
        if scored.mean is None:
            first = next(outcome.error for outcome in self.engine.recorded.values() if outcome.error)
            raise ModelError(f"not one select task could be measured under the start: {first}")
        self.heads[track] = self.start = scored
        passed = self.recorder.find("noise.measured", "", NoiseMeasured) is not None
        own = partial(_is_start_sweep, repeats=self.gate.repeats)
        self.hold_audit(start, start, passed=passed, counted=own)
        return scored

    def hold_audit(
        self,
        start: Candidate,
        final: Candidate,
        *,
        passed: bool = False,
        counted: Callable[[Outcome], bool] = lambda _: True,
    ) -> None:
        """Keep room in the budget for the audit of `start` against `final`, at their measured cost so far.

        The last jobs reserve their upper bounds, so the hold has one of those for each worker; its `wall_s` is
        elapsed time. Raises `BudgetExhausted` where the audit is no longer affordable; not where the run has `passed`
        this point before it was resumed, since what it spent later is counted by now. `counted` says which outcomes
        were there at this point: a resumed run holds what it held before.
        """
        n = self.config.tasks.audit * self.config.audit.repeats
        engine = self.engine
        known = [outcome for outcome in list(engine.recorded.values()) if counted(outcome)]
        one_each = _mean_spend(known, start.digest) + _mean_spend(known, final.digest)
        longest = max(self.tasks.select, key=lambda task: len(task.input))
        workers = engine.executor.workers
        bound = engine.harness.bound(final, longest, engine.model)
        retries = bound.calls * (engine.attempts - 1)
        slack = _scaled(bound.model_copy(update={"evaluations": 0, "calls": retries}), workers)
        need = _scaled(one_each, n) + slack
        elapsed = need.model_copy(update={"wall_s": need.wall_s / workers})
        self.ledger.hold("audit", self.ledger.price(engine.model.name, elapsed), enforce=not passed)


def gain_over(start: Scored, head: Scored) -> float | None:
    """Mean paired difference head − start over the tasks that both were measured on; None where there is none."""
    if start.scores.shape[0] != head.scores.shape[0]:
        return None
    return paired_difference(start.scores, head.scores).mean


def unscored(candidate: Candidate) -> Scored:
    """A candidate of which nothing is measured."""
    return Scored(candidate, np.full((1, 1), np.nan))


def score_column(outcomes: Iterable[Outcome]) -> NDArray[np.float64]:
    """Scores in order, shape (n,), NaN where not measured."""
    return np.array([np.nan if outcome.score is None else outcome.score for outcome in outcomes], dtype=np.float64)


def mean_score(scores: NDArray[np.float64]) -> float | None:
    """Mean over tasks of the mean over measured repeats, of shape (n, repeats); None where nothing was measured."""
    measured = ~np.isnan(scores)
    counts = measured.sum(axis=1)
    if not counts.any():
        return None
    sums = np.where(measured, scores, 0.0).sum(axis=1)
    return float((sums[counts > 0] / counts[counts > 0]).mean())


def _is_start_sweep(outcome: Outcome, *, repeats: int) -> bool:
    return outcome.purpose == "select" and outcome.repeat < repeats


def _mean_spend(outcomes: Iterable[Outcome], digest: str) -> Spend:
    """Of the evaluations that were measured: what failed may have cost less, and may succeed next time."""
    spends = [outcome.spend for outcome in outcomes if outcome.candidate == digest and outcome.score is not None]
    return _scaled(sum(spends, start=Spend()), 1.0 / len(spends)) if spends else Spend()


def _scaled(spend: Spend, factor: float) -> Spend:
    """Every field times `factor`; fractions of a token are kept, since a mean is scaled up again."""
    return Spend.model_construct(None, **{name: value * factor for name, value in spend})
