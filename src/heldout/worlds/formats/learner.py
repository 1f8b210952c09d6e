"""The simulated learner of the world `formats`: a labelled simulation of a model whose weights can be trained.

Its weights are a file of probabilities (`skills`), and the trainer `simulated` moves them (`learning`). Its answers are
real texts: the ideal one, or one with faults that the grader then has to find.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError
from heldout.models.base import Reply, Request
from heldout.options import read_options
from heldout.records import Record, digest_of
from heldout.store.weights import WeightsStore
from heldout.worlds.formats.faulty import can_fail, faulty_answer
from heldout.worlds.formats.job import Fault, Job
from heldout.worlds.formats.reading import read_job
from heldout.worlds.formats.skills import (
    START_SKILLS,
    Learning,
    SimulatedCheckpoint,
    Skills,
    read_checkpoint,
    write_checkpoint,
)

__all__ = ["FormatsLearner", "FormatsLearnerOptions"]

_STRANGER = "I do not know this task."
_BYTES_PER_TOKEN = 4
_FAULTS = tuple(Fault)
_WIDTH = 8
"""Bytes of a hash for each fault: four for the draw, four for whether it is a new one."""


class FormatsLearnerOptions(Record):
    """`model.options` of the simulated learner."""

    redraw: float = Field(default=0.15, ge=0.0, le=1.0)
    """r: share of the (task, fault) pairs whose luck each weights redraw; the rest keep the task's own, so that
    outcomes are paired. The luck of two weights differs in a share 1 − (1 − r)²."""
    seed: int = Field(default=0, ge=0)
    """Another seed is another learner: other luck, task by task."""
    skills: Mapping[str, float] = Field(default_factory=dict)
    """Start skills instead of those of the named checkpoint, by name of the fault or plain skill."""
    learning: Learning = Learning()
    """Constants of the simulated training."""


class FormatsLearner:
    """`simulated_formats` (or `:base`) and `simulated_formats:instruct`. It knows a task by its text alone.

    With u_c uniform, fixed for the task's text and fault c, an answer has the fault where u_c ≥ skill_c; a share
    `redraw` of the u_c is drawn anew by each weights, and a share of the temperature for each request's seed. A reply
    that should stop and does not goes on until `max_tokens`. Tokens are bytes over four.
    """

    deterministic: bool
    can_choose = False
    simulated = True
    serves_weights = True
    trainer = "simulated"
    name = "simulated_formats"

    def __init__(self, config: ModelConfig, *, answer_key: Mapping[str, str] | None = None) -> None:
        del answer_key  # Other simulations need one; a task of this world says everything itself.
        self.options = read_options(FormatsLearnerOptions, config.options, where="model 'simulated_formats'")
        self._source, self._start = config.name, _start(config.name, self.options)
        self._temperature, self._max_tokens = config.temperature, config.max_tokens
        self._store: WeightsStore | None = None
        self.deterministic = config.temperature == 0.0
        identity = [self._start.model_dump(), self.options.redraw, self.options.seed, config.temperature]
        self.fingerprint = f"simulated_formats:{digest_of([*identity, config.max_tokens])[:16]}"

    def serve(self, store: WeightsStore) -> str:
        """Take weights from `store` from now on; returns the digest of the start checkpoint, which is put in it."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "start"
            write_checkpoint(folder, self._start)
            digest = store.adopt(folder, source=self._source)
        self._store = store
        return digest

    def skills(self, weights: str | None) -> Skills:
        """What these weights can do; None are the start's."""
        if weights is None:
            return self._start.skills
        if self._store is None:
            raise ModelError(f"asked for the weights {weights[:12]!r} before any store was served")
        return _skills_in(self._store.path(weights))

    def complete(self, request: Request) -> Reply:
        """An answer, at once."""
        return self._reply(request, self.skills(request.weights))

    def complete_batch(self, requests: Sequence[Request]) -> list[Reply]:
        """Replies in the order of the requests; each is that of `complete`."""
        return [self.complete(request) for request in requests]

    def close(self) -> None:
        """Nothing was started."""

    def _reply(self, request: Request, skills: Skills) -> Reply:
        tokens_in = max(1, sum(len(message.content.encode()) for message in request.messages) // _BYTES_PER_TOKEN)
        asked = next((message.content for message in reversed(request.messages) if message.role == "user"), "")
        job = read_job(asked)
        text, stopped = _STRANGER, True
        if job is not None:
            text, stopped = self._answer(asked, job, request, skills)
        limit = request.max_tokens or self._max_tokens
        room = limit * _BYTES_PER_TOKEN
        if stopped and len(text) <= room:
            return _reply(text, "stop", tokens_in, max(1, len(text) // _BYTES_PER_TOKEN))
        return _reply(text if stopped else _run_on(text, asked, room), "length", tokens_in, limit, room=room)

    def _answer(self, asked: str, job: Job, request: Request, skills: Skills) -> tuple[str, bool]:
        """A line, and whether it ends by itself."""
        identity = _identity(skills)
        redraws = [(f"weights {identity}", self.options.redraw)]
        temperature = self._temperature if request.temperature is None else request.temperature
        if temperature > 0.0:
            redraws.append((f"request {request.seed} {identity}", min(1.0, temperature)))
        luck = _luck(f"{self.options.seed} {asked}", redraws)
        failed = {fault for fault in can_fail(job) if luck[fault] >= skills.of(_skill(fault, job))}
        return faulty_answer(job, failed, _picker(asked)), luck[Fault.STOP] < skills.stop


def _skill(fault: Fault, job: Job) -> str:
    """Name of the skill that avoids a fault of this task."""
    return fault if job.skill == "list" else job.skill


def _start(name: str, options: FormatsLearnerOptions) -> SimulatedCheckpoint:
    _, colon, which = name.partition(":")
    start = START_SKILLS.get(which if colon else "base")
    if start is None:
        there = ", ".join(f"simulated_formats:{one}" for one in START_SKILLS)
        raise SetupError(f"no simulated checkpoint {name!r}; there is {there}")
    changed = {"copies" if one == "copy" else one: value for one, value in options.skills.items()}
    skills = read_options(Skills, start.model_dump() | changed, where="model 'simulated_formats', skills")
    return SimulatedCheckpoint(skills=skills, learning=options.learning)


@lru_cache(maxsize=256)
def _skills_in(folder: Path) -> Skills:
    """Remembered: a folder of weights is named after its content."""
    return read_checkpoint(folder).skills


@lru_cache(maxsize=256)
def _identity(skills: Skills) -> str:
    return digest_of(skills.model_dump())


def _luck(words: str, redraws: Sequence[tuple[str, float]]) -> dict[Fault, float]:
    """The uniform of each fault: the last of the (salt, share) redraws that happened, else the task's own."""
    uniforms = _uniforms(words)[: len(_FAULTS)]
    for salt, share in redraws:
        drawn = _uniforms(f"{salt} {words}")
        pairs = zip(uniforms, drawn[: len(_FAULTS)], drawn[len(_FAULTS) :], strict=True)
        uniforms = [new if decision < share else old for old, new, decision in pairs]
    return dict(zip(_FAULTS, uniforms, strict=True))


def _uniforms(words: str) -> list[float]:
    """Two for each fault, in [0, 1), 32 bits each."""
    drawn = hashlib.blake2b(words.encode(), digest_size=_WIDTH * len(_FAULTS)).digest()
    return [int.from_bytes(drawn[at : at + 4], "big") / 2**32 for at in range(0, len(drawn), 4)]


def _picker(text: str) -> Callable[[str, int], int]:
    """Choices among ways to be wrong, the same for one task."""

    def pick(what: str, among: int) -> int:
        drawn = hashlib.blake2b(f"{what} {text}".encode(), digest_size=4).digest()
        return int.from_bytes(drawn, "big") % among

    return pick


def _run_on(text: str, asked: str, room: int) -> str:
    """The line, and after it whatever comes to mind until there is no more room."""
    return f"{text}\n" + f"{asked}\n{text}\n" * (1 + room // (len(asked) + len(text) + 2))


def _reply(text: str, reason: str, tokens_in: int, tokens_out: int, *, room: int | None = None) -> Reply:
    return Reply.model_construct(
        text=text if room is None else text[:room], finish_reason=reason, tokens_in=tokens_in, tokens_out=tokens_out
    )
