"""What gates make of trainings without effect: many tables of a simulated model against its own null trainings."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.config import ExecutorConfig, GateConfig, ModelConfig
from heldout.gates import GenerationTable, make_gate
from heldout.models import Message, Request
from heldout.records import Record, Verdict
from heldout.rollouts import make_executor
from heldout.stats import null_accept_rate
from heldout.worlds.formats.generator import draw_task
from heldout.worlds.formats.grading import faults_in
from heldout.worlds.formats.job import Job
from heldout.worlds.formats.learner import FormatsLearner
from heldout.worlds.formats.learning import Exposure, Schooling, learned
from heldout.worlds.formats.skills import START_SKILLS, Learning, Skills, true_accuracy

__all__ = ["GATES", "NOISES", "Asked", "NullRates", "null_rates", "tally"]

GATES: Mapping[str, GateConfig] = {kind: GateConfig(kind=kind) for kind in ("net", "greedy", "noise", "mcnemar")}
"""Rules that decide on a trained child, as `gate.kind` names them."""

NOISES = (0.0, Learning().noise)
"""σ of the training noise: none, so that only the luck of new weights is left, and the world's own."""

_START = START_SKILLS["instruct"]
_USUAL = Schooling(steps=300, batch=32, rate=1e-3)
_NOTHING = Exposure(examples=1, right={}, wrong={})
_NUDGE = 1e-6
_MOST_S = 7200.0


@dataclass(frozen=True, slots=True)
class Asked:
    """Tables that one process makes."""

    noise: float
    n: int
    """Select tasks of a table."""
    tables: tuple[int, ...]


class Tally(Record):
    """One table: a parent, and two trainings of one recipe without effect."""

    accepted: Mapping[str, bool]
    """Whether each gate takes the first child."""
    measured: float
    """Its measured gain."""
    true: float
    """Its true gain on the same tasks."""
    flips: float
    """Share of the tasks on which parent and child differ."""
    training_se: float
    """What the gate `noise` is told: from the difference of the two children."""


class NullRates(Record):
    """One gate at one training noise."""

    gate: str
    noise: float
    tables: int
    accepted: int
    n: int
    expected: float
    """Chance that more tasks are fixed than broken, of as many flips in random directions."""
    measured_sd: float
    """Standard deviation of the measured gain, a fraction of one."""
    true_sd: float


def null_rates(tables: int, *, n: int, workers: int, noises: Sequence[float] = NOISES) -> tuple[NullRates, ...]:
    """Every gate on the same tables, for each training noise."""
    several = ExecutorConfig(kind="process", workers=workers, timeout_s=_MOST_S)
    executor = make_executor(several if workers > 1 else ExecutorConfig(kind="inline"))
    asked = [Asked(noise, n, tuple(range(at, tables, workers))) for noise in noises for at in range(workers)]
    try:
        waiting = [(one.noise, executor.submit(tally, one)) for one in asked]
        found = [(noise, future.result()) for noise, future in waiting]
    finally:
        executor.close()
    return tuple(
        _rates(gate, noise, [one for own, some in found if own == noise for one in some], n)
        for noise in noises
        for gate in GATES
    )


def tally(asked: Asked) -> list[Tally]:
    """In the order of the tables; each has its own tasks and its own learner."""
    return [_table(number, asked) for number in asked.tables]


def _table(number: int, asked: Asked) -> Tally:
    rng = random.Random(f"null gates {number}")
    jobs = [draw_task(rng) for _ in range(asked.n)]
    children = [_trained(asked.noise, number, repeat) for repeat in (0, 1)]
    parent, first, second = (_scores(skills, jobs, seed=number) for skills in (_START, *children))
    table = GenerationTable(
        incumbent=parent[:, None],
        candidates=first[None, :, None],
        edit_sizes=np.zeros(1, dtype=np.int64),
        seed=number,
        training_se=abs(float((second - first).mean())) / math.sqrt(2.0),
    )
    return Tally(
        accepted={name: make_gate(config).decide(table).verdict is Verdict.ACCEPT for name, config in GATES.items()},
        measured=float((first - parent).mean()),
        true=true_accuracy(children[0], jobs) - true_accuracy(_START, jobs),
        flips=float((first != parent).mean()),
        training_se=table.training_se,
    )


def _trained(noise: float, number: int, repeat: int) -> Skills:
    """A training that teaches and unteaches nothing. Without noise it is still another model, whose luck is its own: a
    skill that no select task asks for differs a little."""
    learning = Learning(noise=noise, forgetting=0.0)
    after = learned(_START, _NOTHING, _USUAL, learning, luck=f"null {number} {repeat}")
    return after.model_copy(update={"sort": _START.sort - _NUDGE * (1 + repeat)})


def _scores(skills: Skills, jobs: Sequence[Job], *, seed: int) -> NDArray[np.float64]:
    options = {"seed": seed, "skills": skills.model_dump()}
    learner = FormatsLearner(ModelConfig(name="simulated_formats", max_tokens=48, options=options))
    asked = [Request(messages=(Message(role="user", content=job.text),)) for job in jobs]
    replies = zip(learner.complete_batch(asked), jobs, strict=True)
    return np.array([not faults_in(reply.text, job) for reply, job in replies], dtype=np.float64)


def _rates(gate: str, noise: float, tallies: Sequence[Tally], n: int) -> NullRates:
    flips = float(np.mean([one.flips for one in tallies]))
    return NullRates(
        gate=gate,
        noise=noise,
        tables=len(tallies),
        accepted=sum(one.accepted[gate] for one in tallies),
        n=n,
        expected=null_accept_rate(n, flips, weight=1.0, min_u=1.0),
        measured_sd=float(np.std([one.measured for one in tallies], ddof=1)),
        true_sd=float(np.std([one.true for one in tallies], ddof=1)),
    )
