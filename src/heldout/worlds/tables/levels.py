"""How well the parts of a task go under a text: a guide, one skill for all tasks, or nothing.

Every number here is a stated assumption of the simulation (`Assumptions`); none was measured on a language model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from pydantic import Field

from heldout.records import Record
from heldout.worlds.tables.catalogue import CATALOGUE, HARMFUL, LITERAL_TRAPS, bound_literals
from heldout.worlds.tables.job import Job
from heldout.worlds.tables.parts import CHANCE, RULES, SUMMARY_CHANCE, Part
from heldout.worlds.tables.skill_lines import bindings_in, digest_in, lines_in, lines_of, outputs_in

__all__ = [
    "ASSUMED",
    "SLIP",
    "Assumptions",
    "Manner",
    "Reading",
    "carried",
    "chance",
    "level",
    "manners",
    "read_guide",
    "read_skill",
    "read_text",
]


class Assumptions(Record):
    """The numbers of the simulated writer and solver. A level is a share of tasks; `CHANCE` has those without a rule.

    Every yes or no of an episode (a part is right, its fault is found, the fault is mended) has a level and a uniform
    u that is fixed for the task: it holds where u < level, with the two sides exchanged with probability `flip`.
    """

    line: float = Field(default=0.97, gt=0.0, le=1.0)
    """Level of a part whose rule the writer made a line of this task."""
    sentence: float = Field(default=0.85, gt=0.0, le=1.0)
    """Level, at least, of a part whose rule is a sentence that the solver must apply by itself."""
    wrong_literal: float = Field(default=0.93, gt=0.0, le=1.0)
    """What every binding to a name of another task multiplies the level of its part by; a right one makes it 1."""
    harmful: float = Field(default=0.3, ge=0.0, le=1.0)
    """Level, at most, of a part under a harmful sentence."""
    flip: float = Field(default=0.01, ge=0.0, lt=0.5)
    """Probability that an episode goes against what is fixed for the task."""
    disorder: float = Field(default=0.03, ge=0.0, le=0.5)
    """Added to the probability of a slip in each step where the rule `order` is absent."""
    omission: float = Field(default=0.03, ge=0.0, lt=1.0)
    """Probability that the writer leaves out the line of a rule that its guide holds."""
    check_line: float = Field(default=0.95, ge=0.0, le=1.0)
    """Level of finding a fault that a CHECK line of this task looks for."""
    check_sentence: float = Field(default=0.8, ge=0.0, le=1.0)
    """The same where the check is a sentence that the solver must apply by itself."""
    no_check: float = Field(default=0.25, ge=0.0, le=1.0)
    """The same without a check for it."""
    mend: float = Field(default=0.4, ge=0.0, le=1.0)
    """Level of mending a found fault without any rule of attribution and repair."""
    mend_rules: float = Field(default=0.5, ge=0.0, le=1.0)
    """Added to it where all six of them are present, and in proportion below."""


ASSUMED = Assumptions()

SLIP = 0.02
"""Probability of a slip in each step, where an option says nothing else."""


class Manner(StrEnum):
    """How a text holds a rule."""

    LINE = "line"
    """As this task's own line."""
    SENTENCE = "sentence"
    """As a rule for every task."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the simulation takes from a text."""

    digest: str
    """Of the text, or of the guide that it was written from; the draws of an episode follow from it."""
    rules: frozenset[str]
    """Names of the rules whose sentence it holds."""
    harmful: frozenset[str]
    """Names of the harmful edits whose sentence it holds."""
    always_summary: bool
    literals: tuple[tuple[Part, str], ...]
    """Names that it binds in the words of the traps."""
    lines: frozenset[str]
    """Lines of the skill language."""
    bindings: frozenset[tuple[str, str]]
    outputs: frozenset[str]


def _plain(text: str) -> str:
    """White space and case aside."""
    return " ".join(text.casefold().split())


_RULES = {rule.name: _plain(rule.text) for rule in RULES}
_HARMFUL = {edit.name: _plain(edit.text) for edit in HARMFUL}
_ALWAYS = {edit.name: edit.text for edit in CATALOGUE if edit.kind == "always"}


@lru_cache(maxsize=1024)
def read_text(text: str) -> Reading:
    """What a text says to the simulation; of an empty one, nothing. Pure, and remembered."""
    plain, lines = _plain(text), lines_in(text)
    return Reading(
        digest=_digest(text.strip()),
        rules=frozenset(name for name, sentence in _RULES.items() if sentence in plain),
        harmful=frozenset(name for name, sentence in _HARMFUL.items() if sentence in plain),
        always_summary=any(_plain(sentence) in plain for sentence in _ALWAYS.values()),
        literals=bound_literals(text),
        lines=lines,
        bindings=bindings_in(lines),
        outputs=outputs_in(lines),
    )


def read_skill(text: str, job: Job) -> Reading:
    """What a skill says to the solver of a task: the skill that was written for it goes by its guide's digest, since
    the two are one episode, and every other skill by that of its whole text."""
    reading, digest = read_text(text), digest_in(text, job)
    return reading if digest is None else replace(reading, digest=digest)


@lru_cache(maxsize=1024)
def read_guide(text: str) -> Reading:
    """What the modules of a guide, one after another, say to the writer. Pure, and remembered.

    Headings and blank lines are no part of its digest, so that the modules in the writer's request, under whatever
    headings they stand there, are the guide that lies in their files.
    """
    lines = (line.strip() for line in text.splitlines())
    digest = _digest("\n".join(line for line in lines if line and not line.startswith("#")))
    nothing: frozenset[str] = frozenset()
    return replace(read_text(text), digest=digest, lines=nothing, bindings=frozenset(), outputs=nothing)


def _digest(text: str) -> str:
    """Identity of a text in draws; of an empty one, empty."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest() if text else ""


def carried(reading: Reading) -> tuple[str, ...]:
    """The sentences of a guide that the writer copies into every skill: whatever is neither a rule nor without
    effect."""
    harmful = [edit.text for edit in HARMFUL if edit.name in reading.harmful]
    always = _ALWAYS.values() if reading.always_summary else ()
    texts = {trap.part: trap.text for trap in LITERAL_TRAPS}
    return (*harmful, *always, *(texts[part].format(name=name) for part, name in reading.literals))


def manners(reading: Reading, job: Job) -> Mapping[str, Manner]:
    """How a skill holds each rule that it holds, for this task. A line of another task holds nothing."""
    own = lines_of(job)
    found = dict.fromkeys(reading.rules, Manner.SENTENCE)
    return found | {name: Manner.LINE for name, line in own.items() if line in reading.lines}


def chance(part: Part, job: Job) -> float:
    """Level of a part without any rule; STEPS has none, since a slip is no decision."""
    return SUMMARY_CHANCE if part is Part.OUTPUTS and job.summary is not None else CHANCE[part]


def level(part: Part, job: Job, reading: Reading, manner: Manner | None) -> float:
    """Share of tasks like this one in which the part is right; `manner` says how its rule reaches the solver."""
    base = chance(part, job)
    if manner is not None:
        base = max(base, ASSUMED.line if manner is Manner.LINE else ASSUMED.sentence)
    if part is Part.OUTPUTS:
        base = _outputs(base, job, reading)
    base = _bound(base, part, job, reading)
    if any(edit.part is part for edit in HARMFUL if edit.name in reading.harmful):
        base = min(base, ASSUMED.harmful)
    return base


def _outputs(base: float, job: Job, reading: Reading) -> float:
    """An OUTPUT line of another task is obeyed like one of this task, and the trap is obeyed always."""
    if reading.always_summary:
        return 1.0 if job.summary is not None else 0.0
    return base if reading.outputs <= {lines_of(job)["outputs"]} else 1.0 - ASSUMED.line


def _bound(base: float, part: Part, job: Job, reading: Reading) -> float:
    names = [name for bound, name in reading.literals if bound is part]
    strange = [name for bound, name in reading.bindings if bound == part and name != job.names.get(part)]
    if job.names.get(part) in names:
        base = 1.0
    wrong = len(strange) + sum(name != job.names.get(part) for name in names)
    return base * ASSUMED.wrong_literal**wrong
