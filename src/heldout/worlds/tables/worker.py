"""The simulated worker of the world `tables`: a model that plays the writer of skills and the solver that follows one.

A simulation: it knows the job of every request that it was made for, and how that goes is decided by the texts that it
is given (`levels`) and by draws (`odds`). What it then does in the sandbox are real operations on real tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

from pydantic import Field

from heldout.config import ModelConfig
from heldout.models.base import Message, Reply, Request
from heldout.models.simulated_skill import item_draws
from heldout.options import read_options
from heldout.records import Record, digest_of
from heldout.worlds.tables.generator import job_of
from heldout.worlds.tables.grading import read_origin
from heldout.worlds.tables.job import Job
from heldout.worlds.tables.levels import SLIP, carried, manners, read_guide, read_skill
from heldout.worlds.tables.odds import CHECK_OF, Course, draw, kept, odds_of, run_course
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.programs import program
from heldout.worlds.tables.skill_lines import write_skill
from heldout.worlds.tables.truth import PART_STAGE

__all__ = ["TableWorker", "TableWorkerOptions"]

_WRITER = "# Write one skill\n"
_GUIDE = re.compile(r"^#+ (?:Module 1\b|Inputs\b)", re.MULTILINE)
"""Where the modules begin in a writer's system message."""
_REQUEST, _SHOWS = "# Request\n\n", "\n\n# What the task shows\n"
_SKILL, _PROTOCOL = "\n\n# Skill\n\n", "\n\n# How you work\n"
_RECOVERY = "# One recovery"
_SUBMIT = "echo HELDOUT_SUBMIT"
_STRANGER = "I do not know this request."
_REPAIR_STAGE = "bounded recovery"


class TableWorkerOptions(Record):
    """`model.options` of the simulated worker."""

    slip: float = Field(default=SLIP, ge=0.0, le=0.5)
    """Probability that a step of a task slips; without the rule of the order of steps it is higher by 0.03."""


class TableWorker:
    """Writes skills and follows them. Stateless: a reply depends on the request's messages and seed alone.

    `answer_key` holds, by `models.simulated.answer_key`, the reference of every request that it knows; as the solver
    of any other it submits at once, as the writer it says that it does not know it. Tokens are bytes over four.
    `max_tokens` and `temperature` are not looked at.
    """

    name = "simulated_tables"
    deterministic = True
    can_choose = False
    simulated = True

    def __init__(self, config: ModelConfig, *, answer_key: Mapping[str, str] | None = None) -> None:
        self.options = read_options(TableWorkerOptions, config.options, where="model 'simulated_tables'")
        self._key = dict(answer_key or {})
        self.fingerprint = f"simulated_tables:{digest_of([self._key, self.options.model_dump()])[:16]}"

    def complete(self, request: Request) -> Reply:
        """A skill, or the next command of this conversation."""
        text = self._reply(request.messages, seed=request.seed)
        tokens_in = sum(_token_count(message.content) for message in request.messages)
        return Reply.model_construct(text=text, tokens_in=max(1, tokens_in), tokens_out=_token_count(text))

    def close(self) -> None:
        """Nothing was started."""

    def job(self, request: str) -> Job | None:
        """The job that a request is about; None for one that the worker was not made for."""
        reference = self._key.get(item_draws(request, seed=0).key)
        return None if reference is None else job_of(read_origin(reference))

    def _reply(self, messages: Sequence[Message], *, seed: int) -> str:
        system = "\n".join(message.content for message in messages if message.role == "system")
        asked = next((number for number, message in enumerate(messages) if message.role == "user"), None)
        if asked is None:
            return _say(_Move.SUBMIT, _SUBMIT)
        if system.startswith(_WRITER):
            return self._write(system, messages[asked].content, seed=seed)
        job = self.job(messages[asked].content)
        if job is None:
            return f"{_STRANGER}\n\n```bash\n{_SUBMIT}\n```"
        skill = _skill_in(system)
        return _solve(job, self._course(job, skill, seed=seed), messages[asked + 1 :])

    def _write(self, system: str, asked: str, *, seed: int) -> str:
        job = self.job(asked.removeprefix(_REQUEST).partition(_SHOWS)[0])
        if job is None:
            return _STRANGER
        begins = _GUIDE.search(system)
        reading = read_guide(system[begins.start() :] if begins else "")
        rules = kept(reading.rules, draw(job, digest=reading.digest, seed=seed))
        return write_skill(job, rules, digest=reading.digest, carried=carried(reading))

    def _course(self, job: Job, skill: str, *, seed: int) -> Course:
        reading = read_skill(skill, job)
        held = manners(reading, job)
        odds = odds_of(job, reading, held, slip=self.options.slip)
        return run_course(odds, held, draw(job, digest=reading.digest, seed=seed))


class _Move(StrEnum):
    """What the solver says as it does it; by its first line it knows its own earlier turns."""

    WORK = "I do the whole task with one program."
    SUBMIT = "My checks pass; I submit."
    FAULT = "One of my checks fails; I submit and say which."
    REPAIR = "I repair the faulty step and carry out what depends on it."
    RESUBMIT = "The repair is made; I submit."
    ABSTAIN = "The failed check still fails; I submit what is verified."


def _skill_in(system: str) -> str:
    """The skill in a solver's system message; empty where there is none."""
    _, _, rest = system.partition(_SKILL)
    text, found, _ = rest.rpartition(_PROTOCOL)
    return (text if found else rest).strip()


def _solve(job: Job, course: Course, said: Sequence[Message]) -> str:
    past = [move for message in said if message.role == "assistant" if (move := _move_in(message.content))]
    last = past[-1] if past else None
    if last is None:
        return _say(_Move.WORK, _run(job, course.wrong))
    if last is _Move.WORK:
        return _say(_Move.SUBMIT, _SUBMIT) if course.found is None else _say(_Move.FAULT, _fault(course.found))
    if last is _Move.FAULT and course.found is not None and _RECOVERY in said[-1].content:
        return _say(_Move.REPAIR, _run(job, course.left))
    if last is _Move.REPAIR and course.noticed:
        return _say(_Move.ABSTAIN, _declare(_REPAIR_STAGE, "the check that failed was run again and fails still"))
    return _say(_Move.RESUBMIT if last is _Move.REPAIR else _Move.SUBMIT, _SUBMIT)


def _move_in(said: str) -> _Move | None:
    first = said.partition("\n")[0]
    return next((move for move in _Move if move.value == first), None)


def _say(move: _Move, command: str) -> str:
    return f"{move.value}\n\n```bash\n{command}\n```"


def _run(job: Job, wrong: frozenset[Part]) -> str:
    return f"python3 - <<'PY'\n{program(job, wrong).rstrip()}\nPY"


def _fault(part: Part) -> str:
    return _declare(PART_STAGE[part], f"{part}: the check {CHECK_OF[part]} finds another result than asked for")


def _declare(stage: str, what: str) -> str:
    return f"echo 'HELDOUT_FAULT {stage}: {what}'; {_SUBMIT}"


def _token_count(text: str) -> int:
    """Bytes over four, at least one."""
    return max(1, len(text.encode()) // 4)
