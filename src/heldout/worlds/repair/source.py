"""The world `repair` as a task source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import Field

from heldout.errors import SetupError
from heldout.options import read_options
from heldout.records import Record
from heldout.tasks.base import Item
from heldout.tasks.environment import changes_answer
from heldout.worlds.repair.environment import RepairEnvironment
from heldout.worlds.repair.families import FAMILIES, OOD_FAMILIES
from heldout.worlds.repair.generator import domain_of
from heldout.worlds.repair.grading import Reference, read_reference

__all__ = ["RepairOptions", "RepairSource"]

_OOD = "ood"

_CONTEXT = 3
"""Lines of a patch before and after what it changes."""


class RepairOptions(Record):
    """Sizes of the world, and how much of it is left to chance."""

    count: int = Field(default=400, ge=8, le=640)
    """Packages of the eight ordinary families, as many of each."""
    ood: int = Field(default=81, ge=0, le=120)
    """Packages of three further families, which are only in the report role `ood`."""
    nondeterminism: float = Field(default=0.15, ge=0.0, le=1.0)
    """Share of packages with a formatter that undoes what was mended, in half of the runs."""


class RepairSource:
    """Small generated Python packages with one bug each, a user's report of it, and hidden tests.

    A task's family is what its package is about (billing, a library, …), which all bugs share; its stratum is the
    family of the bug, and its group the name of the package.
    """

    description = (
        "Mend the bug that a user reports, in a small Python package, with shell commands in the package's folder. "
        "Hidden tests decide whether it is mended."
    )
    instruction = (
        "You are a software engineer. The current folder holds a small Python package.\n"
        "A user reports a problem. Find the code at fault and mend it.\n"
    )
    labels = ()
    grader = "repair"

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        if path is not None:
            raise SetupError(f"the source 'repair' is generated and reads no file, got tasks.path = {path!r}")
        self.options = read_options(RepairOptions, options, where="task source 'repair'")
        self.seed = seed
        self.environment = RepairEnvironment(seed=seed, nondeterminism=self.options.nondeterminism)

    def items(self) -> Sequence[Item]:
        """Every task, the families in turn."""
        return _world(self.options, self.seed)

    def solution(self, item: Item) -> str:
        """The answer of an agent that makes the reference patch and nothing else."""
        package = read_reference(item.reference).package()
        return changes_answer(package.files, {**package.files, **package.solution})

    def solution_text(self, item: Item) -> str:
        """The mended place as it stands in the module, with the lines around it, as in a patch."""
        package = read_reference(item.reference).package()
        before, _, after = package.files[package.target].partition(package.broken)
        above, below = before.splitlines(keepends=True)[-_CONTEXT:], after.splitlines(keepends=True)[: _CONTEXT + 1]
        return "".join((*above, package.fixed, *below))


@lru_cache(maxsize=2)
def _world(options: RepairOptions, seed: int) -> tuple[Item, ...]:
    """Kept, since a run reads its source three times and anybody can draw this world again."""
    ordinary = _dealt(FAMILIES, options.count, options, seed, pool="")
    return (*ordinary, *_dealt(OOD_FAMILIES, options.ood, options, seed, pool=_OOD))


def _dealt(
    families: Mapping[str, object], count: int, options: RepairOptions, seed: int, *, pool: str
) -> tuple[Item, ...]:
    names = list(families)
    return tuple(_item(names[turn % len(names)], turn // len(names), options, seed, pool=pool) for turn in range(count))


def _item(family: str, number: int, options: RepairOptions, seed: int, *, pool: str) -> Item:
    reference = Reference(seed=seed, family=family, number=number, nondeterminism=options.nondeterminism)
    package = reference.package()
    return Item(
        id=package.id,
        input=package.issue,
        reference=reference.model_dump_json(),
        family=domain_of(seed=seed, family=family, number=number),
        stratum=family,
        group=package.target.split("/")[0],
        pool=pool,
    )
