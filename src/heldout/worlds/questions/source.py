"""The `questions` world as a task source: name the type of a question's answer."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from pydantic import Field

from heldout.errors import SetupError
from heldout.options import read_options
from heldout.records import Record
from heldout.tasks.base import Item
from heldout.tasks.duplicates import find_duplicates
from heldout.worlds.questions.grammar import expand

__all__ = ["QuestionsOptions", "QuestionsSource"]

_OOD = "ood"
_TOO_ALIKE = 0.75
"""Below the similarity at which the duplicate audit stops a run."""
_TRIES = 20


class QuestionsOptions(Record):
    """Sizes of the world."""

    items: int = Field(default=5400, ge=60, le=8000)
    """Questions drawn for the ordinary roles, before those too alike are dropped (about one in a hundred)."""
    ood: int = Field(default=300, ge=0, le=900)
    """Further questions, from templates that no other question uses, for the report role `ood`."""


class QuestionsSource:
    """Thousands of generated questions of six answer types, the same for the same seed and options.

    A task's family is the way of asking (direct, imperative, fronted, …), which all labels share; its group is the
    template. Labels follow the coarse classes of TREC (Li and Roth 2002): dates and ages are numbers, materials
    and colours are entities, reasons, manners and definitions are descriptions.
    """

    description = (
        "Classify a question by the type of answer that it asks for: abbreviation (a short form, or what one means), "
        "entity (a thing, animal, food, colour, work, …), description (a definition, reason or manner), person, "
        "location, or number (a count, date, age, price, distance, …)."
    )
    instruction = (
        "Classify the question by the type of its answer: "
        "abbreviation, entity, description, person, location, or number."
    )
    labels = ("abbreviation", "entity", "description", "person", "location", "number")
    grader = "label"

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        if path is not None:
            raise SetupError(f"the source 'questions' is generated and reads no file, got tasks.path = {path!r}")
        self.options = read_options(QuestionsOptions, options, where="task source 'questions'")
        self.seed = seed

    def items(self) -> Sequence[Item]:
        """Every question, in an order drawn from the seed."""
        return _world(self.options, self.seed)


@lru_cache(maxsize=2)
def _world(options: QuestionsOptions, seed: int) -> tuple[Item, ...]:
    """Kept, since a run reads its source three times and anybody can draw this world again."""
    rng = random.Random(f"questions {seed}")
    drawn = _draw(options.items, rng=rng, ood=False) + _draw(options.ood, rng=rng, ood=True)
    rng.shuffle(drawn)
    items = [item.model_copy(update={"id": f"q{number:05d}"}) for number, item in enumerate(drawn)]
    dropped = {pair.b for pair in find_duplicates(items, threshold=_TOO_ALIKE)}
    return tuple(item for item in items if item.id not in dropped)


def _draw(count: int, *, rng: random.Random, ood: bool) -> list[Item]:
    """About `count` different questions, equally many of each label and, where it has that many, of each template."""
    vocabulary, labels = _read("vocabulary.toml"), _read("templates.toml")
    items: list[Item] = []
    for label, families in labels.items():
        templates = [
            (family, f"{label}-{family}-{number}", template)
            for family, listed in families.items()
            for number, template in enumerate(listed)
            if (family == _OOD) == ood
        ]
        seen: set[str] = set()
        for turn in range(_TRIES * count // len(labels)):
            if len(seen) == count // len(labels):
                break
            family, group, template = templates[turn % len(templates)]
            text = expand(template, vocabulary, rng=rng)
            if text not in seen:
                seen.add(text)
                pool = _OOD if ood else ""
                items.append(
                    Item(id="", input=text, reference=label, family=family, stratum=label, group=group, pool=pool)
                )
    return items


def _read(name: str) -> Mapping[str, Any]:
    text = files("heldout.worlds.questions").joinpath(name).read_text(encoding="utf-8")
    return tomllib.loads(text)
