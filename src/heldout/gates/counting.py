"""Rules that compare the best gain with a fixed bar: greedy, repeats, net, tolerance, ladder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, Winner, points
from heldout.gates.rule import BestGainRule
from heldout.records import Verdict
from heldout.stats import EQUAL_WITHIN, ladder_accepts

__all__ = ["Greedy", "Ladder", "Net", "Repeats", "Tolerance"]


@dataclass(frozen=True, slots=True)
class Greedy(BestGainRule):
    """Keep if better: accepts iff the best d is above 0. A copy of the incumbent has d = 0 and is rejected."""

    name: ClassVar[str] = "greedy"
    counts_decide: ClassVar[bool] = True

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:  # noqa: ARG002 - the counts are enough
        accepts = winner.gain > EQUAL_WITHIN
        return _judgement(accepts, f"gain {points(winner.gain)} {'>' if accepts else '<='} 0")


@dataclass(frozen=True, slots=True)
class Repeats(Greedy):
    """Greedy on means over `config.repeats` repeats of each evaluation, which thin out a solver's own noise."""

    name: ClassVar[str] = "repeats"

    @property
    def repeats(self) -> int:
        return self.config.repeats


@dataclass(frozen=True, slots=True)
class Net(BestGainRule):
    """Accepts iff the best candidate wins more tasks than it loses; equals greedy when scores are 0 or 1."""

    name: ClassVar[str] = "net"
    counts_decide: ClassVar[bool] = True

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:  # noqa: ARG002 - the counts are enough
        net = winner.wins - winner.losses
        return _judgement(net > 0, f"net {net:+d} {'>' if net > 0 else '<='} 0")


@dataclass(frozen=True, slots=True)
class Tolerance(BestGainRule):
    """Non-inferiority, as in VERSE: accepts iff the best d is above −`config.tolerance`.

    It lets through what is a little worse, a copy of the incumbent included; for changes wanted for another
    reason than the score. The head may drift down by the tolerance at every step.
    """

    name: ClassVar[str] = "tolerance"

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:  # noqa: ARG002 - the counts are enough
        bar = -self.config.tolerance
        accepts = winner.gain > bar
        sign = ">" if accepts else "<="
        return _judgement(accepts, f"gain {points(winner.gain)} {sign} {points(bar)}", threshold=bar)


@dataclass(frozen=True, slots=True)
class Ladder(BestGainRule):
    """Accepts iff the best d is above its own standard error (the Ladder's step, arXiv 1502.04585)."""

    name: ClassVar[str] = "ladder"
    counts_decide: ClassVar[bool] = True

    def judge(self, winner: Winner, table: GenerationTable) -> Judgement:  # noqa: ARG002 - the counts are enough
        accepts = ladder_accepts(winner.differences)
        step = winner.summary.standard_error or 0.0
        sign = ">" if accepts else "<="
        return _judgement(
            accepts, f"gain {points(winner.gain)} {sign} its standard error {points(step)}", threshold=step
        )


def _judgement(accepts: bool, because: str, **evidence: float) -> Judgement:
    return Judgement(Verdict.ACCEPT if accepts else Verdict.REJECT, because, evidence=evidence)
