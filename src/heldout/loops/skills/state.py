"""What a loop over skills knows between its rounds; all of it follows from the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heldout.improvers.skill_roles import SkillImprover, SkillNote, SkillTrace
from heldout.loops.session import Scored, Session
from heldout.loops.skills.options import SkillOptions
from heldout.records import Candidate
from heldout.store.skill_events import FaultAttributed

__all__ = ["Batch", "Learnable", "SkillSearch"]


@dataclass(frozen=True, slots=True)
class Batch:
    """The train tasks of a round, run with one candidate: the head, or another parent of an edit."""

    round: int
    candidate: Candidate
    traces: tuple[SkillTrace, ...]
    """Of every task that was measured, in the order of the batch."""
    failed: tuple[SkillTrace, ...]


@dataclass(frozen=True, slots=True)
class Learnable:
    """A failure that an edit can begin from."""

    head: Candidate
    """What failed, and what the edit is made to."""
    trace: SkillTrace
    fault: FaultAttributed
    module: str
    """File of the module that the fault goes to."""


@dataclass(slots=True)
class SkillSearch:
    """The state of one run."""

    session: Session
    options: SkillOptions
    improver: SkillImprover
    target: Literal["guide", "skill"]
    start: Candidate
    head: Scored
    """With its select scores of repeat 0, or those that it was accepted with."""
    head_round: int = 0
    """Round after which it became the head."""
    notes: list[SkillNote] = field(default_factory=list)
    idle: int = 0
    """Rounds in a row without an acceptance."""
    forbidden: tuple[str, ...] = ()
    """Names of the train tasks that a guide may not hold."""

    @property
    def gives_up(self) -> bool:
        """Whether so many rounds in a row were in vain that the search ends (S)."""
        return bool(self.options.stop_after) and self.idle >= self.options.stop_after

    @property
    def ended(self) -> str:
        """Why the rounds are over."""
        if not self.gives_up:
            return "every generation was run"
        return f"{self.idle} rounds in a row without an acceptance"

    @property
    def track(self) -> str:
        """Name of the track that is moved."""
        return self.target

    @property
    def first(self) -> NDArray[np.float64]:
        """Select scores of the start, shape (n, 1)."""
        scored = self.session.start
        return np.full((1, 1), np.nan) if scored is None else scored.scores
