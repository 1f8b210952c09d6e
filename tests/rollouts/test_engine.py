"""The engine: cache, pairing, budget, missing outcomes and graders."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from heldout.config import BudgetConfig, ExecutorConfig
from heldout.errors import BoundaryError, BudgetExhausted, HarnessError, ModelError, TaskError
from heldout.harness import Preparation
from heldout.ledger import Ledger
from heldout.models.base import Request
from heldout.records import Candidate, OutcomeStatus, SelectTask
from heldout.rollouts import Engine, Sweep, make_executor, paired_seed
from heldout.testing import FunctionModel, MemoryJournal, PlainHarness, keeps_failing

TASKS = tuple(SelectTask(id=f"t{i}", input=f"say {i}") for i in range(10))
TWENTY = tuple(SelectTask(id=f"t{i}", input=f"say {i}") for i in range(20))
CANDIDATE = Candidate(files={"instruction.md": "Repeat."})


def right(task: str, answer: str | None) -> float:
    return float(answer == f"say {task[1:]}")


def echo(request: Request) -> str:
    return request.messages[-1].content


def make_engine(answer: Callable[[Request], str] = echo, **settings: object) -> tuple[Engine, MemoryJournal]:
    journal = MemoryJournal()
    limits = settings.pop("budget", BudgetConfig())
    executor = settings.pop("executor", ExecutorConfig())
    model = FunctionModel(answer, latency_s=float(settings.pop("latency_s", 0.0)))
    engine = Engine(PlainHarness(), model, make_executor(executor), Ledger(limits), journal.append, **settings)
    return engine, journal


def outcomes(journal: MemoryJournal) -> list[str]:
    return [event.data["task"] for event in journal.read_from(0) if event.kind == "outcome"]


def test_every_task_has_an_outcome_in_the_order_of_the_tasks() -> None:
    engine, journal = make_engine(executor=ExecutorConfig(kind="threads", workers=4))
    found = engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert [outcome.task for outcome in found] == [task.id for task in TASKS]
    assert all(outcome.score == 1.0 for outcome in found)
    assert sorted(outcomes(journal)) == sorted(task.id for task in TASKS)


def test_an_identical_evaluation_is_never_paid_twice() -> None:
    engine, journal = make_engine()
    first = engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right) == first
    assert len(outcomes(journal)) == 10
    assert engine.ledger.total.evaluations == 10


def test_repeats_are_independent_evaluations_with_their_own_seeds() -> None:
    engine, journal = make_engine()
    first = engine.evaluate(Sweep(CANDIDATE, TASKS, "select", repeat=0), grade=right)
    second = engine.evaluate(Sweep(CANDIDATE, TASKS, "select", repeat=1), grade=right)
    assert len(outcomes(journal)) == 20
    assert all(a.seed != b.seed and a.key != b.key for a, b in zip(first, second, strict=True))


def test_candidates_are_paired_by_seed() -> None:
    engine, _ = make_engine()
    other = Candidate(files={"instruction.md": "Say it."})
    first = engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    second = engine.evaluate(Sweep(other, TASKS, "select"), grade=right)
    assert [outcome.seed for outcome in first] == [outcome.seed for outcome in second]
    assert first[0].seed == paired_seed(0, "t0", 0)


def test_a_changed_task_text_is_another_evaluation() -> None:
    engine, journal = make_engine()
    engine.evaluate(Sweep(CANDIDATE, TASKS[:1], "select"), grade=right)
    engine.evaluate(Sweep(CANDIDATE, (SelectTask(id="t0", input="say 0!"),), "select"), grade=right)
    assert len(outcomes(journal)) == 2


def test_a_model_that_does_not_answer_is_not_measured_and_never_zero() -> None:
    engine, _ = make_engine(keeps_failing)
    found = engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert {outcome.status for outcome in found} == {OutcomeStatus.NOT_MEASURED}
    assert {outcome.score for outcome in found} == {None}
    assert "no answer to 'say 0'" in str(found[0].error)
    assert engine.ledger.total.evaluations == 10


def test_a_harness_that_raises_is_a_failure_of_the_candidate() -> None:
    def broken(request: Request) -> str:
        raise HarnessError(f"the hook raised on {request.messages[-1].content}")

    engine, _ = make_engine(broken)
    (found,) = engine.evaluate(Sweep(CANDIDATE, TASKS[:1], "select"), grade=right)
    assert (found.status, found.score, found.error) == (OutcomeStatus.FAILED, 0.0, "the hook raised on say 0")


def test_a_programming_error_is_a_crash() -> None:
    def bug(request: Request) -> str:
        return request.messages[99].content

    engine, _ = make_engine(bug)
    with pytest.raises(IndexError):
        engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)


def test_a_budget_stops_before_it_is_passed_and_keeps_what_was_paid() -> None:
    threads = ExecutorConfig(kind="threads", workers=4)
    engine, journal = make_engine(budget=BudgetConfig(evaluations=7), executor=threads)
    with pytest.raises(BudgetExhausted):
        engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert len(outcomes(journal)) == 7
    assert engine.ledger.total.evaluations == 7
    known = engine.known(Sweep(CANDIDATE, TASKS, "select"))
    assert [outcome is None for outcome in known].count(True) == 3


def test_a_grader_that_raises_stops_the_run_and_loses_nothing() -> None:
    def picky(task: str, answer: str | None) -> float:
        if task == "t5":
            raise TaskError("grader 'picky' raised on task 't5'")
        return right(task, answer)

    engine, journal = make_engine()
    with pytest.raises(TaskError, match="'t5'"):
        engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=picky)
    assert outcomes(journal) == ["t0", "t1", "t2", "t3", "t4", "t5"]
    assert engine.ledger.total.evaluations == 6, "what was paid is counted, graded or not"
    last = [event.data for event in journal.read_from(0) if event.kind == "outcome"][-1]
    assert (last["status"], last.get("score"), last["error"]) == (
        "not_measured",
        None,
        "grader 'picky' raised on task 't5'",
    )


def test_graders_run_in_the_engines_thread() -> None:
    import threading

    seen = set()

    def grade(task: str, answer: str | None) -> float:
        seen.add(threading.get_ident())
        return right(task, answer)

    engine, _ = make_engine(executor=ExecutorConfig(kind="threads", workers=4))
    engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=grade)
    assert seen == {threading.get_ident()}


def test_a_preparation_is_paid_once() -> None:
    engine, journal = make_engine()
    engine.prepare(CANDIDATE, purpose="select")
    engine.prepare(CANDIDATE, purpose="audit")
    assert [event.kind for event in journal.read_from(0)] == ["prepared"]


def test_threads_overlap_their_waits() -> None:
    engine, _ = make_engine(latency_s=0.2, executor=ExecutorConfig(kind="threads", workers=10))
    begun = time.perf_counter()
    engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert time.perf_counter() - begun < 10 * 0.2 / 2


class Unprepared(PlainHarness):
    """A harness whose preparation raises what it is told to."""

    fault: BoundaryError

    def prepare(self, candidate: Candidate, model: object) -> Preparation:  # noqa: ARG002 - it never gets so far
        raise self.fault


@pytest.mark.parametrize(
    ("fault", "status", "score"),
    [
        (ModelError("no calibration", calls=5), OutcomeStatus.NOT_MEASURED, None),
        (HarnessError("the folder has no tool"), OutcomeStatus.FAILED, 0.0),
    ],
)
def test_what_cannot_be_prepared_is_not_run_and_every_task_says_why(
    fault: BoundaryError, status: OutcomeStatus, score: float | None
) -> None:
    engine, _ = make_engine()
    harness = Unprepared()
    object.__setattr__(harness, "fault", fault)
    engine.harness = harness
    found = engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert {(one.status, one.score, one.error) for one in found} == {(status, score, str(fault))}
    assert engine.ledger.total.evaluations == 0
    assert engine.ledger.total.calls == getattr(fault, "calls", 0)


def test_a_call_is_reserved_with_its_retries_and_a_preparation_before_it_is_paid() -> None:
    engine, journal = make_engine(budget=BudgetConfig(calls=11), attempts=3)
    with pytest.raises(BudgetExhausted, match=r"budget.calls = 11 leaves no room"):
        engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert list(journal.read_from(0)) == []  # four runs of three attempts do not fit
    engine, journal = make_engine(budget=BudgetConfig(calls=12), attempts=3)
    with pytest.raises(BudgetExhausted):
        engine.evaluate(Sweep(CANDIDATE, TWENTY, "select"), grade=right)
    assert len(outcomes(journal)) == 10  # paid one at a time, and the eleventh might take three


def test_the_requests_behind_a_missing_outcome_are_counted() -> None:
    def down(request: Request) -> str:
        raise ModelError(f"no answer to {request.messages[-1].content}", calls=5)

    engine, _ = make_engine(down)
    engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert engine.ledger.total.calls == 50
