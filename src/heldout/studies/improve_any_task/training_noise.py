"""Training noise against the noise of evaluation: one recipe, trained with two seeds, on the same tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from heldout.studies.improve_any_task.arms import TWICE
from heldout.studies.improve_any_task.reading import Noise
from heldout.studies.improve_any_task.summaries import Arms
from heldout.studies.tables import Cell, Table

__all__ = ["noise_table"]


def noise_table(arms: Arms, *, name: str, simulated: bool) -> Table:
    """By start."""
    rows: list[tuple[Cell, ...]] = []
    for start, given in arms.items():
        pairs = [one.noise for one in given[TWICE].results if one.noise is not None]
        rows.append((start, len(pairs), *(_numbers(pairs) if pairs else (None,) * 5)))
    return Table(
        name=name,
        title="Two noises: one recipe trained with two seeds",
        note=(
            f"{'A simulation. ' if simulated else ''}The recipe that the first round chooses, trained twice from the "
            "same start; all in points of the select score but the flips. `one training`: root mean square of the "
            "difference of two, over √2, which holds both noises. `flips`: percent of the select tasks on which two "
            "trainings differ. `tasks alone`: what that many flips in random directions make of one training on so "
            "many tasks, √(flips / n) / √2; `training alone`: what is left of the first when that is taken off in "
            "squares. The same weights give the same greedy answers, so that measuring them again shows none of it."
        ),
        columns=("start", "pairs", "tasks", "one training", "flips, %", "tasks alone", "training alone"),
        rows=tuple(rows),
    )


def _numbers(pairs: Sequence[Noise]) -> tuple[float, ...]:
    n = pairs[0].n
    both = float(np.mean([one.difference**2 for one in pairs])) / 2.0
    flips = float(np.mean([one.flips for one in pairs]))
    tasks = flips / n / 2.0
    left = math.sqrt(max(0.0, both - tasks))
    return float(n), 100.0 * math.sqrt(both), 100.0 * flips, 100.0 * math.sqrt(tasks), 100.0 * left
