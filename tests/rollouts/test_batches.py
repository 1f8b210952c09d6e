"""Harnesses that solve several tasks at once: outcomes, budgets, faults and seeds are those of one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from heldout.config import BudgetConfig, ExecutorConfig
from heldout.errors import BudgetExhausted, ModelError
from heldout.harness import CompletionHarness
from heldout.ledger import Ledger
from heldout.models.base import Reply, Request
from heldout.records import Candidate, OutcomeStatus, SelectTask
from heldout.rollouts import Engine, Sweep, make_executor, paired_seed
from heldout.tasks.graders import CUT
from heldout.testing import FunctionModel, MemoryJournal

TASKS = tuple(SelectTask(id=f"t{i}", input=f"say {i}") for i in range(10))
CANDIDATE = Candidate(files={"instruction.md": "\n"}, weights="w1")


@dataclass
class BatchModel:
    """A real model that answers a function of the request, and remembers the sizes of its batches."""

    answer: Callable[[Request], Reply]
    name: str = "batches"
    fingerprint: str = "batches"
    deterministic: bool = True
    can_choose: bool = False
    simulated: bool = True
    serves_weights: bool = True
    trainer: str = "simulated"
    batches: list[int] = field(default_factory=list)

    def complete(self, request: Request) -> Reply:
        return self.answer(request)

    def complete_batch(self, requests: Sequence[Request]) -> list[Reply]:
        self.batches.append(len(requests))
        return [self.answer(request) for request in requests]

    def close(self) -> None:
        """Nothing was started."""


def echo(request: Request) -> Reply:
    return Reply(text=request.messages[-1].content, tokens_in=10, tokens_out=2)


def right(task: str, answer: str | None) -> float:
    return float(answer == f"say {task[1:]}")


def made(model: Any, *, batch: int = 4, budget: BudgetConfig | None = None) -> tuple[Engine, MemoryJournal]:
    journal = MemoryJournal()
    harness = CompletionHarness(max_tokens=8, options={"batch": batch})
    engine = Engine(harness, model, make_executor(ExecutorConfig()), Ledger(budget or BudgetConfig()), journal.append)
    return engine, journal


def test_tasks_are_asked_in_batches_and_every_task_has_its_own_outcome_and_seed() -> None:
    model = BatchModel(echo)
    engine, journal = made(model)
    found = engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert model.batches == [4, 4, 2]
    assert [one.task for one in found] == [task.id for task in TASKS]
    assert all(one.score == 1.0 for one in found)
    assert [one.seed for one in found] == [paired_seed(0, task.id, 0) for task in TASKS]
    assert len([event for event in journal.read_from(0) if event.kind == "outcome"]) == 10
    assert engine.ledger.total.calls == 10
    assert engine.ledger.total.tokens_in == 100


def test_a_batch_gives_what_one_by_one_gives() -> None:
    batched, _ = made(BatchModel(echo), batch=5)
    single, _ = made(BatchModel(echo), batch=1)
    first = batched.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    second = single.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert [(a.key, a.score, a.answer) for a in first] == [(b.key, b.score, b.answer) for b in second]


def test_a_model_without_batches_is_asked_one_by_one_from_several_workers() -> None:
    together = threading.Barrier(5, timeout=30.0)

    def waits_for_four_others(request: Request) -> str:
        together.wait()
        return request.messages[-1].content

    engine, _ = made(FunctionModel(waits_for_four_others))
    engine.executor = make_executor(ExecutorConfig(kind="threads", workers=5))
    assert all(one.score == 1.0 for one in engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right))


def test_what_is_recorded_is_left_out_of_the_next_batches() -> None:
    model = BatchModel(echo)
    engine, _ = made(model)
    engine.evaluate(Sweep(CANDIDATE, TASKS[:3], "select"), grade=right)
    engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert model.batches == [3, 4, 3]


def test_a_budget_cuts_a_batch_short_and_what_it_has_room_for_is_run() -> None:
    model = BatchModel(echo)
    engine, journal = made(model, budget=BudgetConfig(evaluations=6))
    with pytest.raises(BudgetExhausted):
        engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert model.batches == [4, 2]
    assert len([event for event in journal.read_from(0) if event.kind == "outcome"]) == 6


def test_an_outage_is_missing_for_the_whole_batch_after_each_was_asked_alone() -> None:
    def down(_request: Request) -> Reply:
        raise ModelError("no answer", calls=1)

    engine, _ = made(BatchModel(down), batch=10)
    found = engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert all(one.status is OutcomeStatus.NOT_MEASURED and one.score is None for one in found)
    assert engine.ledger.total.calls == 10
    assert engine.ledger.total.evaluations == 10


def test_a_task_that_the_model_refuses_leaves_the_others_of_its_batch_measured() -> None:
    def picky(request: Request) -> Reply:
        if request.messages[-1].content == "say 3":
            raise ModelError("too long")
        return echo(request)

    engine, _ = made(BatchModel(picky), batch=10)
    found = engine.evaluate(Sweep(CANDIDATE, TASKS, "select"), grade=right)
    assert [one.task for one in found if one.score is None] == ["t3"]
    assert sum(one.score or 0.0 for one in found) == 9.0


def test_an_answer_that_did_not_end_by_itself_says_so() -> None:
    engine, _ = made(BatchModel(lambda _request: Reply(text="say 0 and on", finish_reason="length", tokens_out=8)))
    found = engine.evaluate(Sweep(CANDIDATE, TASKS[:1], "select"), grade=right)
    assert found[0].answer == f"say 0 and on{CUT}"
    assert found[0].measures == {"stopped": 0.0, "tokens_out": 8.0}


def test_the_candidates_weights_and_its_instruction_reach_the_model() -> None:
    seen: list[Request] = []

    def look(request: Request) -> Reply:
        seen.append(request)
        return Reply(text="")

    engine, _ = made(BatchModel(look))
    told = Candidate(files={"instruction.md": "Be brief.\n"}, weights="w2")
    found = engine.evaluate(Sweep(CANDIDATE, TASKS[:1], "select"), grade=right)
    engine.evaluate(Sweep(told, TASKS[:1], "select"), grade=right)
    assert [request.weights for request in seen] == ["w1", "w2"]
    assert [[message.role for message in request.messages] for request in seen] == [["user"], ["system", "user"]]
    assert found[0].answer is None, "an empty reply is no answer"
    assert found[0].score == 0.0
