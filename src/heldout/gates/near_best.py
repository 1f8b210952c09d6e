"""Not much below the best state so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, Winner, points
from heldout.gates.rule import BestGainRule
from heldout.records import Verdict
from heldout.stats import EQUAL_WITHIN, mean_measured

__all__ = ["FEWER_THAN", "NearBest"]

FEWER_THAN = 3
"""Tasks below the best that VERSE lets pass whatever their share."""


@dataclass(frozen=True, slots=True)
class NearBest(BestGainRule):
    """Accepts iff the best candidate scores at least the best state so far − `config.tolerance`, or fewer than 3 tasks
    below it: VERSE's tolerance (arXiv 2610.02616).

    `tolerance` compares with the incumbent, and so lets the head drift down step by step; this rule does not, as long
    as the loop hands over the scores of its best state (`table.best`; without them the incumbent is the best).
    Compared are the tasks that both were measured on; the number of tasks is net: lost minus gained.
    """

    name: ClassVar[str] = "near_best"

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:
        if table.best is not None:
            candidate = mean_measured(table.candidates[winner.index])
            winner = Winner.of(winner.index, candidate - mean_measured(table.best))
            if not winner.covered:
                return Judgement(Verdict.UNDECIDED, "too few tasks were measured for both it and the best state")
        below = 0.0 - winner.gain * winner.summary.n
        accepts = winner.gain >= -self.config.tolerance - EQUAL_WITHIN or below < FEWER_THAN - EQUAL_WITHIN
        return Judgement(
            Verdict.ACCEPT if accepts else Verdict.REJECT,
            f"{points(winner.gain)} against the best, {below:g} tasks below it; "
            f"{points(-self.config.tolerance)} or fewer than {FEWER_THAN} tasks are let pass",
            evidence={"threshold": -self.config.tolerance, "tasks_below": below, "against_best": winner.gain},
        )
