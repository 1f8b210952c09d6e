"""Draws tasks of the world."""

from __future__ import annotations

import random
from collections.abc import Sequence

from heldout.worlds.formats.job import Constraint, Job, Skill, Wrapper
from heldout.worlds.formats.wording import WORDING, WORDS

__all__ = ["PLAIN_SKILLS", "draw_focused", "draw_job", "draw_simple", "draw_skill", "draw_task"]

PLAIN_SKILLS: tuple[Skill, ...] = ("copy", "reverse", "sort")

MIN_WORDS, MAX_WORDS = 3, 5
_CARRYING = 0.85
"""Share of the sums whose ones digits carry."""


_SIZES = (1, 2, 2, 3)
"""How many constraints a task has, each entry as likely as the others."""


def draw_task(rng: random.Random, among: Sequence[Constraint] = tuple(Constraint)) -> Job:
    """A task as the roles hold it: one to three constraints, each set of a size as likely as the others."""
    size = min(rng.choice(_SIZES), len(among))
    return draw_job(rng, rng.sample(list(among), size))


def draw_focused(rng: random.Random, constraint: Constraint) -> Job:
    """A task with this constraint and up to two others."""
    others = [other for other in Constraint if other is not constraint]
    return draw_job(rng, [constraint, *rng.sample(others, rng.choice(_SIZES) - 1)])


def draw_simple(rng: random.Random) -> Job:
    """A task that asks for little: all words of a list, at most in upper case or without (or with) one of them."""
    return draw_job(rng, rng.choice(((), (Constraint.CASE,), (Constraint.WORD,))))


def draw_job(rng: random.Random, constraints: Sequence[Constraint]) -> Job:
    """A task with exactly these constraints; words, numbers, wrapper and wording are drawn."""
    words = tuple(rng.sample(WORDS, rng.randint(MIN_WORDS, MAX_WORDS)))
    asked = frozenset(constraints)
    special = rng.choice(words) if Constraint.WORD in asked else None
    leaves_out = rng.random() < 0.5
    wrappers: tuple[Wrapper, ...] = ("json", "tags")
    return Job(
        words=words,
        count=rng.randint(2, len(words) - 1) if Constraint.COUNT in asked else None,
        exclude=special if leaves_out else None,
        include=None if leaves_out else special,
        upper=Constraint.CASE in asked,
        addends=_addends(rng) if Constraint.CARRY in asked else None,
        wrapper=rng.choice(wrappers) if Constraint.WRAPPER in asked else "plain",
        wording=rng.randrange(len(WORDING)),
    )


def draw_skill(rng: random.Random, skill: Skill) -> Job:
    """A task of a plain skill, which no constraint touches."""
    words = tuple(rng.sample(WORDS, rng.randint(MIN_WORDS - 1, MAX_WORDS - 1)))
    return Job(words=words, skill=skill, wording=rng.randrange(len(WORDING)))


def _addends(rng: random.Random) -> tuple[int, int]:
    """Two numbers from 10 to 99; most of them carry from the ones."""
    wants_carry = rng.random() < _CARRYING
    while True:
        a, b = rng.randint(10, 99), rng.randint(10, 99)
        if not wants_carry or a % 10 + b % 10 >= 10:
            return a, b
