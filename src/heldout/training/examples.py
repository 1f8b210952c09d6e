"""One training example with its provenance: who made it, under what, and who says that it is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from heldout.records import OutcomeStatus, Record, digest_of

__all__ = ["TRAINABLE_ROLES", "Example", "Provenance", "Turn", "examples_digest"]

TRAINABLE_ROLES = ("train", "built")
"""Roles of provenance that may be trained on."""


class Provenance(Record):
    """Where an example comes from; without it nothing is trained on."""

    task: str
    """Id of the task that it was made from; of a generated example, `builder/number`."""
    role: str
    """`train`, or `built` for what a data builder generated. Any other role is refused."""
    episode: str = ""
    """Names the episode among those of its task, where several examples are turns of one: all of them or none are
    admitted."""
    model: str = ""
    """Digest of the weights, or name of the model, that wrote the completion; empty where a rule wrote it."""
    harness: Mapping[str, str] = Field(default_factory=dict)
    """Fingerprint by component of the harness in which it was produced; empty where there was none."""
    builder: str = ""
    """Data builder, where one made it."""
    verifier: str = ""
    """What scored the completion: a grader, or the builder itself; empty where nothing did."""
    status: OutcomeStatus = OutcomeStatus.NOT_MEASURED
    """What the verifier said."""
    score: float | None = None


class Turn(Record):
    """What one side of a conversation said, as the chat template takes it."""

    role: Literal["user", "assistant", "tool"]
    content: str


class Example(Record):
    """A prompt and a completion; loss is taken on the completion and its end token alone.

    An episode of several turns gives one example for each turn of the assistant, with all turns before it as context.
    """

    prompt: str
    """The user's first turn."""
    turns: tuple[Turn, ...] = ()
    """What was said between that and the completion: actions, observations. The last of them is no assistant's."""
    completion: str
    """The assistant's turn, without any end token."""
    system: str = ""
    """The system turn, where there is one."""
    provenance: Provenance

    @model_validator(mode="after")
    def _one_turn_is_completed(self) -> Self:
        if self.turns and self.turns[-1].role == "assistant":
            raise ValueError("the turn before the completion is an assistant's too; evaluation asks for no second one")
        return self

    @cached_property
    def digest(self) -> str:
        """Identity of what is trained on; provenance is history."""
        between = [[turn.role, turn.content] for turn in self.turns]
        return digest_of([self.system, self.prompt, *([between] if between else []), self.completion])

    @property
    def context(self) -> list[dict[str, str]]:
        """Every turn before the completion, as chat templates take them; a blank system turn is none."""
        system = [{"role": "system", "content": self.system}] if self.system.strip() else []
        between = [{"role": turn.role, "content": turn.content} for turn in self.turns]
        return [*system, {"role": "user", "content": self.prompt}, *between]

    @property
    def conversation(self) -> list[dict[str, str]]:
        """The context and the completion."""
        return [*self.context, {"role": "assistant", "content": self.completion}]


def examples_digest(examples: Iterable[Example]) -> str:
    """Identity of a data set: its examples in order."""
    return digest_of([example.digest for example in examples])
