"""The seam to task sources, and what a source's rows are before they have a role."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from heldout.records import Record

__all__ = ["REPORT_ROLES", "Grader", "Item", "TaskSource"]

REPORT_ROLES = "reports"
"""In `Item.roles`: every report role, whatever its name."""

Grader = Callable[[str | None, str], float]
"""(answer, reference) -> score in [0, 1]. A missing answer (None) scores 0; it must not raise on any text."""


class Item(Record):
    """One row of a source: a task, its answer, and what the division into roles needs."""

    id: str
    input: str
    reference: str
    family: str = ""
    """Public grouping for reports; never the answer."""
    stratum: str = ""
    """What stratified division balances, usually the label."""
    group: str = ""
    """Items of one group stay in one role under `split_by = "group"`."""
    pool: str = ""
    """Non-empty: the item may only enter the report role of this name (for example `ood`; not `train` or `audit`)."""
    roles: tuple[str, ...] = ()
    """The only roles that the item may enter: `train`, `select` (and `spare`, which is further select tasks), `audit`,
    names of report roles, or `reports` for every one of them. Empty where it may enter any. Not for items of a pool."""


class TaskSource(Protocol):
    """Where tasks come from. Reading twice gives the same items in the same order.

    Three more things a source may have, and need not: `environment` (`heldout.tasks.environment.Environment`), where
    its tasks are solved in a work folder; `solution(item) -> str`, the answer that is right where the reference itself
    is none; and `has_solutions = False` where no right answer is known. `heldout.tasks.sources` reads them.
    """

    description: str
    """What the solver is asked to do, for improvers and reports."""
    instruction: str
    """The start instruction where the config names none."""
    labels: tuple[str, ...]
    """The closed set of answers, or empty."""
    grader: str
    """Name or dotted path of the grader that fits these tasks."""

    def items(self) -> Sequence[Item]:
        """Every item, or `SetupError` that names the file, the row and the field at fault."""
