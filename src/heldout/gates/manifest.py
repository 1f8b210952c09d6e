"""Hold an edit to what was declared of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, Winner
from heldout.gates.rule import BestGainRule
from heldout.records import Verdict
from heldout.stats import EQUAL_WITHIN

__all__ = ["Manifest"]


@dataclass(frozen=True, slots=True)
class Manifest(BestGainRule):
    """Drops the best candidate if a declared risk came true and no predicted fix did, or if an undeclared task broke
    and no predicted fix did (VERSE, arXiv 2610.02616).

    What breaks nothing is kept, an edit that moves nothing included. Predictions are those of the table's own tasks:
    with none of them, every break drops the edit. It is calibrated without predictions, which is its strictest case.
    """

    name: ClassVar[str] = "manifest"

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:
        predicted = _declared(table, table.predicted, winner.index)
        risks = _declared(table, table.at_risk, winner.index)
        fixed, broken = _moved(winner, sign=1.0), _moved(winner, sign=-1.0)
        realised, came_true, undeclared = len(predicted & fixed), len(broken & risks), len(broken - risks)
        drops = realised == 0 and (came_true > 0 or undeclared > 0)
        return Judgement(
            Verdict.REJECT if drops else Verdict.ACCEPT,
            f"{realised} of {len(predicted)} predicted fixes and {came_true} of {len(risks)} declared risks came true, "
            f"{undeclared} undeclared {'break' if undeclared == 1 else 'breaks'}",
            evidence={"fixes_realised": realised, "risks_realised": came_true, "undeclared_breaks": undeclared},
        )


def _declared(table: GenerationTable, declared: Sequence[Sequence[str]], candidate: int) -> set[int]:
    """Places of the declared tasks that are in the table."""
    named = set(declared[candidate]) if declared else set()
    return {place for place, task in enumerate(table.tasks) if task in named}


def _moved(winner: Winner, *, sign: float) -> set[int]:
    """Places of the tasks that rose or fell; what was not measured did neither."""
    return set(np.flatnonzero(winner.differences * sign > EQUAL_WITHIN).tolist())
