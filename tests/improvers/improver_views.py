"""Views for the improvers' tests."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.harness import Demonstration, Prompt
from heldout.improvers import Attempt, Failure, View
from heldout.records import Candidate, TrainTask

LABELS = ("animal", "place", "time")
TRAIN = tuple(TrainTask(id=f"t{i}", input=f"question number {i}", reference=LABELS[i % 3]) for i in range(30))


def make_view(
    *shown: Demonstration,
    instruction: str = "Classify.",
    failures: Sequence[Failure] = (),
    history: Sequence[Attempt] = (),
    seed: int = 0,
    labels: tuple[str, ...] = LABELS,
) -> View:
    """A view of thirty train tasks, with an incumbent that shows these examples."""
    return View(
        incumbent=Candidate(files=Prompt(instruction, shown).files()),
        description="Sort questions by what they ask for.",
        labels=labels,
        train=TRAIN,
        failures=tuple(failures),
        history=tuple(history),
        generation=1,
        index=0,
        seed=seed,
    )


def shown(*numbers: int) -> list[Demonstration]:
    """Train tasks as examples."""
    return [Demonstration(input=TRAIN[i].input, output=TRAIN[i].reference) for i in numbers]
