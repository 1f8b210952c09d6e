"""Sealed roles: what a run may hold of them before they are opened, and what opening gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heldout.errors import TaskError
from heldout.records import Task, digest_of
from heldout.tasks.base import Item
from heldout.tasks.graders import CheckedGrader

__all__ = ["OpenRole", "SealedRole", "SealedTask", "text_digest"]


class SealedTask(Task):
    """A task of an opened audit or report role. No improver and no gate is ever handed one."""

    role: str
    """`audit`, or the name of a report role."""


@dataclass(frozen=True, slots=True)
class SealedRole:
    """An unopened role: which tasks it will hold, with neither their bodies nor their answers."""

    name: str
    ids: tuple[str, ...]
    text_digests: tuple[str, ...]
    """`text_digest` of each task, in the order of `ids`."""


@dataclass(frozen=True, slots=True)
class OpenRole:
    """An opened role."""

    name: str
    tasks: tuple[SealedTask, ...]
    grader: CheckedGrader
    references: Mapping[str, str]
    """Task id to right answer."""

    def grade(self, task_id: str, answer: str | None) -> float:
        """Score in [0, 1] of an answer to a task of this role; `TaskError` for any other task."""
        if task_id not in self.references:
            raise TaskError(f"task {task_id!r} is not in the role {self.name!r}")
        return self.grader(answer, self.references[task_id], task=task_id)


def text_digest(item: Item) -> str:
    """sha-256 of what a split must not lose: the text, the answer and the family."""
    return digest_of([item.input, item.reference, item.family])
