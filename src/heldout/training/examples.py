"""One training example with its provenance: who made it, under what, and who says that it is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from pydantic import Field

from heldout.records import OutcomeStatus, Record, digest_of

__all__ = ["Example", "Provenance", "examples_digest"]


class Provenance(Record):
    """Where an example comes from; without it nothing is trained on."""

    task: str
    """Id of the task that it was made from; of a generated example, `builder/number`."""
    role: str
    """`train`, or `built` for what a data builder generated. Any other role is refused."""
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


class Example(Record):
    """A prompt and a completion; loss is taken on the completion and its end token alone."""

    prompt: str
    """The user's turn."""
    completion: str
    """The assistant's turn, without any end token."""
    system: str = ""
    """The system turn, where there is one."""
    provenance: Provenance

    @cached_property
    def digest(self) -> str:
        """Identity of what is trained on; provenance is history."""
        return digest_of([self.system, self.prompt, self.completion])


def examples_digest(examples: Iterable[Example]) -> str:
    """Identity of a data set: its examples in order."""
    return digest_of([example.digest for example in examples])
