"""The texts that pocket models are trained on: tasks of the world `formats` with answers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from heldout.training.pocket_recipe import PocketRecipe, TextKind
from heldout.training.pocket_tokenizer import pieces_of
from heldout.worlds.formats.generator import draw_job, draw_skill
from heldout.worlds.formats.job import Constraint, Job
from heldout.worlds.formats.wording import WORDING, WORDS

__all__ = ["Text", "drawn_texts", "vocabulary"]

_SYSTEMS = ("Answer the task.", "Do what is asked, and no more.", "You are a careful assistant.")

_JOINTS = (*(", ", ". ", ": ", "; ", '": ["', '", "', '"], "', '": ', '"]}', '{"', "</", "> <"), "words", "sum")
"""What stands between the words of tasks and answers."""

_GAP = re.compile(r"\{\w+\}")
"""Where a wording names a word or a number."""


@dataclass(frozen=True, slots=True)
class Text:
    """One task with an answer."""

    system: str
    """Empty: no system turn."""
    prompt: str
    answer: str
    ends: bool
    """Whether the end token stands after the answer."""


def vocabulary() -> tuple[str, ...]:
    """What the tokenizer of pocket models knows beside bytes.

    The words of the world's lists in both cases, alone and with the comma before them (so that neighbours in a list
    are neighbours in the sequence), the words of the wordings, and joints.
    """
    listed = [word for name in WORDS for word in (name, name.upper())]
    said = [_GAP.sub("", text) for wording in WORDING for text in wording.values()]
    return (*listed, *(f", {word}" for word in listed), *pieces_of([*said, *_SYSTEMS]), *_JOINTS)


def drawn_texts(rng: random.Random, recipe: PocketRecipe) -> Iterator[tuple[Text, ...]]:
    """The texts of each step, stage by stage."""
    for stage in recipe.stages:
        shares = [kind.share for kind in stage.kinds]
        for _ in range(stage.steps):
            kinds = rng.choices(stage.kinds, weights=shares, k=recipe.batch)
            yield tuple(_drawn(rng, kind, recipe) for kind in kinds)


def _drawn(rng: random.Random, kind: TextKind, recipe: PocketRecipe) -> Text:
    job = _job(rng, kind)
    return Text(
        system=rng.choice(_SYSTEMS) if rng.random() < recipe.systems else "",
        prompt=job.text,
        answer=_answered(rng, job, kind.ignored).ideal,
        ends=rng.random() < recipe.ends,
    )


def _job(rng: random.Random, kind: TextKind) -> Job:
    if kind.skill != "list":
        return draw_skill(rng, kind.skill)
    job = draw_job(rng, kind.constraints)
    while kind.carries is not None and job.addends is not None and _carries(job.addends) != kind.carries:
        job = job.model_copy(update={"addends": _addends(rng)})
    return job


def _answered(rng: random.Random, job: Job, ignored: Sequence[Constraint]) -> Job:
    """The task that the answer fits, where some of what is asked for is ignored."""
    changes: Mapping[Constraint, Mapping[str, object]] = {
        Constraint.COUNT: {"count": rng.randint(1, len(job.words))},
        Constraint.WORD: {"exclude": None, "include": None},
        Constraint.CASE: {"upper": False},
        Constraint.CARRY: {"addends": _addends(rng)},
        Constraint.WRAPPER: {"wrapper": "plain"},
    }
    update = {name: value for constraint in ignored for name, value in changes[constraint].items()}
    return job.model_copy(update=update)


def _addends(rng: random.Random) -> tuple[int, int]:
    return rng.randint(10, 99), rng.randint(10, 99)


def _carries(addends: tuple[int, int]) -> bool:
    return addends[0] % 10 + addends[1] % 10 >= 10
