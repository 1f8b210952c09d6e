"""Training examples before they are admitted: what a data builder is asked for, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import Field

from heldout.records import Record, TrainTask

__all__ = ["BuildRequest", "Builder", "Pair"]


class Pair(Record):
    """One prompt and the completion that a model should learn to give."""

    prompt: str
    """The user's turn, as `Task.input` would be."""
    completion: str
    """The assistant's turn, without any end token."""
    task: str = ""
    """Id of the train task that it was made from; empty for generated ones."""
    score: float | None = None
    """What a grader says of the completion, where the builder asked one."""


class BuildRequest(Record):
    """What a data builder is asked for."""

    count: int = Field(ge=1)
    """Examples wanted; a builder may return fewer."""
    seed: int = 0
    failures: tuple[TrainTask, ...] = ()
    """Train tasks that the parent failed, with what the grader knows of them."""
    solutions: Mapping[str, str] = Field(default_factory=dict)
    """By id of these tasks, an answer that is right, where one is known."""
    params: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments of the builder itself."""
    source_seed: int = 0
    """Seed of the run's own task source, as its config tells anyone."""
    source_options: Mapping[str, Any] = Field(default_factory=dict)
    """Options of that source."""


Builder = Callable[[BuildRequest], Sequence[Pair]]
"""Deterministic for one request. It is handed no select, audit or report task."""
