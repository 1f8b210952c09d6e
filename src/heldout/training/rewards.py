"""Rewards of several named parts: their sum, what each part was like, and a warning where one has gone silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from heldout.records import Record
from heldout.training.advantages import Rewards, reward_array

__all__ = ["ComponentStats", "component_stats", "silent_components", "total_rewards"]


class ComponentStats(Record):
    """One part of the reward over the rows of a step."""

    rows: int = Field(ge=0)
    missing_share: float
    """Of all rows; the other figures are of the measured ones."""
    mean: float | None
    """None where nothing was measured."""
    variance: float | None
    """Unbiased; None below two measured rows."""
    zero_share: float | None
    """Rows whose part is exactly 0."""


def component_stats(components: Mapping[str, Rewards]) -> dict[str, ComponentStats]:
    """Mean, variance, zero share and missing share of each named part."""
    _row_count(components)
    return {name: _stats(part) for name, part in components.items()}


def total_rewards(
    components: Mapping[str, Rewards], weights: Mapping[str, float] | None = None
) -> tuple[float | None, ...]:
    """The weighted sum of the parts of each row, None where any part is missing; a part without a weight has 1."""
    rows = _row_count(components)
    weights = weights or {}
    unknown = sorted(set(weights) - set(components))
    if unknown:
        raise ValueError(f"weights of {', '.join(unknown)}, which are no parts of this reward: {', '.join(components)}")
    total = np.zeros(rows)
    for name, part in components.items():
        total = total + weights.get(name, 1.0) * reward_array(part)
    return tuple(None if np.isnan(value) else float(value) for value in total)


def silent_components(history: Sequence[Mapping[str, ComponentStats]], steps: int) -> tuple[str, ...]:
    """Parts without any variance in each of the last `steps` steps: a term that is missing from the code looks so.

    A step in which a part was measured less than twice neither shows variance nor its absence, and ends the series.
    """
    recent = history[-steps:]
    if steps < 1 or len(recent) < steps:
        return ()
    return tuple(name for name in recent[-1] if all(name in one and one[name].variance == 0.0 for one in recent))


def _stats(part: Rewards) -> ComponentStats:
    table = reward_array(part)
    known = table[~np.isnan(table)]
    equal = known.size > 0 and known.min() == known.max()
    return ComponentStats(
        rows=len(table),
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
