"""Improver episodes and the threads that serve their experiments, with nothing but queues between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeVar

from heldout.errors import BudgetExhausted, HeldoutError, ImproverError
from heldout.probes.base import Laboratory
from heldout.probes.kit import ProbeKit
from heldout.probes.requests import ProbeRequest
from heldout.records import Edit, Evidence, ProbeKind
from heldout.rollouts.executors import ThreadExecutor

__all__ = ["QueueLaboratory", "run_episodes", "serve"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _UnitsLeft:
    """The question of how many units are left."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """The episode is over and asks no more."""


@dataclass(frozen=True, slots=True)
class _Stopped:
    """The experiment could not be run, and the run stops. Text only: an error's traceback would lead to the kit."""

    reason: str
    kind: type[HeldoutError] = ImproverError


_Question = ProbeRequest | _UnitsLeft | _Ended
_Answer = Evidence | int | _Stopped


class QueueLaboratory:
    """An episode's `Laboratory`. It holds two queues: no engine, grader, task or model is reachable from it.

    Once its episode is over every call raises `ImproverError`; a call never waits for a server that is gone.
    """

    def __init__(
        self, available: frozenset[ProbeKind], questions: SimpleQueue[_Question], answers: SimpleQueue[_Answer]
    ) -> None:
        self.available = available
        self.waited_s = 0.0
        self._questions = questions
        self._answers = answers

    def probe(
        self,
        kind: ProbeKind,
        tasks: Sequence[str],
        *,
        step: int | None = None,
        command: str | None = None,
        edits: Iterable[Edit] = (),
        base_round: int | None = None,
    ) -> Evidence:
        request = ProbeRequest(
            kind=kind, tasks=tuple(tasks), step=step, command=command, edits=tuple(edits), base_round=base_round
        )
        answer = self._ask(request)
        if not isinstance(answer, Evidence):
            raise ImproverError(f"a laboratory serves one thread; another one took the answer to {kind} {tasks!r}")
        return answer

    def units_left(self) -> int:
        answer = self._ask(_UnitsLeft())
        if not isinstance(answer, int):
            raise ImproverError("a laboratory serves one thread; another one took the number of units left")
        return answer

    def _ask(self, question: _Question) -> Evidence | int:
        begun = time.perf_counter()
        self._questions.put(question)
        answer = self._answers.get()
        self.waited_s += time.perf_counter() - begun
        if isinstance(answer, _Stopped):
            self._answers.put(answer)  # and so for every later call
            raise answer.kind(answer.reason)
        return answer


def run_episodes(
    jobs: Sequence[Callable[[Laboratory], T]],
    kit: ProbeKit,
    *,
    workers: int,
    episodes: Sequence[int] | None = None,
    attempt: int = 0,
) -> list[T | BaseException]:
    """Run improver episodes, each in its own thread with its own laboratory, at most `workers` at a time.

    An episode's answer is what its job returned, or the exception that it raised; where an experiment stopped the run
    (`BudgetExhausted`, a grader that raised) that error, whatever the job made of it. `episodes` are the episodes'
    numbers, by default from 0 (−1 is the meta-episode), and `attempt` is 0 or the number of the repair. With one
    worker the episodes run one after another and everything is executed by the calling thread, so that the same jobs
    give the same evidence in the same order.
    """
    numbers = range(len(jobs)) if episodes is None else episodes
    pairs = list(zip(numbers, jobs, strict=True))
    if workers <= 1:
        return _in_turn(pairs, kit, attempt=attempt)
    executor = ThreadExecutor(min(workers, max(len(jobs), 1)))
    try:
        futures = [executor.submit(_served, job, kit, number, attempt) for number, job in pairs]
        for future in futures:
            future.exception()  # everything in flight is on record before an error leaves
        return [future.result() for future in futures]
    finally:
        executor.close()


def serve(job: Callable[[Laboratory], T], kit: ProbeKit, *, episode: int, attempt: int = 0) -> T | BaseException:
    """Run one episode in a thread of its own, and execute its requests in this one until it ends.

    A programming error of the kit is a crash here, after the episode was told that it is over.
    """
    questions: SimpleQueue[_Question] = SimpleQueue()
    answers: SimpleQueue[_Answer] = SimpleQueue()
    kit.begin(episode, attempt=attempt)
    thread = ThreadExecutor(1)
    stop: HeldoutError | None = None
    try:
        future: Future[T] = thread.submit(job, QueueLaboratory(kit.available, questions, answers))
        future.add_done_callback(lambda _: questions.put(_Ended()))
        while not isinstance(question := questions.get(), _Ended):
            if stop is not None:
                continue  # the reason stays in the queue of answers, where every further call finds it
            try:
                answers.put(
                    kit.units_left(episode) if isinstance(question, _UnitsLeft) else kit.execute(episode, question)
                )
            except HeldoutError as error:
                stop = error
                answers.put(_Stopped(str(error), type(error)))
    finally:
        answers.put(_Stopped("the episode is over, and so are its experiments"))
        thread.close()
    if stop is not None:
        return stop
    raised = future.exception()
    return future.result() if raised is None else raised


def _in_turn(
    pairs: Iterable[tuple[int, Callable[[Laboratory], T]]], kit: ProbeKit, *, attempt: int
) -> list[T | BaseException]:
    """One after another; where the budget is used up no further episode is begun."""
    found: list[T | BaseException] = []
    for number, job in pairs:
        spent = bool(found) and isinstance(found[-1], BudgetExhausted)
        found.append(found[-1] if spent else serve(job, kit, episode=number, attempt=attempt))
    return found


def _served(job: Callable[[Laboratory], T], kit: ProbeKit, episode: int, attempt: int) -> T | BaseException:
    return serve(job, kit, episode=episode, attempt=attempt)
