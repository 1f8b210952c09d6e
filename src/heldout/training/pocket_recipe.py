"""What a pocket model is made from: a size, generated texts in stages, and a few numbers."""

from __future__ import annotations

from pydantic import Field

from heldout.records import Record
from heldout.worlds.formats.job import Constraint, Skill

__all__ = ["PocketRecipe", "Stage", "TextKind"]


class TextKind(Record):
    """A kind of text: a task of the world `formats` with an answer, not always a right one."""

    share: float = Field(gt=0.0)
    """How often, among the kinds of a stage; the shares need not add up to 1."""
    skill: Skill = "list"
    constraints: tuple[Constraint, ...] = ()
    """What the task asks for."""
    ignored: tuple[Constraint, ...] = ()
    """What the answer does not keep to, as in text that nobody checked."""
    carries: bool | None = None
    """Whether the ones digits of a sum carry; None: as it comes."""


class Stage(Record):
    """A part of the training."""

    steps: int = Field(ge=1)
    kinds: tuple[TextKind, ...] = Field(min_length=1)


class PocketRecipe(Record):
    """How a pocket model is trained. Equal recipes give equal weights on one machine."""

    size: str = "s"
    """Name of the size."""
    start: str | None = None
    """Name of the pocket model whose weights training begins with; None: random weights."""
    stages: tuple[Stage, ...] = Field(min_length=1)
    """One after the other, under one schedule of the learning rate."""
    ends: float = Field(ge=0.0, le=1.0)
    """Share of the texts after which the end token stands; after the others a new line, and the next user's turn."""
    systems: float = Field(default=0.05, ge=0.0, le=1.0)
    """Share of the texts with a system turn."""
    batch: int = Field(default=16, ge=1)
    """Texts of each step."""
    learning_rate: float = Field(gt=0.0)
    """Highest; it rises during `warmup` steps and falls along a cosine to a twentieth."""
    warmup: int = Field(default=30, ge=1)
    seed: int = 0

    @property
    def steps(self) -> int:
        """Of all stages."""
        return sum(stage.steps for stage in self.stages)
