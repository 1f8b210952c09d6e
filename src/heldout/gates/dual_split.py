"""Neither half of the tasks may fall, and one must rise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, Winner, points
from heldout.gates.rule import BestGainRule
from heldout.gates.select_confirm import halves
from heldout.records import Verdict
from heldout.stats import EQUAL_WITHIN, mean_measured

__all__ = ["DualSplit"]


@dataclass(frozen=True, slots=True)
class DualSplit(BestGainRule):
    """Accepts iff the best candidate loses on no half of the tasks and gains on at least one.

    The halves are drawn from the table's seed: a loop that gives every round the same seed keeps the same halves.
    Unlike `select_confirm` both halves are read for every candidate, and a half without a gain is enough.
    """

    name: ClassVar[str] = "dual_split"

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:
        split = halves(len(winner.differences), seed=table.seed)
        gain_a, gain_b = (float(mean_measured(winner.differences[half])) for half in split)
        if np.isnan(gain_a) or np.isnan(gain_b):
            return Judgement(Verdict.UNDECIDED, f"no task of half {'A' if np.isnan(gain_a) else 'B'} was measured")
        accepts = min(gain_a, gain_b) >= -EQUAL_WITHIN and max(gain_a, gain_b) > EQUAL_WITHIN
        return Judgement(
            Verdict.ACCEPT if accepts else Verdict.REJECT,
            f"half A {points(gain_a)}, half B {points(gain_b)}; none may be below 0 and one must be above",
            evidence={"gain_a": gain_a, "gain_b": gain_b},
        )
