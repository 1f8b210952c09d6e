"""The world `formats` as a task source."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from pydantic import Field, field_validator

from heldout.errors import SetupError
from heldout.options import read_options
from heldout.records import Record
from heldout.tasks.base import Item
from heldout.tasks.duplicates import find_duplicates
from heldout.worlds.formats.generator import PLAIN_SKILLS, draw_skill, draw_task
from heldout.worlds.formats.job import Constraint, Job

__all__ = ["FormatsOptions", "FormatsSource"]

_RETAIN = "retain"
_TOO_ALIKE = 0.75
"""Below the similarity at which the duplicate audit stops a run."""


class FormatsOptions(Record):
    """Sizes of the world, and what its tasks may ask for."""

    items: int = Field(default=2400, ge=40, le=20000)
    """Tasks drawn for the ordinary roles, before those too alike are dropped (seldom any)."""
    retain: int = Field(default=600, ge=0, le=6000)
    """Further tasks of plain skills (copy, reverse, sort), for the report role `retain`."""
    constraints: tuple[Constraint, ...] = tuple(Constraint)
    """What the ordinary tasks may ask for: some of count, word, case, carry, wrapper."""

    @field_validator("constraints")
    @classmethod
    def _some_and_different(cls, constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
        if not constraints or len(set(constraints)) < len(constraints):
            raise ValueError("name at least one constraint, and each once")
        return constraints


class FormatsSource:
    """Short instructions with rules that an answer must keep, each a source of error of its own.

    A task's family and stratum are what it asks for (`count+case`), or its plain skill.
    """

    description = (
        "Answer with words of a given list, and keep every rule that the task states: exactly so many words, a word to "
        "leave out or include, upper case, a sum after the words, JSON or tags around them. Without a number all words "
        "are asked for. The answer is the words between commas and nothing else, and ends by itself."
    )
    instruction = ""
    labels = ()
    grader = "formats"

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        if path is not None:
            raise SetupError(f"the source 'formats' is generated and reads no file, got tasks.path = {path!r}")
        self.options = read_options(FormatsOptions, options, where="task source 'formats'")
        self.seed = seed

    def items(self) -> Sequence[Item]:
        """Every task, the ordinary ones first."""
        return _world(self.options, self.seed)

    def solution(self, item: Item) -> str:
        """An answer without a fault."""
        return Job.model_validate_json(item.reference).ideal


@lru_cache(maxsize=2)
def _world(options: FormatsOptions, seed: int) -> tuple[Item, ...]:
    """Kept, since a run reads its source three times and anybody can draw this world again."""
    items = tuple(_tasks(options, random.Random(f"formats {seed}")))
    plain = tuple(_plain(options, random.Random(f"formats {seed} {_RETAIN}")))
    dropped = {pair.b for pair in find_duplicates((*items, *plain), threshold=_TOO_ALIKE)}
    return tuple(item for item in (*items, *plain) if item.id not in dropped)


def _tasks(options: FormatsOptions, rng: random.Random) -> Iterator[Item]:
    for number in range(1, options.items + 1):
        job = draw_task(rng, options.constraints)
        family = "+".join(job.constraints)
        yield _item(f"f{number:04d}", job, family, "")


def _plain(options: FormatsOptions, rng: random.Random) -> Iterator[Item]:
    """The skills in turn."""
    for number in range(1, options.retain + 1):
        skill = PLAIN_SKILLS[number % len(PLAIN_SKILLS)]
        yield _item(f"r{number:04d}", draw_skill(rng, skill), skill, _RETAIN)


def _item(identity: str, job: Job, family: str, pool: str) -> Item:
    return Item(
        id=identity,
        input=job.text,
        reference=job.model_dump_json(exclude_defaults=True),
        family=family,
        stratum=family,
        pool=pool,
    )
