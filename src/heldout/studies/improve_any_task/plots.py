"""The plot of parts (a) and (b)."""

from __future__ import annotations

import numpy as np

from heldout.studies.improve_any_task.plans import STARTS
from heldout.studies.improve_any_task.summaries import Arms
from heldout.studies.scatter import Dot, Scatter

__all__ = ["overstatement_plot"]


def overstatement_plot(arms: Arms, *, name: str, simulated: bool) -> Scatter:
    """What a run promises against what the audit finds, arm by arm, one colour for each start."""
    dots = []
    for group, start in enumerate(one for one in STARTS if one in arms):
        for runs in arms[start].values():
            promised, found = runs.known(lambda one: one.select_gain), runs.known(lambda one: one.gain)
            if not np.isnan(promised.value) and not np.isnan(found.value):
                dots.append(
                    Dot(
                        name=f"{runs.name}, {start}",
                        group=group,
                        x=promised.value,
                        y=found.value,
                        x_error=_error(promised.standard_error),
                        y_error=_error(found.standard_error),
                    )
                )
    return Scatter(
        name=name,
        title=f"Gain on the deciding tasks against audited gain{' (simulation)' if simulated else ''}",
        x_label="gain on the deciding tasks, points",
        y_label="audited gain, points",
        dots=tuple(dots),
        below="below the diagonal: overstated",
    )


def _error(standard_error: float) -> float:
    return 0.0 if np.isnan(standard_error) else standard_error
