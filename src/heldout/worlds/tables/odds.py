"""What may happen in an episode, with its probabilities; the worker draws from it, and the truth is summed over it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from heldout.worlds.tables.job import Job
from heldout.worlds.tables.levels import ASSUMED, Manner, Reading, level
from heldout.worlds.tables.parts import PARTS_OF_CLASS, RULES, Part
from heldout.worlds.tables.skill_lines import Known

__all__ = ["CHECK_OF", "MENDING", "RULE_OF", "Course", "Draws", "PartOdds", "draw", "kept", "odds_of", "run_course"]

_NAMES = tuple(rule.name for rule in RULES)
_PARTS = tuple(Part)

RULE_OF: Mapping[Part, str] = {rule.part: rule.name for rule in RULES if rule.part is not None} | {Part.STEPS: "order"}
"""The rule that decides a part rightly, or keeps its steps from slipping."""

CHECK_OF: Mapping[Part, str] = {part: check for check, parts in PARTS_OF_CLASS.items() for part in parts}
"""The check that finds a part's fault."""

MENDING: frozenset[str] = frozenset(rule.name for rule in RULES if rule.module in ("m5_attribution.md", "m6_repair.md"))
"""The rules that help to mend a found fault."""

_MENDS = tuple(ASSUMED.mend + ASSUMED.mend_rules * count / len(MENDING) for count in range(len(MENDING) + 1))
"""Level of mending a found fault, by how many of them there are."""


@dataclass(frozen=True, slots=True)
class PartOdds:
    """Probabilities of one part of one task under one text."""

    part: Part
    right: tuple[float, float]
    """Without, and with, its rule in the solver's skill."""
    found: tuple[float, float]
    """That its fault is found: without, and with, the check."""
    mended: tuple[float, ...]
    """That the found fault is mended, by how many rules of `MENDING` the skill holds."""


@dataclass(frozen=True, slots=True)
class Draws:
    """The uniforms of one episode, by part in the order of `Part`, and by rule in the order of `RULES`."""

    right: Sequence[float]
    found: Sequence[float]
    mended: Sequence[float]
    omitted: Sequence[float]


@dataclass(frozen=True, slots=True)
class Course:
    """How an episode goes, whether or not a recovery is allowed."""

    wrong: frozenset[Part]
    """At the first submission."""
    found: Part | None
    """The first of them that the solver's own checks find."""
    mended: bool
    """Whether a repair aimed at it succeeds."""
    noticed: bool = False
    """Where it does not: whether the check is run again, so that the second submission says so."""

    @property
    def left(self) -> frozenset[Part]:
        """Wrong after a repair."""
        return self.wrong - {self.found} if self.mended else self.wrong


def odds_of(job: Job, reading: Reading, held: Mapping[str, Manner], *, slip: float) -> tuple[PartOdds, ...]:
    """The odds of every part, in the task's order; `held` says how each rule reaches the solver, where it does."""
    fixed = _fixed(Known(job))
    return tuple([_part_odds(part, job, reading, held, fixed, slip) for part in job.parts])


def _part_odds(
    part: Part, job: Job, reading: Reading, held: Mapping[str, Manner], fixed: _Fixed, slip: float
) -> PartOdds:
    at = _PARTS.index(part)
    if part is Part.STEPS:
        right = (_no_slip(slip + ASSUMED.disorder, job.steps), _no_slip(slip, job.steps))
    else:
        manner, u = held.get(RULE_OF[part]), fixed.right[at]
        without = _holds(u, level(part, job, reading, None))
        right = (without, without if manner is None else _holds(u, level(part, job, reading, manner)))
    check = held.get(CHECK_OF[part]) if "trust" not in reading.harmful else None
    finds = {None: ASSUMED.no_check, Manner.LINE: ASSUMED.check_line, Manner.SENTENCE: ASSUMED.check_sentence}
    return PartOdds(
        part=part,
        right=right,
        found=(_holds(fixed.found[at], finds[None]), _holds(fixed.found[at], finds[check])),
        mended=tuple([_holds(fixed.mended[at], mend) for mend in _MENDS]),
    )


def _holds(u: float, threshold: float) -> float:
    return 1.0 - ASSUMED.flip if u < threshold else ASSUMED.flip


def _no_slip(slip: float, steps: int) -> float:
    return max(0.0, 1.0 - slip) ** steps


def kept(rules: Collection[str], draws: Draws) -> frozenset[str]:
    """Of these rules of a guide, those that the writer makes lines of."""
    drawn = zip(_NAMES, draws.omitted, strict=True)
    return frozenset([name for name, u in drawn if name in rules and u >= ASSUMED.omission])


def run_course(odds: Sequence[PartOdds], held: Collection[str], draws: Draws) -> Course:
    """One episode of a solver whose skill holds these rules."""
    wrong = [one for one in odds if draws.right[_PARTS.index(one.part)] >= one.right[RULE_OF[one.part] in held]]
    names = frozenset([one.part for one in wrong])
    for one in wrong:
        at = _PARTS.index(one.part)
        if draws.found[at] < one.found[CHECK_OF[one.part] in held]:
            count = sum(name in held for name in MENDING)
            mended = draws.mended[at] < one.mended[count]
            return Course(names, one.part, mended, noticed=not mended and "again" in held)
    return Course(names, None, mended=False)


def draw(job: Job, *, digest: str, seed: int) -> Draws:
    """The draws of the episode with this seed of the text with this digest: another text redraws everything."""
    found = _uniforms(f"{job.id}\0{job.request}\0{seed}\0{digest}", 3 * len(_PARTS) + len(_NAMES))
    n = len(_PARTS)
    return Draws(found[:n], found[n : 2 * n], found[2 * n : 3 * n], found[3 * n :])


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What is fixed about a task: a uniform for each part, as in `Draws`."""

    right: Sequence[float]
    found: Sequence[float]
    mended: Sequence[float]


@lru_cache(maxsize=8192)
def _fixed(known: Known) -> _Fixed:
    n = len(_PARTS)
    found = _uniforms(f"{known.job.id}\0{known.job.request}", 3 * n)
    return _Fixed(found[:n], found[n : 2 * n], found[2 * n :])


def _uniforms(key: str, count: int) -> tuple[float, ...]:
    """Strictly between 0 and 1, from the hash of the key."""
    drawn = hashlib.shake_128(key.encode()).digest(4 * count)
    return tuple([(value + 0.5) / 2.0**32 for value in struct.unpack(f">{count}I", drawn)])
