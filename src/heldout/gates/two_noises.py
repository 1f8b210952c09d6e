"""A gain must stand out from both noises of a trained model: of evaluation, and of training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, Winner, points
from heldout.gates.rule import BestGainRule
from heldout.records import Verdict

__all__ = ["TwoNoises"]

_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class TwoNoises(BestGainRule):
    """Accepts iff the best d is above 2 √(SE² + σ²): SE of the paired difference over tasks, and σ of the same recipe
    trained with another seed (`GenerationTable.training_se`), which a run measures in its first round."""

    name: ClassVar[str] = "noise"

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:
        both = math.hypot(winner.summary.standard_error or 0.0, table.training_se)
        bar = _ERRORS * both
        accepts = winner.gain > bar
        sign = ">" if accepts else "<="
        of = "evaluation and training" if table.training_se > 0.0 else "evaluation (no training noise is known)"
        because = f"gain {points(winner.gain)} {sign} twice the error of {of} {points(bar)}"
        evidence = {"threshold": bar, "training_se": table.training_se}
        return Judgement(Verdict.ACCEPT if accepts else Verdict.REJECT, because, evidence=evidence)
