"""A real model on a few tasks of a source, in the real harness and sandbox: what path checks run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heldout.config import SolverConfig
from heldout.harness import make_harness
from heldout.ledger import Ledger
from heldout.models import Model
from heldout.records import Candidate, Outcome, Task, Trajectory
from heldout.rollouts import Engine, Grade, InlineExecutor, Sweep
from heldout.sandbox import make_sandboxes
from heldout.studies.winners_curse.real_model import missing_model
from heldout.tasks.base import TaskSource
from heldout.tasks.graders import load_grader
from heldout.tasks.sources import environment_of

__all__ = ["FewTasks", "few_tasks", "missing_path"]


@dataclass(frozen=True, slots=True)
class FewTasks:
    """The first tasks of a source, and what runs and grades them."""

    tasks: Sequence[Task]
    engine: Engine
    grade: Grade

    def outcomes(self, candidate: Candidate, *, first: int | None = None, traced: bool = False) -> Sequence[Outcome]:
        """One of each task; `first`: of so many tasks alone."""
        sweep = Sweep(candidate, self.tasks[:first], "path check", traced=traced)
        return self.engine.evaluate(sweep, grade=self.grade)


def few_tasks(
    source: TaskSource,
    solver: SolverConfig,
    model: Model,
    *,
    count: int,
    seed: int,
    keep_trace: Callable[[str, Trajectory], object] = lambda _key, _trajectory: None,
) -> FewTasks:
    """The first `count` of the source, without a run folder around them."""
    items = source.items()[:count]
    references = {item.id: item.reference for item in items}
    grader = load_grader(source.grader)
    engine = Engine(
        harness=make_harness(solver, labels=(), environment=environment_of(source)),
        model=model,
        executor=InlineExecutor(),
        ledger=Ledger(),
        append=lambda _kind, _payload: None,
        seed=seed,
        keep_trace=keep_trace,
    )
    tasks = [Task(id=item.id, input=item.input, family=item.family) for item in items]
    return FewTasks(tasks, engine, lambda task, answer: grader(answer, references[task], task=task))


def missing_path() -> str | None:
    """Why a path check cannot run on this machine, or None."""
    return missing_model() or make_sandboxes("bubblewrap").fault()
