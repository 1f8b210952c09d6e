"""The seam to improvers, and the only thing an improver is handed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from heldout.records import Candidate, Proposal, TrainTask

__all__ = ["Attempt", "Failure", "Improver", "View"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A train task that the incumbent got wrong, and what it answered."""

    task: TrainTask
    answer: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An earlier candidate, with its aggregate select score and what became of it."""

    digest: str
    note: str
    select_score: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything that an improver may know. No select, audit or test body is reachable from it."""

    incumbent: Candidate
    description: str
    labels: tuple[str, ...]
    train: tuple[TrainTask, ...]
    failures: tuple[Failure, ...]
    history: tuple[Attempt, ...]
    generation: int
    """From 1."""
    index: int
    """Which of the generation's K proposals this is, from 0."""
    seed: int
    """Differs for every (generation, index); the improver's only source of randomness."""


class Improver(Protocol):
    """Something that proposes a changed candidate.

    Improvers of agent harnesses are another seam (`AgentImprover`) and say so by a class flag `agent = True`.
    """

    uses_model: bool
    """Whether a proposal costs model calls, which are then reserved before it is asked for."""

    def propose(self, view: View) -> Proposal | None:
        """One proposal, or None when there is nothing left to try. Same view, same proposal, where it can."""
