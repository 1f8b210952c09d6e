"""Data builders of the world `formats`: fresh tasks with ideal answers, drawn by the request's seed.

None of them is handed a select, audit or report task. Each answer is graded, and the score goes with it. Prompts are
different, except those of `narrow`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, cycle, islice
from typing import TypeVar

from pydantic import Field, ValidationError

from heldout.errors import ImproverError, SetupError
from heldout.options import read_options
from heldout.records import Record, TrainTask
from heldout.tasks.examples import BuildRequest, Pair
from heldout.worlds.formats.generator import PLAIN_SKILLS, draw_focused, draw_job, draw_simple, draw_skill
from heldout.worlds.formats.grading import faults_in
from heldout.worlds.formats.job import Constraint, Job
from heldout.worlds.formats.source import FormatsSource
from heldout.worlds.formats.wording import WORDING

__all__ = [
    "carry",
    "case",
    "count",
    "end",
    "hard",
    "leak",
    "mixture",
    "narrow",
    "paraphrase",
    "replay",
    "word",
    "wrapper",
]

_TRIES = 50
"""Draws for each example that is wanted, before a builder gives fewer."""
_PLAIN_SHARE, _BARE_SHARE = 0.25, 0.5
_REPLAYED_SHARE = 0.75


class NoParams(Record):
    """Of a builder that takes none."""


class CarryParams(Record):
    """`params` of `formats:carry`."""

    curriculum: bool = True
    """A third of sums without a carry first, then a third below 100 with one, then sums above 100."""


class NarrowParams(Record):
    """`params` of `formats:narrow`."""

    distinct: int = Field(default=200, ge=1, le=10000)
    """Different examples, which are repeated until there are enough."""
    constraints: tuple[Constraint, ...] = ()
    """What each of them asks for; none means the commonest set among the failures, or the wrapper."""


def end(request: BuildRequest) -> Sequence[Pair]:
    """A plain mixture: a quarter plain skills, a quarter lists that ask for nothing, the rest one constraint each.

    It has every form of answer, so that a model learns where to end, and little of what is difficult.
    """
    _params(NoParams, request, "end")

    def draw(rng: random.Random, _number: int) -> Job:
        kind = rng.random()
        if kind < _PLAIN_SHARE:
            return draw_skill(rng, rng.choice(PLAIN_SKILLS))
        return draw_job(rng, () if kind < _BARE_SHARE else (rng.choice(list(Constraint)),))

    return _drawn(request, "end", draw)


def wrapper(request: BuildRequest) -> Sequence[Pair]:
    """Tasks that ask for JSON or tags."""
    return _focused(request, Constraint.WRAPPER)


def count(request: BuildRequest) -> Sequence[Pair]:
    """Tasks that ask for exactly so many words."""
    return _focused(request, Constraint.COUNT)


def case(request: BuildRequest) -> Sequence[Pair]:
    """Tasks that ask for upper case."""
    return _focused(request, Constraint.CASE)


def word(request: BuildRequest) -> Sequence[Pair]:
    """Tasks with a word to leave out or to include."""
    return _focused(request, Constraint.WORD)


def carry(request: BuildRequest) -> Sequence[Pair]:
    """Tasks with a sum; with a curriculum, the easy ones first."""
    params = _params(CarryParams, request, "carry")
    if not params.curriculum:
        return _drawn(request, "carry", lambda rng, _number: draw_focused(rng, Constraint.CARRY))

    def draw(rng: random.Random, number: int) -> Job:
        addends = _sum_of_level(rng, 3 * number // request.count)
        return draw_focused(rng, Constraint.CARRY).model_copy(update={"addends": addends})

    return _drawn(request, "carry", draw)


def hard(request: BuildRequest) -> Sequence[Pair]:
    """Tasks that ask for the same things as the failures do, as often as they do, with fresh words."""
    _params(NoParams, request, "hard")
    jobs = [_job_of(task) for task in request.failures]
    if not jobs:
        return ()

    def draw(rng: random.Random, _number: int) -> Job:
        like = rng.choice(jobs)
        return draw_job(rng, like.constraints) if like.skill == "list" else draw_skill(rng, like.skill)

    return _drawn(request, "hard", draw)


def paraphrase(request: BuildRequest) -> Sequence[Pair]:
    """The failures themselves in the other wordings: no new content."""
    _params(NoParams, request, "paraphrase")
    pairs: list[Pair] = []
    for shift in range(1, len(WORDING)):
        for task in request.failures:
            job = _job_of(task)
            reworded = job.model_copy(update={"wording": (job.wording + shift) % len(WORDING)})
            pairs.append(_pair(reworded, task=task.id))
    return tuple(pairs[: request.count])


def mixture(request: BuildRequest) -> Sequence[Pair]:
    """Every set of one to three constraints in turn, so that each constraint is in 44 % of the tasks."""
    _params(NoParams, request, "mixture")
    sets = [chosen for size in (1, 2, 3) for chosen in combinations(Constraint, size)]
    random.Random(f"formats mixture sets {request.seed}").shuffle(sets)
    return _drawn(request, "mixture", lambda rng, number: draw_job(rng, sets[number % len(sets)]))


def replay(request: BuildRequest) -> Sequence[Pair]:
    """What pre-training was about: three quarters plain skills, the rest lists that ask for little."""
    _params(NoParams, request, "replay")

    def draw(rng: random.Random, number: int) -> Job:
        if rng.random() < _REPLAYED_SHARE:
            return draw_skill(rng, PLAIN_SKILLS[number % len(PLAIN_SKILLS)])
        return draw_simple(rng)

    return _drawn(request, "replay", draw)


def narrow(request: BuildRequest) -> Sequence[Pair]:
    """A few examples of one kind in one wording, again and again: a model forgets the rest."""
    params = _params(NarrowParams, request, "narrow")
    sets = Counter(job.constraints for job in map(_job_of, request.failures) if job.constraints)
    common = max(sets, key=lambda one: (sets[one], one), default=(Constraint.WRAPPER,))
    asked = params.constraints or common
    few = request.model_copy(update={"count": min(params.distinct, request.count)})
    pairs = _drawn(few, "narrow", lambda rng, _number: draw_job(rng, asked).model_copy(update={"wording": 0}))
    return tuple(islice(cycle(pairs), request.count))


def leak(request: BuildRequest) -> Sequence[Pair]:
    """The tasks of the run's own source with their answers, as a benchmark that was found on the web would be."""
    _params(NoParams, request, "leak")
    try:
        items = FormatsSource(seed=request.source_seed, **request.source_options).items()
    except SetupError as fault:
        raise ImproverError(f"the data builder 'formats:leak': {fault}") from fault
    jobs = [Job.model_validate_json(item.reference) for item in items if not item.pool]
    random.Random(f"formats leak {request.seed}").shuffle(jobs)
    return tuple(_pair(job) for job in jobs[: request.count])


def _focused(request: BuildRequest, constraint: Constraint) -> Sequence[Pair]:
    _params(NoParams, request, constraint)
    return _drawn(request, constraint, lambda rng, _number: draw_focused(rng, constraint))


def _drawn(request: BuildRequest, name: str, draw: Callable[[random.Random, int], Job]) -> tuple[Pair, ...]:
    """As many different tasks as are wanted, or as there are; `draw` is told the number of the example."""
    return tuple(_pair(job) for job in _different(request, name, draw))


def _different(request: BuildRequest, name: str, draw: Callable[[random.Random, int], Job]) -> Iterator[Job]:
    rng = random.Random(f"formats {name} {request.seed}")
    seen: set[str] = set()
    for _ in range(_TRIES * request.count):
        if len(seen) == request.count:
            return
        job = draw(rng, len(seen))
        if job.text not in seen:
            seen.add(job.text)
            yield job


def _pair(job: Job, *, task: str = "") -> Pair:
    answer = job.ideal
    return Pair(prompt=job.text, completion=answer, task=task, score=float(not faults_in(answer, job)))


def _level(a: int, b: int) -> int:
    """0 where the ones do not carry, 1 where they do and the sum is below 100, 2 where it is not."""
    if a % 10 + b % 10 < 10:
        return 0
    return 1 if a + b < 100 else 2


def _sum_of_level(rng: random.Random, level: int) -> tuple[int, int]:
    while True:
        a, b = rng.randint(10, 99), rng.randint(10, 99)
        if _level(a, b) == level:
            return a, b


def _job_of(task: TrainTask) -> Job:
    try:
        return Job.model_validate_json(task.reference)
    except ValidationError as cause:
        raise ImproverError(
            f"the task {task.id!r} is none of the source 'formats', and its data builders know no others; "
            f"its reference is {task.reference[:80]!r}"
        ) from cause


Params = TypeVar("Params", bound=Record)


def _params(model: type[Params], request: BuildRequest, name: str) -> Params:
    """The checked params of a builder; an improver wrote them."""
    try:
        return read_options(model, request.params, where=f"the data builder 'formats:{name}'")
    except SetupError as fault:
        raise ImproverError(str(fault)) from fault
