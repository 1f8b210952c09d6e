"""What a run over model weights paid for, by purpose, and what of it went into attempts that changed nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heldout.records import Spend
from heldout.report.queries import LedgerRow
from heldout.report.summary import RunSummary
from heldout.report.training_history import TrainingHistory, after_search
from heldout.report.training_rounds import CUT

__all__ = ["PurposeSpend", "TrainingBudget", "Waste", "budget_of"]

_NAMES: Mapping[str, str] = {
    "train": "diagnosis sweeps (train)",
    "diagnose": "diagnosis",
    "research": "research",
    "build": "building data",
    "preflight": "preflight",
    "training": "full training",
    "select": "select sweeps",
    "final": "final selection",
    "noise": "noise check",
    "check": "first request",
}
"""What each purpose of the ledger is called here."""

_WASTED: Mapping[str, tuple[str, ...]] = {
    "before the full training": ("preflight_failed", "contaminated", "no_data", "repeated"),
    "in the full training": ("training_failed",),
    "after the full training, not kept": ("rejected", "undecided"),
    "by an accident": ("not_measured",),
    CUT: ("cut",),
}
"""Where an attempt ended that left the model as it was, by `TrainingRound.status`."""


@dataclass(frozen=True, slots=True)
class PurposeSpend:
    """One purpose of the search, or one role that was opened after it."""

    purpose: str
    name: str
    spend: Spend
    after: bool
    """Paid after the last decision: the audit and report roles."""


@dataclass(frozen=True, slots=True)
class Waste:
    """Attempts that ended at one place."""

    where: str
    attempts: int
    spend: Spend

    @property
    def sentence(self) -> str:
        """`2 ended in the full training`, or `1 cut by the budget`."""
        return f"{self.attempts} {self.where}" if self.where == CUT else f"{self.attempts} ended {self.where}"


@dataclass(frozen=True, slots=True)
class TrainingBudget:
    """Seconds are of work, summed over workers; in a simulation those of training are simulated too."""

    purposes: tuple[PurposeSpend, ...]
    """The most seconds first."""
    wasted: tuple[Waste, ...]
    """In the order of a round; only places where an attempt ended."""

    @property
    def search(self) -> Spend:
        """Everything before the audit and the report roles."""
        return sum((one.spend for one in self.purposes if not one.after), start=Spend())

    @property
    def lost(self) -> Spend:
        """What attempts cost that left the model as it was."""
        return sum((one.spend for one in self.wasted), start=Spend())

    @property
    def wasted_share(self) -> float | None:
        """Of the search's seconds; None where it took none."""
        return self.lost.wall_s / self.search.wall_s if self.search.wall_s > 0 else None

    @property
    def on_accelerators(self) -> bool:
        return any(one.spend.gpu_s > 0 for one in self.purposes)


def budget_of(whole: RunSummary, training: TrainingHistory) -> TrainingBudget:
    """From the ledger and the attempts."""
    after = after_search(whole.split, training.floor)
    purposes = [
        PurposeSpend(row.purpose, _name(row, after), row.spend, after=row.purpose in after) for row in whole.ledger
    ]
    wasted = [_waste(training, where, statuses) for where, statuses in _WASTED.items()]
    return TrainingBudget(
        purposes=tuple(sorted(purposes, key=lambda one: (-one.spend.wall_s, one.purpose))),
        wasted=tuple(one for one in wasted if one.attempts),
    )


def _name(row: LedgerRow, after: frozenset[str]) -> str:
    return f"{row.purpose} (after the search)" if row.purpose in after else _NAMES.get(row.purpose, row.purpose)


def _waste(training: TrainingHistory, where: str, statuses: tuple[str, ...]) -> Waste:
    ended = [one for one in training.rounds if one.status in statuses]
    return Waste(where, len(ended), sum((one.spend for one in ended if one.spend is not None), start=Spend()))
