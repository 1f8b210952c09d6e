"""Rewards of several named parts: their sum, what each part was like, and a warning where one has gone silent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from heldout.records import Record
from heldout.training.advantages import Rewards, reward_array

__all__ = ["Absent", "ComponentStats", "component_stats", "silent_components", "total_rewards"]


Absent: TypeAlias = Mapping[str, Sequence[bool]]
"""By part, the rows that have no such part by rule: a step without a skill has no reward of a skill."""


class ComponentStats(Record):
    """One part of the reward over the rows of a step that have it."""

    rows: int = Field(ge=0)
    absent: int = Field(default=0, ge=0)
    """Further rows, which have no such part by rule; no other figure counts them."""
    missing_share: float
    """Of `rows`; the other figures are of the measured ones."""
    mean: float | None
    """None where nothing was measured."""
    variance: float | None
    """Unbiased; None below two measured rows."""
    zero_share: float | None
    """Rows whose part is exactly 0."""


def component_stats(components: Mapping[str, Rewards], *, absent: Absent | None = None) -> dict[str, ComponentStats]:
    """Mean, variance, zero share and missing share of each named part, over the rows that have it."""
    _row_count(components)
    gone = _absent(components, absent)
    return {name: _stats(part[~gone[name]], int(gone[name].sum())) for name, part in _arrays(components).items()}


def total_rewards(
    components: Mapping[str, Rewards], weights: Mapping[str, float] | None = None, *, absent: Absent | None = None
) -> tuple[float | None, ...]:
    """The weighted sum of the parts of each row, None where any part is missing; a part without a weight has 1, and
    one that is absent adds 0."""
    rows = _row_count(components)
    weights = weights or {}
    _check_names("weights", weights, components)
    gone = _absent(components, absent)
    total = np.zeros(rows)
    for name, part in _arrays(components).items():
        total = total + weights.get(name, 1.0) * np.where(gone[name], 0.0, part)
    return tuple(None if np.isnan(value) else float(value) for value in total)


def silent_components(history: Sequence[Mapping[str, ComponentStats]], steps: int) -> tuple[str, ...]:
    """Parts without any variance in each of the last `steps` steps: a term that is missing from the code looks so.

    A step in which a part was measured less than twice neither shows variance nor its absence, and ends the series.
    """
    recent = history[-steps:]
    if steps < 1 or len(recent) < steps:
        return ()
    return tuple(name for name in recent[-1] if all(name in one and one[name].variance == 0.0 for one in recent))


def _arrays(components: Mapping[str, Rewards]) -> dict[str, NDArray[np.float64]]:
    return {name: reward_array(part) for name, part in components.items()}


def _absent(components: Mapping[str, Rewards], absent: Absent | None) -> dict[str, NDArray[np.bool_]]:
    """Marks of each part; `ValueError` for a row that has a part which it is said not to have."""
    _check_names("absences", absent or {}, components)
    found = {}
    for name, table in _arrays(components).items():
        marks = np.asarray((absent or {}).get(name, [False] * len(table)), dtype=np.bool_)
        if len(marks) != len(table):
            raise ValueError(f"{len(table)} rewards and {len(marks)} marks of absence of {name}")
        if (both := marks & ~np.isnan(table)).any():
            raise ValueError(f"row {int(np.flatnonzero(both)[0])} has a reward of {name}, which is said to be absent")
        found[name] = marks
    return found


def _check_names(what: str, given: Iterable[str], components: Mapping[str, Rewards]) -> None:
    if unknown := sorted(set(given) - set(components)):
        names = ", ".join(components)
        raise ValueError(f"{what} of {', '.join(unknown)}, which are no parts of this reward: {names}")


def _stats(table: NDArray[np.float64], absent: int) -> ComponentStats:
    known = table[~np.isnan(table)]
    equal = known.size > 0 and known.min() == known.max()
    return ComponentStats(
        rows=len(table),
        absent=absent,
        missing_share=1.0 - known.size / len(table) if len(table) else 0.0,
        mean=float(known.mean()) if known.size else None,
        variance=None if known.size < 2 else 0.0 if equal else float(known.var(ddof=1)),
        zero_share=float((known == 0).mean()) if known.size else None,
    )


def _row_count(components: Mapping[str, Rewards]) -> int:
    lengths = {name: len(part) for name, part in components.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the parts of a reward have different numbers of rows: {lengths}")
    return next(iter(lengths.values()), 0)
