"""Keep every edit that could be measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, Winner, points
from heldout.gates.rule import BestGainRule
from heldout.records import Verdict

__all__ = ["KeepAll"]


@dataclass(frozen=True, slots=True)
class KeepAll(BestGainRule):
    """Accepts the best candidate whatever it gained: the released configuration of VERSE (arXiv 2610.02616).

    No score decides, so its false-accept rate is 1 by construction, and the selection among the kept states at the end
    is the only test that a kept edit meets. What it still needs is coverage: with too little measured it is undecided.
    No missing score can turn it: counted as failures or not, they leave the verdict what it is.
    """

    name: ClassVar[str] = "keep_all"
    counts_decide: ClassVar[bool] = True

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:  # noqa: ARG002 - nothing is weighed
        return Judgement(Verdict.ACCEPT, f"gain {points(winner.gain)}; kept, as every edit that was measured is")
