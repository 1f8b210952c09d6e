"""The rollout engine: what was recorded is reused, the rest is reserved, run, graded and journaled."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import Any

from heldout.errors import BoundaryError, BudgetExhausted, HarnessError, ModelError, SetupError, TaskError
from heldout.harness.base import BatchHarness, Episode, Harness, Preparation
from heldout.ledger import Ledger, Reservation, lost_with
from heldout.models.base import Model
from heldout.records import Candidate, Outcome, OutcomeStatus, Record, Spend, Task, Trajectory, digest_of
from heldout.rollouts.executors import Executor
from heldout.rollouts.progress import Progress, QuietProgress
from heldout.store.events import Prepared

__all__ = ["Engine", "Grade", "Sweep", "outcome_key", "paired_seed", "run_batch", "run_job"]

Grade = Callable[[str, str | None], float]
"""(task id, answer) -> score in [0, 1]; runs in the engine's process, where no candidate can write."""

ANSWER_CHARACTERS = 200

PREPARATION_RUNS = 4
"""A harness's preparation of a candidate costs at most what this many runs on an empty task may cost."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One candidate on a list of tasks, for one purpose. Repeats of a sweep differ in `repeat` and so in seeds."""

    candidate: Candidate
    tasks: Sequence[Task]
    purpose: str
    repeat: int = 0
    traced: bool = False
    """Keep the whole trajectories: for train tasks, whose episodes an improver may read."""


@dataclass(frozen=True, slots=True)
class _Job:
    key: str
    task: Task
    seed: int
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class _Told:
    """What an episode said of itself."""

    answer: str | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """Digests."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """A trajectory and the seconds that it took."""

    trajectory: Trajectory
    wall_s: float
    cpu_s: float


@dataclass(slots=True)
class Engine:
    """Evaluates candidates; several threads may call `evaluate` at once, with different sweeps.

    `recorded` and `prepared` hold what an earlier part of the run has paid for, by key.
    """

    harness: Harness
    model: Model
    executor: Executor
    ledger: Ledger
    append: Callable[[str, Record], object]
    """Appends one event to the journal."""
    seed: int = 0
    attempts: int = 1
    """Requests that one call of the model may become when it is retried."""
    recorded: dict[str, Outcome] = field(default_factory=dict)
    prepared: dict[str, Preparation] = field(default_factory=dict)
    progress: Progress = field(default_factory=QuietProgress)
    keep_trace: Callable[[str, Trajectory], object] = lambda _key, _trajectory: None
    """Keeps the trajectory of an outcome key, before the outcome is journaled."""
    keep_artifact: Callable[[str, str], str] = lambda name, text: digest_of({name: text})
    """Keeps a text that was made for one episode, as (name, text), and returns its digest. Nothing reads it back."""
    _preparing: threading.Lock = field(default_factory=threading.Lock)

    def evaluate(self, sweep: Sweep, *, grade: Grade) -> tuple[Outcome, ...]:
        """One outcome per task, in the order of the tasks; what is recorded costs nothing.

        Raises `BudgetExhausted` after everything in flight was recorded; no task is dropped silently.
        """
        keys = list(self._keys(sweep))
        waiting = [(key, task) for key, task in zip(keys, sweep.tasks, strict=True) if key not in self.recorded]
        self.progress.skipped(len(keys) - len(waiting))
        if waiting:
            self._prepare_and_run(waiting, sweep, grade=grade)
        return tuple(self.recorded[key] for key in keys)

    def known(self, sweep: Sweep) -> tuple[Outcome | None, ...]:
        """What is on record of a sweep, without paying for the rest."""
        return tuple(self.recorded.get(key) for key in self._keys(sweep))

    def keys(self, sweep: Sweep) -> tuple[str, ...]:
        """The outcome keys of a sweep, under which its traces are kept."""
        return tuple(self._keys(sweep))

    def forget_missing(self, sweep: Sweep, *, but: Container[str] = ()) -> int:
        """Have what was not measured of a sweep measured again, `but` for these keys; the number of tasks."""
        missing = [key for key in self._keys(sweep) if key in self.recorded and self.recorded[key].score is None]
        missing = [key for key in missing if key not in but]
        for key in missing:
            del self.recorded[key]
        return len(missing)

    def prepare(self, candidate: Candidate, *, purpose: str) -> Preparation:
        """The harness's one-off measurement of a candidate, where it makes one; paid once in a run."""
        if not self.harness.prepares:
            return Preparation()
        with self._preparing:
            return self._prepared(candidate, purpose=purpose)

    def _prepared(self, candidate: Candidate, *, purpose: str) -> Preparation:
        key = outcome_key((candidate.digest, self.harness.fingerprint, self.model.fingerprint), "prepare")
        if key not in self.prepared:
            reservation = self.ledger.reserve(purpose, self._preparation_bound(candidate))
            begun, cpu = time.perf_counter(), time.thread_time()
            try:
                found = self.harness.prepare(candidate, self.model)
            except BoundaryError:
                reservation.refund()
                raise
            used = Spend(wall_s=time.perf_counter() - begun, cpu_s=time.thread_time() - cpu)
            spend = self.ledger.price(self.model.name, found.spend + used)
            reservation.settle(spend)
            self.append("prepared", Prepared(key=key, purpose=purpose, values=found.values, spend=spend))
            self.prepared[key] = found
        return self.prepared[key]

    def _preparation_bound(self, candidate: Candidate) -> Spend:
        one = self.harness.bound(candidate, Task(id="", input=""), self.model)
        return self.ledger.price(
            self.model.name,
            Spend(
                calls=PREPARATION_RUNS * one.calls * self.attempts,
                tokens_in=PREPARATION_RUNS * one.tokens_in,
                tokens_out=PREPARATION_RUNS * one.tokens_out,
            ),
        )

    def _prepare_and_run(self, waiting: Sequence[tuple[str, Task]], sweep: Sweep, *, grade: Grade) -> None:
        """Where the preparation fails every task has that as its outcome: no run is worth trying without it."""
        try:
            prepared = self.prepare(sweep.candidate, purpose=sweep.purpose)
        except BoundaryError as fault:
            spend = self._lost(fault)
            for key, task in waiting:
                self._not_run(key, task, sweep, fault=fault, spend=spend)
                spend = Spend()
        else:
            self._run(iter(waiting), sweep, prepared, grade=grade)

    def _not_run(self, key: str, task: Task, sweep: Sweep, *, fault: BoundaryError, spend: Spend) -> None:
        score = 0.0 if isinstance(fault, HarnessError) else None
        seed = paired_seed(self.seed, task.id, sweep.repeat)
        reservation = self.ledger.reserve(sweep.purpose, Spend())
        self._keep(_Job(key, task, seed, reservation), sweep, score=score, error=str(fault), spend=spend)

    def _keys(self, sweep: Sweep) -> Iterator[str]:
        prefix = (sweep.purpose, sweep.candidate.digest, self.harness.fingerprint, self.model.fingerprint)
        for task in sweep.tasks:
            seed = paired_seed(self.seed, task.id, sweep.repeat)
            yield outcome_key(prefix, task.id, task.input, str(seed), str(sweep.repeat))

    def _run(self, waiting: Iterator[tuple[str, Task]], sweep: Sweep, prepared: Preparation, *, grade: Grade) -> None:
        finished: SimpleQueue[tuple[Sequence[_Job], Future[Any]]] = SimpleQueue()
        in_flight = 0
        stop: Exception | None = None
        while True:
            while stop is None and in_flight < self.executor.workers:
                jobs, stop = self._reserve(waiting, sweep)
                if not jobs:
                    break
                self._submit(jobs, sweep, prepared, finished)
                in_flight += 1
            if in_flight == 0:
                break
            done, future = finished.get()
            in_flight -= 1
            for job, result in zip(done, _results(future, len(done)), strict=True):
                try:
                    self._record(job, result, sweep, grade=grade)
                except (SetupError, TaskError) as fault:
                    stop = stop or fault
        if stop is not None:
            raise stop

    def _reserve(self, waiting: Iterator[tuple[str, Task]], sweep: Sweep) -> tuple[list[_Job], BudgetExhausted | None]:
        """The next tasks, as many as the harness takes at once, or what the budget has room for of them."""
        jobs: list[_Job] = []
        for key, task in islice(waiting, self._batch):
            bound = self.harness.bound(sweep.candidate, task, self.model)
            bound = bound.model_copy(update={"evaluations": 1, "calls": bound.calls * self.attempts})
            bound = self.ledger.price(self.model.name, bound)
            try:
                reservation = self.ledger.reserve(sweep.purpose, bound)
            except BudgetExhausted as exhausted:
                return jobs, exhausted
            jobs.append(_Job(key, task, paired_seed(self.seed, task.id, sweep.repeat), reservation))
        return jobs, None

    @property
    def _batch(self) -> int:
        """Tasks in one job: a model that is asked over a network gets them one by one, from several workers."""
        return int(getattr(self.harness, "batch", 1)) if getattr(self.model, "serves_weights", False) else 1

    def _submit(
        self,
        jobs: Sequence[_Job],
        sweep: Sweep,
        prepared: Preparation,
        finished: SimpleQueue[tuple[Sequence[_Job], Future[Any]]],
    ) -> None:
        episodes = [Episode(self.model, job.seed, prepared) for job in jobs]
        future: Future[Any]
        if self._batch == 1:
            future = self.executor.submit(run_job, self.harness, sweep.candidate, jobs[0].task, episodes[0])
        else:
            tasks = [job.task for job in jobs]
            future = self.executor.submit(run_batch, self.harness, sweep.candidate, tasks, episodes)
        future.add_done_callback(lambda done: finished.put((jobs, done)))

    def _record(self, job: _Job, result: JobResult | Exception, sweep: Sweep, *, grade: Grade) -> None:
        score, fault, spend = None, None, Spend(evaluations=1)
        told = _Told()
        try:
            if isinstance(result, Exception):
                raise result
            told, spend = self._told(result.trajectory), self._spend(result)
            if sweep.traced:
                self.keep_trace(job.key, result.trajectory)
            score = grade(job.task.id, told.answer)
        except SetupError:
            job.reservation.refund()
            raise
        except TaskError as error:
            # Paid for and not graded: kept as missing, and measured again once the grader is mended.
            self._keep(job, sweep, score=None, error=str(error), spend=spend, told=told)
            raise
        except HarnessError as error:
            # The candidate's own doing (it raised, or ran past its time): failed, so that hanging never pays.
            score, fault, spend = 0.0, str(error), spend + self._lost(error)
        except BoundaryError as error:
            # Of the run, or of a grader's sandbox after it: what the run cost stays counted.
            fault, spend = str(error), spend + self._lost(error)
        self._keep(job, sweep, score=score, error=fault, spend=spend, told=told)

    def _keep(
        self,
        job: _Job,
        sweep: Sweep,
        *,
        score: float | None,
        error: str | None,
        spend: Spend,
        told: _Told | None = None,
    ) -> None:
        """Journal an outcome, then count it."""
        told = told or _Told()
        outcome = Outcome.model_construct(
            key=job.key,
            purpose=sweep.purpose,
            candidate=sweep.candidate.digest,
            task=job.task.id,
            repeat=sweep.repeat,
            seed=job.seed,
            score=score,
            status=_status(score),
            answer=None if told.answer is None else told.answer[:ANSWER_CHARACTERS],
            error=error,
            measures=told.measures,
            artifacts=told.artifacts,
            spend=spend,
        )
        self.append("outcome", outcome)
        job.reservation.settle(spend)
        self.recorded[job.key] = outcome
        self.progress.advance(cost_usd=spend.cost_usd)

    def _told(self, trajectory: Trajectory) -> _Told:
        artifacts = {name: self.keep_artifact(name, text) for name, text in trajectory.artifacts.items()}
        return _Told(trajectory.answer, trajectory.measures, artifacts)

    def _lost(self, error: BoundaryError) -> Spend:
        return self.ledger.price(self.model.name, lost_with(error))

    def _spend(self, result: JobResult) -> Spend:
        used = result.trajectory.spend
        spend = Spend.model_construct(
            evaluations=1,
            calls=used.calls,
            tokens_in=used.tokens_in,
            tokens_out=used.tokens_out,
            cost_usd=used.cost_usd,
            wall_s=round(result.wall_s, 6),
            cpu_s=round(result.cpu_s + used.cpu_s, 6),
            gpu_s=round(result.wall_s * getattr(self.model, "accelerators", 0), 6),
        )
        return self.ledger.price(self.model.name, spend)


def run_job(harness: Harness, candidate: Candidate, task: Task, episode: Episode) -> JobResult:
    """Run one episode and time it; this is what an executor executes."""
    begun, cpu = time.perf_counter(), time.thread_time()
    trajectory = harness.run(candidate, task, episode)
    return JobResult(trajectory, time.perf_counter() - begun, time.thread_time() - cpu)


def run_batch(
    harness: BatchHarness, candidate: Candidate, tasks: Sequence[Task], episodes: Sequence[Episode]
) -> list[JobResult | BoundaryError]:
    """Run several episodes at once; each took an equal share of the time.

    Where the batch ends in a fault (one prompt is too long for the model), every episode is run alone, to its own end.
    """
    begun, cpu = time.perf_counter(), time.thread_time()
    try:
        trajectories = harness.run_batch(candidate, tasks, episodes)
    except (ModelError, HarnessError):
        if len(tasks) == 1:
            raise
        return [_alone(harness, candidate, task, episode) for task, episode in zip(tasks, episodes, strict=True)]
    wall_s, cpu_s = (time.perf_counter() - begun) / len(tasks), (time.thread_time() - cpu) / len(tasks)
    return [JobResult(trajectory, wall_s, cpu_s) for trajectory in trajectories]


def _alone(harness: Harness, candidate: Candidate, task: Task, episode: Episode) -> JobResult | BoundaryError:
    try:
        return run_job(harness, candidate, task, episode)
    except BoundaryError as fault:
        return fault


def _results(future: Future[Any], count: int) -> list[JobResult | Exception]:
    """Of each job of a future. A fault is everybody's, and what it had paid is counted once."""
    fault = future.exception()
    if fault is None:
        found = future.result()
        return [found] if isinstance(found, JobResult) else list(found)
    if not isinstance(fault, Exception):
        raise fault
    if isinstance(fault, HarnessError) and count > 1:
        # The limit is one episode's: who of a batch passed it, if any did, is not known.
        fault = ModelError(f"{fault}, with {count} tasks in one batch (solver.options.batch)")
    further = [type(fault)(str(fault)) if isinstance(fault, BoundaryError) else fault for _ in range(count - 1)]
    return [fault, *further]


def outcome_key(prefix: Iterable[str], *rest: str) -> str:
    """Cache key of an evaluation: blake2b of its parts, each ended by a zero byte."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (*prefix, *rest):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def paired_seed(run_seed: int, task: str, repeat: int) -> int:
    """The sampling seed of a task's repeat; every candidate gets the same one, so that tables are paired."""
    text = f"{run_seed}\0{task}\0{repeat}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") & 0x7FFFFFFF


def _status(score: float | None) -> OutcomeStatus:
    if score is None:
        return OutcomeStatus.NOT_MEASURED
    return OutcomeStatus.PASSED if score >= 0.5 else OutcomeStatus.FAILED
