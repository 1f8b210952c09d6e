"""A batch of tasks: what one of them does, and what a limit of one does, is not held against the others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from heldout.config import BudgetConfig, ExecutorConfig
from heldout.errors import HarnessError
from heldout.harness.base import Episode
from heldout.harness.completion import CompletionHarness
from heldout.ledger import Ledger
from heldout.models.base import Reply, Request
from heldout.records import Candidate, OutcomeStatus, SelectTask, Task, Trajectory
from heldout.rollouts import Engine, Sweep, make_executor
from heldout.testing import MemoryJournal

TASKS = tuple(SelectTask(id=f"t{i}", input=f"say {i}") for i in range(4))
SWEEP = Sweep(Candidate(files={"instruction.md": "\n"}, weights="w1"), TASKS, "select")


@dataclass
class Echo:
    """A model with weights that repeats what it is told; `slow` seconds for each."""

    slow_s: float = 0.0
    accelerators: int = 0
    name: ClassVar[str] = "echo"
    fingerprint: ClassVar[str] = "echo"
    deterministic: ClassVar[bool] = True
    can_choose: ClassVar[bool] = False
    simulated: ClassVar[bool] = True
    serves_weights: ClassVar[bool] = True
    trainer: ClassVar[str] = "simulated"

    def complete(self, request: Request) -> Reply:
        time.sleep(self.slow_s)
        return Reply(text=request.messages[-1].content)

    def complete_batch(self, requests: Sequence[Request]) -> list[Reply]:
        return [self.complete(request) for request in requests]

    def close(self) -> None:
        """Nothing was started."""


class Picky(CompletionHarness):
    """A harness that raises for one task."""

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        if task.id == "t2":
            raise HarnessError("t2 is too odd")
        return super().run(candidate, task, episode)

    def run_batch(
        self, candidate: Candidate, tasks: Sequence[Task], episodes: Sequence[Episode]
    ) -> Sequence[Trajectory]:
        return [self.run(candidate, task, episode) for task, episode in zip(tasks, episodes, strict=True)]


def right(task: str, answer: str | None) -> float:
    return float(answer == f"say {task[1:]}")


def made(model: Echo, *, harness: type[CompletionHarness] = CompletionHarness, **executor: object) -> Engine:
    settings = ExecutorConfig.model_validate(executor)
    return Engine(harness(max_tokens=8), model, make_executor(settings), Ledger(BudgetConfig()), MemoryJournal().append)


def test_a_harness_that_raises_for_one_task_fails_that_one_alone() -> None:
    found = made(Echo(), harness=Picky).evaluate(SWEEP, grade=right)
    assert [one.score for one in found] == [1.0, 1.0, 0.0, 1.0]


@pytest.mark.slow
def test_a_batch_that_passes_the_limit_of_one_episode_is_missing_and_no_failure() -> None:
    engine = made(Echo(slow_s=30.0), kind="process", workers=1, timeout_s=2)
    try:
        found = engine.evaluate(SWEEP, grade=right)
    finally:
        engine.executor.close()
    assert {(one.status, one.score) for one in found} == {(OutcomeStatus.NOT_MEASURED, None)}
    assert "with 4 tasks in one batch" in (found[0].error or "")


@pytest.mark.parametrize("accelerators", [0, 2])
def test_seconds_of_accelerators_are_counted_where_a_model_answers_on_them(accelerators: int) -> None:
    engine = made(Echo(slow_s=0.01, accelerators=accelerators))
    engine.evaluate(SWEEP, grade=right)
    total = engine.ledger.total
    assert total.wall_s > 0.03
    assert total.gpu_s == pytest.approx(accelerators * total.wall_s, abs=1e-4)
