"""Data builders for any task set whose right answers are known, and one that joins several builders."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from random import Random
from typing import Any, TypeVar

from pydantic import Field

from heldout.errors import ImproverError, SetupError, boundary
from heldout.options import read_options
from heldout.records import Record, TrainTask
from heldout.registry import load
from heldout.tasks.examples import BuildRequest, Pair
from heldout.training.builders import BUILDERS

__all__ = ["CombinedParams", "FailuresParams", "Part", "ReferencesParams", "combined", "failures", "references"]

COMBINED = "train:combined"


class ReferencesParams(Record):
    """`params` of `train:references`: there are none."""


class FailuresParams(Record):
    """`params` of `train:failures`."""

    ratio: float = Field(default=2.0, ge=1.0)
    """How much oftener a family may be there than the rarest one; what is more is left out."""


class Part(Record):
    """One builder of a joined data set."""

    builder: str
    """Short name in `heldout.training.builders`."""
    weight: float = Field(gt=0.0)
    """Share of the examples, relative to the other parts."""
    params: Mapping[str, Any] = {}


class CombinedParams(Record):
    """`params` of `train:combined`."""

    parts: tuple[Part, ...] = Field(min_length=1, max_length=8)


def references(request: BuildRequest) -> Sequence[Pair]:
    """`train:references`: every failed train task once, with its right answer, in an order drawn by the seed."""
    _params(ReferencesParams, request, "train:references")
    tasks = _answered(request)
    Random(f"train:references {request.seed}").shuffle(tasks)
    return [_pair(task, request) for task in tasks[: request.count]]


def failures(request: BuildRequest) -> Sequence[Pair]:
    """`train:failures`: failed train tasks with their right answers, one family after the other in turn, and of a
    common family no more than `ratio` times as many as of the rarest."""
    params = _params(FailuresParams, request, "train:failures")
    rng = Random(f"train:failures {request.seed}")
    families: dict[str, list[TrainTask]] = {}
    for task in _answered(request):
        families.setdefault(task.family, []).append(task)
    for tasks in families.values():
        rng.shuffle(tasks)
    most = math.ceil(params.ratio * min(map(len, families.values())))
    turns = zip_longest(*(families[name][:most] for name in sorted(families)))
    picked = [task for turn in turns for task in turn if task is not None]
    return [_pair(task, request) for task in picked[: request.count]]


def combined(request: BuildRequest) -> Sequence[Pair]:
    """`train:combined`: what several builders make, each its share, mixed in an order drawn by the seed.

    Shares are rounded down, and what is left over goes to the first parts. Only builders with a short name can be a
    part, since a model may have written the params. A part that returns less is not made up for.
    """
    params = _params(CombinedParams, request, COMBINED)
    total = sum(part.weight for part in params.parts)
    counts = [int(request.count * part.weight / total) for part in params.parts]
    for place in range(request.count - sum(counts)):
        counts[place % len(counts)] += 1
    pairs: list[Pair] = []
    for place, (part, count) in enumerate(zip(params.parts, counts, strict=True)):
        pairs += _built(part, request, count, seed=request.seed * 1_000 + place)
    Random(f"{COMBINED} {request.seed}").shuffle(pairs)
    return pairs


def _built(part: Part, request: BuildRequest, count: int, *, seed: int) -> Sequence[Pair]:
    if part.builder not in BUILDERS or part.builder == COMBINED:
        raise ImproverError(
            f"{part.builder!r} cannot be a part of {COMBINED!r}; there is "
            f"{', '.join(sorted(name for name in BUILDERS if name != COMBINED))}"
        )
    if count == 0:
        return ()
    builder = load(part.builder, among=BUILDERS, what="data builder")
    with boundary(ImproverError, f"the data builder {part.builder!r} raised"):
        made: Sequence[Pair] = builder(request.model_copy(update={"count": count, "seed": seed, "params": part.params}))
    return made


def _answered(request: BuildRequest) -> list[TrainTask]:
    """Those with an answer to learn from, each once."""
    found = {task.id: task for task in request.failures if request.solutions.get(task.id, "").strip()}
    if not found:
        raise ImproverError(
            f"none of {len(request.failures)} failed train tasks has a known answer to train on; take a builder of the "
            "task set's own"
        )
    return list(found.values())


def _pair(task: TrainTask, request: BuildRequest) -> Pair:
    return Pair(prompt=task.input, completion=request.solutions[task.id].strip(), task=task.id, score=1.0)


Params = TypeVar("Params", bound=Record)


def _params(model: type[Params], request: BuildRequest, name: str) -> Params:
    """The checked params of a builder; an improver wrote them."""
    try:
        return read_options(model, request.params, where=f"the data builder {name!r}")
    except SetupError as fault:
        raise ImproverError(str(fault)) from fault
