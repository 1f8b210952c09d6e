"""Small changes of a prompt: each takes a prompt and returns another with a note, or None where it does not apply."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from heldout.harness import Demonstration, Prompt
from heldout.improvers.base import View
from heldout.improvers.phrases import bank
from heldout.records import TrainTask

__all__ = ["MOVES", "Changed", "Move", "Setting"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a move may draw on."""

    view: View
    rng: random.Random
    max_demonstrations: int
    phrases: Sequence[str]


@dataclass(frozen=True, slots=True)
class Changed:
    """A changed prompt and one line that says how."""

    prompt: Prompt
    note: str


Move = Callable[[Prompt, Setting], Changed | None]


def add(prompt: Prompt, setting: Setting) -> Changed | None:
    """Show more examples: one of each label at first, later up to three of the labels that need them most."""
    shown = list(prompt.demonstrations)
    room = setting.max_demonstrations - len(shown)
    wanted = _first_labels(setting) if not shown else _needed_labels(shown, setting)[: setting.rng.randint(1, 3)]
    added = []
    for label in wanted[: max(0, room)]:
        example = _fresh_example(shown, label, setting)
        if example is not None:
            shown.insert(setting.rng.randint(0, len(shown)), example)
            added.append(example.output)
    note = f"add {_counted(added)}"
    return Changed(replace(prompt, demonstrations=tuple(shown)), note) if added else None


def swap(prompt: Prompt, setting: Setting) -> Changed | None:
    """Replace up to half of the examples, each by another one of the same label."""
    shown = list(prompt.demonstrations)
    places = setting.rng.sample(range(len(shown)), setting.rng.randint(1, max(1, len(shown) // 2))) if shown else []
    swapped = []
    for place in places:
        example = _fresh_example(shown, shown[place].output, setting)
        if example is not None:
            shown[place] = example
            swapped.append(example.output)
    return Changed(replace(prompt, demonstrations=tuple(shown)), f"swap {_counted(swapped)}") if swapped else None


def drop(prompt: Prompt, setting: Setting) -> Changed | None:
    """Leave out an example of a label that is shown most."""
    shown = list(prompt.demonstrations)
    if not shown:
        return None
    counts = Counter(example.output for example in shown)
    most = max(counts.values())
    place = setting.rng.choice([i for i, example in enumerate(shown) if counts[example.output] == most])
    gone = shown.pop(place)
    return Changed(replace(prompt, demonstrations=tuple(shown)), f"drop one example of {gone.output[:40]!r}")


def reorder(prompt: Prompt, setting: Setting) -> Changed | None:
    """Show the same examples in another order; models lean towards the last ones."""
    shown = list(prompt.demonstrations)
    setting.rng.shuffle(shown)
    if shown == list(prompt.demonstrations):
        return None
    return Changed(replace(prompt, demonstrations=tuple(shown)), f"reorder {len(shown)} examples")


def phrase(prompt: Prompt, setting: Setting) -> Changed | None:
    """Add a sentence of the bank to the instruction, or take one away, or put one in the place of another."""
    sentences = bank(setting.phrases, setting.view.labels)
    lines = prompt.instruction.split("\n")
    present = [sentence for sentence in sentences if sentence in lines]
    absent = [sentence for sentence in sentences if sentence not in lines]
    gone = setting.rng.choice(present) if present and setting.rng.random() < 0.5 else None
    come = setting.rng.choice(absent) if absent and (gone is None or setting.rng.random() < 0.5) else None
    if gone is None and come is None:
        return None
    lines = [line for line in lines if line != gone] + ([] if come is None else [come])
    notes = ([] if gone is None else [f"remove {gone!r}"]) + ([] if come is None else [f"add {come!r}"])
    return Changed(replace(prompt, instruction="\n".join(lines)), " and ".join(notes))


MOVES: Mapping[str, Move] = {"add": add, "swap": swap, "drop": drop, "reorder": reorder, "phrase": phrase}
"""Name to move, in the order in which options list them."""


def _first_labels(setting: Setting) -> list[str]:
    """One of each label in random order, or three open answers."""
    labels = list(setting.view.labels) or [""] * 3
    return setting.rng.sample(labels, len(labels))


def _needed_labels(shown: Sequence[Demonstration], setting: Setting) -> list[str]:
    """Labels by how few of their examples are shown, against how often they fail; ties in random order."""
    labels = _first_labels(setting)
    counts = Counter(example.output for example in shown)
    failed = Counter(failure.task.reference for failure in setting.view.failures)
    return sorted(labels, key=lambda label: counts[label] - failed[label])


def _fresh_example(shown: Sequence[Demonstration], label: str, setting: Setting) -> Demonstration | None:
    """A train task of this label that is not shown, a failure twice as likely; any label where none is asked for."""
    present = {example.input for example in shown}

    def fits(task: TrainTask) -> bool:
        return task.input not in present and (task.reference == label or not setting.view.labels)

    pool = [task for task in setting.view.train if fits(task)]
    failed = [failure.task for failure in setting.view.failures if fits(failure.task)]
    if not pool:
        return None
    task = setting.rng.choice(failed if failed and setting.rng.random() < 0.5 else pool)
    return Demonstration(input=task.input, output=task.reference)


def _counted(labels: Sequence[str]) -> str:
    """`3 examples: location, person (2)`."""
    counts = Counter(label if len(label) <= 40 else label[:39] + "…" for label in labels)
    listed = ", ".join(label if k == 1 else f"{label} ({k})" for label, k in sorted(counts.items()))
    return f"{len(labels)} example{'s' if len(labels) > 1 else ''}: {listed}"
