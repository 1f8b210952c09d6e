"""McNemar's exact test as a gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, Winner
from heldout.gates.rule import BestGainRule
from heldout.records import Verdict
from heldout.stats import mcnemar_exact

__all__ = ["McNemar"]


@dataclass(frozen=True, slots=True)
class McNemar(BestGainRule):
    """Accepts iff the one-sided exact p-value of the best candidate's wins against losses is at most α.

    α holds for one candidate; the best of K is tested as if it were the only one, as in the paper. What
    that costs is the rule's false-accept rate, printed by the noise check.
    """

    name: ClassVar[str] = "mcnemar"
    counts_decide: ClassVar[bool] = True

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:  # noqa: ARG002 - the counts are enough
        p = mcnemar_exact(winner.wins, winner.losses, alternative="greater")
        accepts = p <= self.config.alpha
        verdict = Verdict.ACCEPT if accepts else Verdict.REJECT
        return Judgement(verdict, f"p = {p:.2g} {'<=' if accepts else '>'} {self.config.alpha:g}", p_value=p)
