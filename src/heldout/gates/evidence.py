"""What every built-in gate shares: measured gains, the winner, the coverage floor, the decision with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from heldout.gates.base import GenerationTable
from heldout.records import Decision, Verdict
from heldout.stats import EQUAL_WITHIN, MeanInterval, mean_interval, mean_measured

__all__ = [
    "COVERAGE_FLOOR",
    "Judgement",
    "PairedGains",
    "Winner",
    "conclude",
    "decided",
    "nothing_measured",
    "points",
    "too_little",
]

COVERAGE_FLOOR = 0.8
"""Share of the tasks that must be measured for both incumbent and winner. Below it a gate answers UNDECIDED
and never REJECT: what could not be measured says nothing about the candidate."""

_FEWEST = 2
"""Paired tasks below which no gate decides."""


@dataclass(frozen=True, slots=True, eq=False)
class Winner:
    """The chosen candidate against the incumbent; what a rule judges."""

    index: int
    differences: NDArray[np.float64]
    """Shape (n,): winner − incumbent, of means over repeats; NaN where either is missing."""
    summary: MeanInterval
    wins: int
    losses: int

    @classmethod
    def of(cls, index: int, differences: NDArray[np.float64]) -> Self:
        wins = int(np.count_nonzero(differences > EQUAL_WITHIN))
        losses = int(np.count_nonzero(differences < -EQUAL_WITHIN))
        return cls(index, differences, mean_interval(differences), wins, losses)

    @property
    def gain(self) -> float:
        """Mean measured difference; 0 when nothing was measured, which `conclude` never lets a rule judge."""
        return self.summary.mean or 0.0

    @property
    def covered(self) -> bool:
        """Whether enough tasks were measured for a verdict."""
        return self.covers(COVERAGE_FLOOR)

    def covers(self, coverage: float) -> bool:
        """Whether this share of the tasks was measured, and no fewer than any gate needs."""
        return self.summary.n >= _needed(len(self.differences), coverage)


@dataclass(frozen=True, slots=True, eq=False)
class PairedGains:
    """Every candidate against the incumbent, on all tasks of a table or on some of them."""

    differences: NDArray[np.float64]
    """Shape (K, n): candidate − incumbent, of means over repeats; NaN where either is missing."""
    means: NDArray[np.float64]
    """Shape (K,): the measured gains d; NaN for a candidate without any."""

    @classmethod
    def of(cls, table: GenerationTable, *, tasks: NDArray[np.intp] | None = None) -> Self:
        """Reads the scores of `tasks` and of no other task; None means all of them."""
        incumbent, candidates = table.incumbent, table.candidates
        if tasks is not None:
            incumbent, candidates = incumbent[tasks], candidates[:, tasks]
        differences = mean_measured(candidates) - mean_measured(incumbent)
        return cls(differences, mean_measured(differences))

    def best(
        self, merit: NDArray[np.float64], edit_sizes: NDArray[np.int64], *, coverage: float = COVERAGE_FLOOR
    ) -> int | None:
        """Candidate with the largest merit; ties go to the smaller edit, then the lower index. None if all are NaN.

        One that was measured on too few tasks for a verdict stands behind all that were measured on enough.
        """
        enough = (~np.isnan(self.differences)).sum(axis=1) >= _needed(self.differences.shape[1], coverage)
        values = (np.where(enough, merit, np.nan) if enough.any() else merit).tolist()
        measured = [value for value in values if value == value]
        if not measured:
            return None
        top = max(measured) - EQUAL_WITHIN
        return min((int(edit_sizes[index]), index) for index, value in enumerate(values) if value >= top)[1]

    def winner(
        self, merit: NDArray[np.float64], edit_sizes: NDArray[np.int64], *, coverage: float = COVERAGE_FLOOR
    ) -> Winner | None:
        """The best candidate by `merit`, with its evidence on these tasks."""
        index = self.best(merit, edit_sizes, coverage=coverage)
        return None if index is None else Winner.of(index, self.differences[index])


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a rule says about a winner whose coverage is good enough."""

    verdict: Verdict
    because: str
    """The end of the reason, after the counts: `p = 0.31 > 0.05`."""
    p_value: float | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    """Finite numbers only: the journal is JSON."""


def conclude(gate: str, winner: Winner | None, judge: Callable[[Winner], Judgement]) -> Decision:
    """Apply the rule to the winner, unless too little was measured, and write the evidence down."""
    if winner is None:
        return nothing_measured(gate)
    return decided(gate, winner, judge(winner) if winner.covered else too_little())


def decided(gate: str, winner: Winner, judgement: Judgement) -> Decision:
    """The decision that a judgement makes, with the winner's evidence."""
    summary = winner.summary
    return Decision(
        gate=gate,
        verdict=judgement.verdict,
        winner=winner.index,
        n=summary.n,
        effect=summary.mean,
        standard_error=summary.standard_error,
        interval=summary.interval,
        wins=winner.wins,
        losses=winner.losses,
        p_value=judgement.p_value,
        reason=f"{_counts(winner)}; {judgement.because}",
        evidence=judgement.evidence,
    )


def nothing_measured(gate: str, *, where: str = "any task") -> Decision:
    """Undecided, without a winner."""
    return Decision(gate=gate, verdict=Verdict.UNDECIDED, reason=f"no candidate was measured on {where}")


def points(fraction: float) -> str:
    """A fraction in signed percentage points, for a reason."""
    return f"{100 * fraction:+.1f} points"


def too_little(coverage: float = COVERAGE_FLOOR, *, evidence: Mapping[str, float] | None = None) -> Judgement:
    """What every rule says where less than this share of the tasks was measured."""
    return Judgement(
        Verdict.UNDECIDED,
        f"a verdict needs {coverage:.0%} of the tasks and at least {_FEWEST}, measured for both",
        evidence=evidence or {},
    )


def _needed(tasks: int, coverage: float) -> float:
    """How many of so many tasks a verdict needs."""
    return max(_FEWEST, coverage * tasks - EQUAL_WITHIN)


def _counts(winner: Winner) -> str:
    tasks = len(winner.differences)
    measured = f"{tasks}" if winner.summary.n == tasks else f"{winner.summary.n} of {tasks}"
    return f"{_plural(winner.wins, 'win', 'wins')}, {_plural(winner.losses, 'loss', 'losses')} on {measured} tasks"


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
