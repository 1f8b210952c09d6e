"""Where tasks of the world begin."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from heldout.errors import TaskError
from heldout.records import Task
from heldout.sandbox import Scene
from heldout.worlds.repair.families import FAMILIES, OOD_FAMILIES
from heldout.worlds.repair.generator import generate
from heldout.worlds.repair.package import Package

__all__ = ["RepairEnvironment"]

_VERSION = 1
_ID = re.compile(r"repair-([a-z-]+)-([0-9]{4,})")


@dataclass(frozen=True, slots=True)
class RepairEnvironment:
    """Work folders, made anew from the id of a task. It holds nothing but two numbers."""

    seed: int
    nondeterminism: float
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", f"repair-{_VERSION}:{self.seed}:{self.nondeterminism:g}")

    def scene(self, task: Task, *, seed: int) -> Scene:
        """The package with its bug; `RUN_SEED` tells runs apart for tools that are not deterministic."""
        return Scene(files=self._package(task).files, env={"RUN_SEED": str(seed)})

    def _package(self, task: Task) -> Package:
        found = _ID.fullmatch(task.id)
        if found is None or found[1] not in {**FAMILIES, **OOD_FAMILIES}:
            raise TaskError(f"task {task.id!r} is not of the world 'repair'; its ids are like 'repair-rounding-0017'")
        package = generate(seed=self.seed, family=found[1], number=int(found[2]), nondeterminism=self.nondeterminism)
        if task.input != package.issue:
            raise TaskError(f"task {task.id!r} has another text than the world of seed {self.seed} gives it")
        return package
