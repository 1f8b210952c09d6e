"""What a simulated learner can do, as a checkpoint folder, and how often it is right: exactly, for any task."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import combinations
from pathlib import Path

from pydantic import Field, ValidationError

from heldout.errors import SetupError
from heldout.records import Record
from heldout.worlds.formats.faulty import can_fail
from heldout.worlds.formats.job import Constraint, Fault, Job

__all__ = [
    "START_SKILLS",
    "Learning",
    "SimulatedCheckpoint",
    "Skills",
    "pass_rate",
    "read_checkpoint",
    "true_accuracy",
    "world_accuracy",
    "write_checkpoint",
]

_PURPOSE = "A simulation of a language model that learns; there are no weights in it. See heldout.worlds.formats."
_SIZES = {1: 0.25, 2: 0.5, 3: 0.25}
"""Share of the tasks with so many constraints, as `generator.draw_task` draws them."""


class Skills(Record):
    """The probability of avoiding each fault, where a task gives cause for it; and of each plain skill."""

    stop: float = Field(ge=0.0, le=1.0)
    wrapper: float = Field(ge=0.0, le=1.0)
    list: float = Field(ge=0.0, le=1.0)
    count: float = Field(ge=0.0, le=1.0)
    case: float = Field(ge=0.0, le=1.0)
    word: float = Field(ge=0.0, le=1.0)
    carry: float = Field(ge=0.0, le=1.0)
    copies: float = Field(ge=0.0, le=1.0)
    """Plain skill `copy`."""
    reverse: float = Field(ge=0.0, le=1.0)
    sort: float = Field(ge=0.0, le=1.0)

    def of(self, name: str) -> float:
        """By the name of a fault or of a plain skill."""
        value: float = getattr(self, "copies" if name == "copy" else name)
        return value


START_SKILLS: Mapping[str, Skills] = {
    "base": Skills(
        stop=0.02,
        wrapper=0.35,
        list=0.93,
        count=0.45,
        case=0.75,
        word=0.7,
        carry=0.1,
        copies=0.97,
        reverse=0.9,
        sort=0.85,
    ),
    "instruct": Skills(
        stop=0.97,
        wrapper=0.7,
        list=0.94,
        count=0.5,
        case=0.8,
        word=0.72,
        carry=0.12,
        copies=0.97,
        reverse=0.9,
        sort=0.85,
    ),
}
"""Start checkpoints by name."""


class Learning(Record):
    """Constants of the simulated training, kept in the checkpoint and handed down; see `learning`."""

    noise: float = Field(default=0.1, ge=0.0)
    """σ: standard deviation of the training noise, on the logit of each skill."""
    speed: float = Field(default=1.0, gt=0.0)
    """Divides every τ."""
    forgetting: float = Field(default=0.03, ge=0.0)
    """ψ: share of a skill, roughly, that 300 steps at a rate of 1e-3 on data without it cost."""
    step_s: float = Field(default=0.06, gt=0.0)
    """Simulated seconds of a step of 32 sequences: 300 of them take 18 s, as a pocket model would on one core."""


class SimulatedCheckpoint(Record):
    """Everything that a folder of simulated weights says."""

    skills: Skills
    learning: Learning = Learning()


def write_checkpoint(folder: Path, checkpoint: SimulatedCheckpoint) -> None:
    """Write a new folder; the same bytes for the same checkpoint."""
    about = {"model_type": "heldout_simulation", "simulated": True, "purpose": _PURPOSE}
    folder.mkdir(parents=True)
    texts = {
        "config.json": _json(about | {"learning": checkpoint.learning.model_dump()}),
        "skills.json": _json(checkpoint.skills.model_dump()),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def read_checkpoint(folder: Path) -> SimulatedCheckpoint:
    """What a folder holds; `SetupError` where it holds no simulated weights, or one of its skills is missing."""
    where = f"the simulated weights in {str(folder)!r}"
    try:
        config = json.loads((folder / "config.json").read_bytes())
        checkpoint = SimulatedCheckpoint(
            skills=Skills.model_validate_json((folder / "skills.json").read_bytes()),
            learning=Learning.model_validate(config["learning"]),
        )
    except FileNotFoundError as cause:
        raise SetupError(
            f"{where} lack the file {Path(cause.filename).name!r}; only `simulated_formats` writes such folders, and "
            "real checkpoints take options.train.backend = 'transformers'"
        ) from cause
    except ValidationError as cause:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in cause.errors())
        raise SetupError(f"{where} cannot be used: {faults}") from cause
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise SetupError(f"{where} cannot be read: {type(cause).__name__}: {cause}") from cause
    return checkpoint


def pass_rate(skills: Skills, job: Job) -> float:
    """The exact probability of a right answer, over the luck of the task and of the weights.

    Of a plain skill its own; of any other task the product over `stop` and what the task gives cause for.
    """
    if job.skill != "list":
        return skills.of(job.skill)
    return skills.stop * math.prod(skills.of(fault) for fault in can_fail(job))


def true_accuracy(skills: Skills, jobs: Iterable[Job]) -> float:
    """The mean of `pass_rate` over these tasks."""
    rates = [pass_rate(skills, job) for job in jobs]
    if not rates:
        raise ValueError("the accuracy on no tasks is not defined")
    return math.fsum(rates) / len(rates)


@lru_cache(maxsize=4096)
def world_accuracy(skills: Skills, among: tuple[Constraint, ...] = tuple(Constraint)) -> float:
    """The mean over everything that `generator.draw_task` may draw from these constraints, exactly.

    stop · list · Σ_k P(k) · mean over the sets of k constraints of Π skill_c.
    """
    shares: dict[int, float] = {}
    for size, share in _SIZES.items():
        number = min(size, len(among))
        shares[number] = shares.get(number, 0.0) + share
    total = 0.0
    for size, share in shares.items():
        products = [math.prod(skills.of(one) for one in chosen) for chosen in combinations(among, size)]
        total += share * math.fsum(products) / len(products)
    return skills.stop * skills.of(Fault.LIST) * total
