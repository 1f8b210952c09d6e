"""Start against final by family of tasks: what is kept, and what is lost, of each ability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heldout.records import Comparison
from heldout.stats import paired_counts, paired_difference
from heldout.store.events import FamilyResult

__all__ = ["by_family"]

_MOST = 60
"""Families that go on record; tasks that each have one of their own say nothing by family."""


def by_family(table: Comparison, families: Sequence[str], *, confidence: float) -> tuple[FamilyResult, ...]:
    """One row for each family, in the order of their names. Intervals are of each family alone, not of all at once."""
    names = sorted(set(families))
    if not 2 <= len(names) <= _MOST:
        return ()
    return tuple(_row(table, name, np.array([one == name for one in families]), confidence) for name in names)


def _row(table: Comparison, family: str, of_family: NDArray[np.bool_], confidence: float) -> FamilyResult:
    a, b = table.a[of_family], table.b[of_family]
    counts, difference = paired_counts(a, b), paired_difference(a, b, confidence=confidence)
    return FamilyResult(
        family=family,
        n_tasks=counts.n,
        missing=counts.missing,
        start_mean=difference.a_mean,
        final_mean=difference.b_mean,
        gain=difference.mean,
        interval=difference.interval,
    )
