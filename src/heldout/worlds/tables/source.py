"""The world `tables` as a task source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from pydantic import Field

from heldout.errors import SetupError
from heldout.options import read_options
from heldout.records import Record
from heldout.tasks.base import REPORT_ROLES, Item
from heldout.tasks.environment import changes_answer
from heldout.worlds.tables.environment import TablesEnvironment
from heldout.worlds.tables.families import OOD_FAMILIES
from heldout.worlds.tables.generator import LIMIT, OOD_LIMIT, job_of, origin_of
from heldout.worlds.tables.grading import read_origin
from heldout.worlds.tables.job import DECOY_SHARE, SUMMARY_SHARE, Origin
from heldout.worlds.tables.programs import carried_out, program

__all__ = ["TablesOptions", "TablesSource"]

_OOD = "ood"

_ROLES = {"A": ("train", "select"), "B": ("select",), "C": ("audit", REPORT_ROLES)}
"""Vocabulary to the roles that its tasks may enter."""


class TablesOptions(Record):
    """Sizes of the world, and how often its traps are set."""

    count: int = Field(default=864, ge=48, le=LIMIT)
    """Tasks of the twelve ordinary families, a quarter with each of the vocabularies A and B, and half with C."""
    ood: int = Field(default=80, ge=0, le=OOD_LIMIT)
    """Tasks of two further families, which are only in the report role `ood`."""
    summary: float = Field(default=SUMMARY_SHARE, ge=0.0, le=1.0)
    """Share of tasks that ask for a summary file; in the others such a file is a fault."""
    decoy: float = Field(default=DECOY_SHARE, ge=0.0, le=1.0)
    """Share of tasks with a file beside the input that looks like it and lacks a column."""


class TablesSource:
    """Generated workbooks and CSV files, each with a request that changes it, graded by what the files hold.

    A task's family is its operation, its stratum operation and vocabulary. Tasks of train and half of select use the
    names of one small vocabulary; the other half of select, and the sealed roles, use others.
    """

    description = (
        "Do what a request asks for to a workbook or CSV file in the current folder, with shell commands and Python "
        "(openpyxl is installed). A task is right where every file is as it should be and there is no other file."
    )
    instruction = (
        "The current folder holds a workbook or a CSV file, and maybe other files.\n"
        "Do what the request asks for, with Python and openpyxl, and nothing else.\n"
    )
    labels = ()
    grader = "tables"

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        if path is not None:
            raise SetupError(f"the source 'tables' is generated and reads no file, got tasks.path = {path!r}")
        self.options = read_options(TablesOptions, options, where="task source 'tables'")
        self.seed = seed
        self.environment = TablesEnvironment(seed=seed, summary=self.options.summary, decoy=self.options.decoy)

    def items(self) -> Sequence[Item]:
        """Every task, the families in turn."""
        return _world(self.options, self.seed)

    def solution(self, item: Item) -> str:
        """The answer of a solver that does what is asked, and nothing else."""
        job = job_of(read_origin(item.reference))
        return changes_answer(dict(job.files), carried_out(job))

    def solution_text(self, item: Item) -> str:
        """The program that does it."""
        return program(job_of(read_origin(item.reference)))


@lru_cache(maxsize=2)
def _world(options: TablesOptions, seed: int) -> tuple[Item, ...]:
    """Kept, since a run reads its source three times and anybody can draw this world again."""
    return tuple(map(_item, (*_origins(options, seed, ood=False), *_origins(options, seed, ood=True))))


def _origins(options: TablesOptions, seed: int, *, ood: bool) -> Iterator[Origin]:
    for turn in range(options.ood if ood else options.count):
        yield origin_of(turn, seed=seed, ood=ood, summary=options.summary, decoy=options.decoy)


def _item(origin: Origin) -> Item:
    job = job_of(origin)
    ood = origin.family in OOD_FAMILIES
    return Item(
        id=job.id,
        input=job.request,
        reference=origin.model_dump_json(),
        family=origin.family,
        stratum=f"{origin.family} {origin.vocabulary}",
        pool=_OOD if ood else "",
        roles=() if ood else _ROLES[origin.vocabulary],
    )
