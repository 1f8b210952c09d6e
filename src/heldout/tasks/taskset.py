"""A task set: the open roles of a run in memory, the sealed ones as digests only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError
from heldout.records import SelectTask, TrainTask, digest_of
from heldout.tasks.base import Item
from heldout.tasks.environment import Environment
from heldout.tasks.graders import CheckedGrader, load_grader
from heldout.tasks.roles import OpenRole, SealedRole, SealedTask, text_digest
from heldout.tasks.sources import (
    environment_of,
    has_solutions,
    load_source,
    read_items,
    solution_of,
    solution_text_of,
)
from heldout.tasks.splitting import divide

__all__ = ["TaskSet", "load_tasks"]

_OPEN = ("train", "select", "spare")


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks by role. Immutable and picklable; no sealed body and no sealed answer is reachable from it."""

    description: str
    instruction: str
    """The source's own start instruction."""
    labels: tuple[str, ...]
    train: tuple[TrainTask, ...]
    select: tuple[SelectTask, ...]
    spare: tuple[SelectTask, ...]
    """Further select tasks, which a gate may ask for to confirm a winner."""
    sealed: Mapping[str, SealedRole]
    """`audit` and the report roles."""
    plan: Mapping[str, tuple[tuple[str, str], ...]]
    """The division: (task id, text digest) of every role, in order."""
    dropped: int
    """Duplicates that were dropped before the division."""
    config: TasksConfig
    grader: CheckedGrader
    references: Mapping[str, str]
    """Right answers of train, select and spare; never handed to an improver."""
    environment: Environment | None = None
    """Where an agent's tasks begin; None for tasks that are only text."""

    @property
    def plan_digest(self) -> str:
        """Identity of the division."""
        return digest_of(self.plan)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Tasks in each role that is not empty."""
        roles = {"train": self.train, "select": self.select, "spare": self.spare}
        sealed = {name: len(role.ids) for name, role in self.sealed.items()}
        return {name: len(tasks) for name, tasks in roles.items() if tasks} | sealed

    def grade(self, task_id: str, answer: str | None) -> float:
        """Score in [0, 1] of an answer to a train, select or spare task; None scores 0.

        `TaskError` for any other task, and where the grader fails or leaves [0, 1].
        """
        if task_id not in self.references:
            raise TaskError(f"task {task_id!r} is not in train or select; a sealed role is graded once it is opened")
        return self.grader(answer, self.references[task_id], task=task_id)

    def explain(self, task_id: str, answer: str | None) -> str:
        """What the grader says of an answer to a train task, for an improver to read; empty where it only scores."""
        if all(task.id != task_id for task in self.train):
            raise TaskError(f"task {task_id!r} is not in train; only train tasks are explained")
        return self.grader.explain(answer, self.references[task_id], task=task_id)

    def faults(self, task_id: str, answer: str | None) -> tuple[str, ...]:
        """Codes of what is wrong with an answer to a train task, the one that hides the others first."""
        if all(task.id != task_id for task in self.train):
            raise TaskError(f"task {task_id!r} is not in train; the faults of other tasks are not told")
        return self.grader.faults(answer, self.references[task_id], task=task_id)

    def solution_texts(self) -> tuple[str, ...]:
        """The solutions of train, select and spare, as texts; for the leak check alone."""
        source = load_source(self.config)
        items = read_items(source, name=self.config.source)
        return tuple(solution_text_of(source, item) for item in items if item.id in self.references)

    def train_solutions(self) -> Mapping[str, str]:
        """An answer that is right for each train task, as a solver would give it; none where the source knows none,
        or where the answer is what an agent leaves in a work folder."""
        source = load_source(self.config)
        if not has_solutions(source) or self.environment is not None:
            return {}
        train = {task.id for task in self.train}
        items = read_items(source, name=self.config.source)
        return {item.id: solution_of(source, item) for item in items if item.id in train}

    def open_role(self, name: str) -> OpenRole:
        """Read the bodies of a sealed role from the source again; `TaskError` where the source has changed."""
        if name not in self.sealed:
            raise SetupError(f"no sealed role {name!r}; there is {', '.join(sorted(self.sealed))}")
        role = self.sealed[name]
        by_id = {item.id: item for item in read_items(load_source(self.config), name=self.config.source)}
        changed = [
            task
            for task, digest in zip(role.ids, role.text_digests, strict=True)
            if task not in by_id or text_digest(by_id[task]) != digest
        ]
        if changed:
            raise TaskError(
                f"the source {self.config.source!r} changed since the division into roles: {len(changed)} of "
                f"{len(role.ids)} {name} tasks differ, the first is {changed[0]!r}; restore the source to open {name}"
            )
        items = [by_id[task] for task in role.ids]
        return OpenRole(
            name=name,
            tasks=tuple(SealedTask(id=item.id, input=item.input, family=item.family, role=name) for item in items),
            grader=self.grader,
            references={item.id: item.reference for item in items},
        )


def load_tasks(config: TasksConfig, *, fresh: int = 0) -> TaskSet:
    """Read the source, divide it into roles, and keep of the sealed ones only ids and digests.

    `fresh` adds that many `spare` tasks. The same config and source give the same task set.
    """
    source = load_source(config)
    grader = load_grader(config.grader or source.grader)
    division = divide(read_items(source, name=config.source), config, fresh=fresh)
    roles = division.roles
    return TaskSet(
        description=source.description,
        instruction=source.instruction,
        labels=tuple(source.labels),
        train=tuple(
            TrainTask(id=item.id, input=item.input, family=item.family, reference=item.reference)
            for item in roles["train"]
        ),
        select=_select_tasks(roles["select"]),
        spare=_select_tasks(roles.get("spare", ())),
        sealed={name: _seal(name, items) for name, items in roles.items() if name not in _OPEN},
        plan={name: tuple((item.id, text_digest(item)) for item in items) for name, items in roles.items()},
        dropped=division.dropped,
        config=config,
        grader=grader,
        references={item.id: item.reference for name in _OPEN for item in roles.get(name, ())},
        environment=environment_of(source),
    )


def _select_tasks(items: Sequence[Item]) -> tuple[SelectTask, ...]:
    return tuple(SelectTask(id=item.id, input=item.input, family=item.family) for item in items)


def _seal(name: str, items: Sequence[Item]) -> SealedRole:
    return SealedRole(name, tuple(item.id for item in items), tuple(text_digest(item) for item in items))
