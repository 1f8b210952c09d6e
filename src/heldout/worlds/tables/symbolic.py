"""Episodes of the simulated worker without messages and without a sandbox, for studies; the decisions are the same.

A simulation of the harness `skilled` with this worker: what is decided, declared and repaired is what the worker
decides there. Tokens are estimates, of the texts that would be sent, in bytes over four.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from heldout.worlds.tables.job import Job
from heldout.worlds.tables.levels import SLIP, Manner, Reading, carried, manners, read_guide, read_skill
from heldout.worlds.tables.odds import PartOdds, draw, kept, odds_of, run_course
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.programs import program
from heldout.worlds.tables.skill_lines import Known, write_skill

__all__ = ["Outlook", "Played", "outlook", "play"]

_SKILL, _NO_SKILL = "SKILL.md", "NO_SKILL.md"
_WRITER_BYTES = 2200
"""Of a writer's request besides the guide and the task's text: rules, and what the task shows."""
_SOLVER_BYTES = 1550
"""Of a solver's request besides the skill and the task's text: rules."""
_SHOWN_BYTES = 150
"""Of what a solver is shown in a turn."""
_SUBMISSION_BYTES = 100
_PROGRAM_BYTES = 80
"""Of a reply with a program, besides the program."""
_NOTE_BYTES = 420
"""Of the note that allows a recovery."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a candidate means for one task before anything is drawn."""

    reading: Reading
    writes: bool
    """A writer makes the skill, from a guide."""
    held: Mapping[str, Manner]
    """The rules that can reach the solver; of a guide, each unless the writer leaves it out."""
    odds: tuple[PartOdds, ...]
    guide_bytes: int
    """Zero without a writer."""
    skill_bytes: int
    """Of the skill, where the writer leaves nothing out."""


@dataclass(frozen=True, slots=True)
class Played:
    """One episode."""

    wrong: frozenset[Part]
    """At the end."""
    wrong_first: frozenset[Part]
    """At the first submission."""
    declared: Part | None
    """Whose fault the solver declared at its first submission."""
    recovered: bool
    """Whether a recovery was used."""
    faults: int
    """Faults declared, of the second submission too."""
    calls: int
    """Of the model: the writer's one, and the solver's turns."""
    tokens_in: int
    tokens_out: int
    job: Job = field(repr=False)
    kept: frozenset[str]
    """Rules whose line is in the transient skill."""
    outlook: Outlook = field(repr=False)

    @property
    def passed(self) -> bool:
        return not self.wrong

    def skill(self) -> str:
        """The transient skill of a guide, as the writer writes it in this episode; empty without a writer."""
        if not self.outlook.writes:
            return ""
        reading = self.outlook.reading
        return write_skill(self.job, self.kept, digest=reading.digest, carried=carried(reading))


def play(files: Mapping[str, str], job: Job, *, seed: int, slip: float = SLIP, recovery: bool = True) -> Played:
    """The episode with this seed of the candidate with these files. Pure."""
    seen = outlook(files, job, slip=slip)
    draws = draw(job, digest=seen.reading.digest, seed=seed)
    held = kept(seen.held, draws) if seen.writes else frozenset(seen.held)
    course = run_course(seen.odds, held, draws)
    recovered = recovery and course.found is not None
    tokens_in, tokens_out = _tokens(seen, job, recovered=recovered)
    return Played(
        wrong=course.left if recovered else course.wrong,
        wrong_first=course.wrong,
        declared=course.found,
        recovered=recovered,
        faults=(course.found is not None) + (recovered and course.noticed),
        calls=seen.writes + (4 if recovered else 2),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        job=job,
        kept=held if seen.writes else frozenset(),
        outlook=seen,
    )


def outlook(files: Mapping[str, str], job: Job, *, slip: float = SLIP) -> Outlook:
    """What a candidate means for a task. Pure, and remembered."""
    return _outlook(tuple(sorted(files.items())), Known(job), slip)


@lru_cache(maxsize=16384)
def _outlook(files: tuple[tuple[str, str], ...], known: Known, slip: float) -> Outlook:
    reading, writes = _read(files, known)
    held = dict.fromkeys(reading.rules, Manner.LINE) if writes else manners(reading, known.job)
    odds = odds_of(known.job, reading, held, slip=slip)
    given = sum(len(text.encode()) for name, text in files if name != _NO_SKILL)
    if not writes:
        return Outlook(reading, writes, held, odds, guide_bytes=0, skill_bytes=given)
    skill = write_skill(known.job, held, digest=reading.digest, carried=carried(reading))
    return Outlook(reading, writes, held, odds, guide_bytes=given, skill_bytes=len(skill.encode()))


def _read(files: tuple[tuple[str, str], ...], known: Known) -> tuple[Reading, bool]:
    """What a candidate says in this task, and whether that is a guide."""
    text, writes = _text(files)
    return read_guide(text) if writes else read_skill(text, known.job), writes


@lru_cache(maxsize=4096)
def _text(files: tuple[tuple[str, str], ...]) -> tuple[str, bool]:
    """The text that a candidate is read as, and whether that is a guide."""
    texts = dict(files)
    if _SKILL in texts:
        further = [f"## File of the skill: {path}\n\n{text.strip()}" for path, text in files if path != _SKILL]
        return "\n\n".join((texts[_SKILL].strip(), *further)), False
    if _NO_SKILL in texts:
        return "", False
    return "\n\n".join(texts.values()), True


def _tokens(seen: Outlook, job: Job, *, recovered: bool) -> tuple[int, int]:
    """Estimated tokens of an episode, in and out."""
    sizes = _sizes(Known(job))
    first = _SOLVER_BYTES + seen.skill_bytes + sizes.request
    turn = sizes.program + _SHOWN_BYTES
    taken, said = first + (first + turn), sizes.program + _SUBMISSION_BYTES
    if recovered:
        grown = first + turn + _SUBMISSION_BYTES + _SHOWN_BYTES + _NOTE_BYTES
        taken, said = taken + grown + (grown + turn), 2 * said
    if seen.writes:
        taken, said = taken + _WRITER_BYTES + seen.guide_bytes + sizes.request, said + seen.skill_bytes
    return taken // 4, said // 4


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes of texts that are about one task."""

    request: int
    program: int


@lru_cache(maxsize=8192)
def _sizes(known: Known) -> _Sizes:
    written = len(program(known.job, frozenset()).encode())
    return _Sizes(len(known.job.request.encode()), written + _PROGRAM_BYTES)
