"""PACE, an anytime-valid test by betting, as a gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, Winner
from heldout.gates.rule import BestGainRule
from heldout.records import Verdict
from heldout.stats import pace_decision

__all__ = ["Pace"]


@dataclass(frozen=True, slots=True)
class Pace(BestGainRule):
    """Accepts iff the best candidate's wealth (×1.5 a win, ×0.5 a loss) ever reaches 1/α (arXiv 2606.08106).

    Tasks are read in one random order per decision, drawn from the table's seed. The p-value is 1 / peak.
    """

    name: ClassVar[str] = "pace"
    counts_decide: ClassVar[bool] = True

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:
        order = np.random.default_rng(table.seed).permutation(len(winner.differences))
        bet = pace_decision(winner.differences, order, alpha=self.config.alpha)
        bar = 1.0 / self.config.alpha
        return Judgement(
            Verdict.ACCEPT if bet.accepts else Verdict.REJECT,
            f"wealth peaked at {bet.peak:.3g} {'>=' if bet.accepts else '<'} {bar:g}",
            p_value=1.0 / bet.peak,
            evidence={"peak_wealth": bet.peak, "final_wealth": bet.final, "threshold": bar},
        )
