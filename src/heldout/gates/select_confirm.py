"""Choose on one half of the tasks, confirm on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, PairedGains, Winner, conclude, nothing_measured, points
from heldout.gates.rule import Rule
from heldout.records import Decision, Verdict
from heldout.stats import EQUAL_WITHIN, mean_measured

__all__ = ["SelectConfirm"]


@dataclass(frozen=True, slots=True)
class SelectConfirm(Rule):
    """Accepts iff the best candidate on half A gains there, and gains on half B too.

    The halves are drawn anew in every generation from the table's seed; A has the odd task. B is read
    for one candidate only, after A has chosen it. The evidence reported is that of all tasks.
    """

    name: ClassVar[str] = "select_confirm"

    def decide(self, table: GenerationTable) -> Decision:
        half_a, half_b = halves(len(table.incumbent), seed=table.seed)
        on_a = PairedGains.of(table, tasks=half_a)
        chosen = on_a.best(on_a.means, table.edit_sizes)
        if chosen is None:
            return nothing_measured(self.name, where="half A")
        # Half B is read from here on, for the chosen candidate only.
        gain_a = float(on_a.means[chosen])
        differences = mean_measured(table.candidates[chosen]) - mean_measured(table.incumbent)
        gain_b = float(mean_measured(differences[half_b]))
        return conclude(self.name, Winner.of(chosen, differences), lambda _: _judge(gain_a, gain_b))


def halves(n: int, *, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Half A and half B of `n` tasks; A has one more when `n` is odd."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: (n + 1) // 2], order[(n + 1) // 2 :]


def _judge(gain_a: float, gain_b: float) -> Judgement:
    if gain_b != gain_b:
        return Judgement(Verdict.UNDECIDED, "no task of half B was measured", evidence={"gain_a": gain_a})
    accepts = gain_a > EQUAL_WITHIN and gain_b > EQUAL_WITHIN
    return Judgement(
        Verdict.ACCEPT if accepts else Verdict.REJECT,
        f"half A {points(gain_a)}, half B {points(gain_b)}; both must be above 0",
        evidence={"gain_a": gain_a, "gain_b": gain_b},
    )
