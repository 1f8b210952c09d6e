"""Several short examples in one row: which go together. How they are kept apart is in `batching` and `sft`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["OPEN_ROWS", "first_fit"]

OPEN_ROWS = 64
"""Rows that may still take an example; older ones are closed, so that the work stays linear in the examples."""


def first_fit(order: Iterable[int], lengths: Sequence[int], limit: int) -> list[tuple[int, ...]]:
    """Rows of example indices, none with more than `limit` tokens, each index once.

    An example goes into the first of the `OPEN_ROWS` rows opened last that has room. `lengths[i]` is at most `limit`.
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for index in order:
        start = max(0, len(rows) - OPEN_ROWS)
        place = next((row for row in range(start, len(rows)) if room[row] >= lengths[index]), None)
        if place is None:
            rows.append([index])
            room.append(limit - lengths[index])
        else:
            rows[place].append(index)
            room[place] -= lengths[index]
    return [tuple(row) for row in rows]
