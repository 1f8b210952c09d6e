"""Confirm the winner on new tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, PairedGains, Winner, conclude, points
from heldout.gates.rule import Rule
from heldout.records import Decision, Verdict
from heldout.stats import EQUAL_WITHIN, task_differences

__all__ = ["Fresh"]


@dataclass(frozen=True, slots=True)
class Fresh(Rule):
    """Accepts iff the best candidate gains on the select tasks and again on `config.fresh` new ones.

    The first call answers CONFIRM and names the winner; the second, with `table.fresh`, decides, and its
    evidence is that of the new tasks alone, on which no choice was made. They cost labels, and are charged.
    """

    name: ClassVar[str] = "fresh"

    @property
    def fresh_tasks(self) -> int:
        return self.config.fresh

    def decide(self, table: GenerationTable) -> Decision:
        gains = PairedGains.of(table)
        winner = gains.winner(gains.means, table.edit_sizes)
        if winner is None or table.fresh is None or winner.gain <= EQUAL_WITHIN:
            return conclude(self.name, winner, self._ask)
        renewed = Winner.of(winner.index, task_differences(table.fresh.a, table.fresh.b))
        return conclude(self.name, renewed, lambda again: _confirm(again, select_gain=winner.gain))

    def _ask(self, winner: Winner) -> Judgement:
        if winner.gain > EQUAL_WITHIN:
            return Judgement(
                Verdict.CONFIRM, f"gain {points(winner.gain)}, to be confirmed on {self.fresh_tasks} new tasks"
            )
        return Judgement(Verdict.REJECT, f"gain {points(winner.gain)} <= 0")


def _confirm(again: Winner, *, select_gain: float) -> Judgement:
    accepts = again.gain > EQUAL_WITHIN
    return Judgement(
        Verdict.ACCEPT if accepts else Verdict.REJECT,
        f"new tasks gain {points(again.gain)} {'>' if accepts else '<='} 0, after {points(select_gain)} on select",
        evidence={"select_gain": select_gain},
    )
