"""More than twice as many repairs as regressions: the gate of generalizable skill optimization."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from heldout.gates.base import GenerationTable
from heldout.gates.evidence import Judgement, PairedGains, Winner, decided, nothing_measured, points, too_little
from heldout.gates.rule import Rule
from heldout.options import read_options
from heldout.records import Decision, Record, Verdict
from heldout.stats import EQUAL_WITHIN, mean_measured

__all__ = ["FAMILY_FLOOR", "FAMILY_SHARE", "RepairsOverRegressions", "RepairsOverRegressionsOptions", "Variant"]

Variant = Literal["binary", "u_only", "graded", "family"]

FAMILY_SHARE = 0.6
"""`family`: share of the families that must rise (3 of 5 in the paper), rounded up."""

FAMILY_FLOOR = -0.10
"""`family`: no family's mean may change by less than this."""

_COUNTING = ("binary", "u_only")
"""Variants in which a task counts 1, however far it moved."""


class RepairsOverRegressionsOptions(Record):
    """`gate.options` of `repairs_over_regressions`."""

    variant: Variant = "binary"
    """`binary`: u = R - weight B, and the total may not fall. `u_only`: u alone. `graded`: u of what was gained and
    lost, and the family-balanced mean rises. `family`: that mean rises, 3 of 5 families do, none falls by over 0.10."""
    weight: float = Field(default=2.0, gt=0.0)
    """Repairs that one regression costs; 1 accepts whatever repairs more than it breaks."""
    min_u: float = Field(default=1.0, ge=0.0)
    """Least u that is accepted, in tasks; `binary` and `u_only`. 2 lowers the false accepts, at a price in power."""
    safety: float = Field(default=4.0, gt=0.0)
    """Weight of a regression on a safety-critical task, in place of `weight`."""
    coverage: float = Field(default=0.9, ge=0.0, le=1.0)
    """Share of the select tasks measured on both sides; below it nothing is decided."""

    @model_validator(mode="after")
    def _counts_tasks(self) -> Self:
        if self.variant not in _COUNTING and self.min_u != 1.0:
            raise ValueError(f"min_u counts tasks, and the variant {self.variant!r} counts none: leave min_u out")
        return self


class _Tally(NamedTuple):
    """R, B and u of one candidate or, as arrays, of several."""

    repairs: NDArray[np.float64]
    regressions: NDArray[np.float64]
    utility: NDArray[np.float64]


class _Condition(NamedTuple):
    holds: bool
    words: str


@dataclass(frozen=True, slots=True)
class RepairsOverRegressions(Rule):
    """Accepts iff u = R - 2 B > 0, total success does not fall, and the edited module is the attributed one.

    R are the tasks that rose (of scores 0 and 1: failed, then passed), B those that fell (arXiv 2609.39148; gso.md,
    sections 4 and 5). A task that is missing on a side is neither, and enters no total. Where the table says
    `module_rule`, an edit of any other file is rejected before anything else is looked at, coverage included.
    The safety weight of the variant `family`, for which the paper states none, multiplies what a critical task lost
    by safety / weight before means are taken: our choice.
    """

    options: RepairsOverRegressionsOptions = field(init=False)

    name: ClassVar[str] = "repairs_over_regressions"
    counts_decide: ClassVar[bool] = True
    takes_options: ClassVar[bool] = True

    def __post_init__(self) -> None:
        read = read_options(RepairsOverRegressionsOptions, self.config.options, where=f"the gate {self.name}")
        object.__setattr__(self, "options", read)

    def decide(self, table: GenerationTable) -> Decision:
        coverage = self.options.coverage
        fault = _module_fault(table)
        gains = PairedGains.of(table)
        winner = gains.winner(self._merit(gains, table), table.edit_sizes, coverage=coverage)
        if winner is None:
            nothing = nothing_measured(self.name)
            return nothing.model_copy(update={"verdict": Verdict.REJECT, "reason": fault}) if fault else nothing
        evidence = self._evidence(winner, table)
        if fault:
            return decided(self.name, winner, Judgement(Verdict.REJECT, fault, evidence=evidence))
        if not winner.covers(coverage):
            return decided(self.name, winner, too_little(coverage, evidence=evidence))
        return decided(self.name, winner, self._judge(winner, table, evidence))

    def _merit(self, gains: PairedGains, table: GenerationTable) -> NDArray[np.float64]:
        """u of each candidate; NaN where nothing was measured."""
        measured = ~np.isnan(gains.differences).all(axis=1)
        return np.where(measured, self._tally(gains.differences, table).utility, np.nan)

    def _tally(self, differences: NDArray[np.float64], table: GenerationTable) -> _Tally:
        rose, fell = differences > EQUAL_WITHIN, differences < -EQUAL_WITHIN  # NaN is neither
        ones = self.options.variant in _COUNTING
        gained = np.where(rose, 1.0 if ones else differences, 0.0)
        lost = np.where(fell, 1.0 if ones else -differences, 0.0)
        utility = gained.sum(axis=-1) - lost @ np.where(_critical(table), self.options.safety, self.options.weight)
        return _Tally(gained.sum(axis=-1), lost.sum(axis=-1), utility)

    def _evidence(self, winner: Winner, table: GenerationTable) -> dict[str, float]:
        tally = self._tally(winner.differences, table)
        critical = int((_critical(table) & (winner.differences < -EQUAL_WITHIN)).sum())
        found = {
            "R": float(tally.repairs),
            "B": float(tally.regressions),
            "u": float(tally.utility),
            "weight": self.options.weight,
            "min_u": self.options.min_u,
            "missing": float(len(winner.differences) - winner.summary.n),
        }
        found |= {"critical_regressions": float(critical), "safety": self.options.safety} if table.critical else {}
        if not any(table.families):
            return found
        means = _family_means(winner.differences, table)
        return found | {f"family {name}": mean for name, mean in means.items() if mean is not None}

    def _judge(self, winner: Winner, table: GenerationTable, evidence: dict[str, float]) -> Judgement:
        variant = self.options.variant
        conditions: list[_Condition] = []
        if variant != "family":
            conditions.append(self._utility(evidence))
        if variant == "binary":
            conditions.append(_total(winner))
        if variant in ("graded", "family"):
            means = _family_means(self._penalised(winner, table), table)
            unknown = [name for name, mean in means.items() if mean is None]
            if unknown:
                words = f"no task of {', '.join(unknown)} was measured on both sides"
                return Judgement(Verdict.UNDECIDED, words, evidence=evidence)
            known = {name: mean for name, mean in means.items() if mean is not None}
            conditions += _families(known, strict=variant == "family")
            evidence = evidence | {"balanced_change": sum(known.values()) / len(known)}
        accepts = all(condition.holds for condition in conditions)
        because = "; ".join(condition.words for condition in conditions)
        return Judgement(Verdict.ACCEPT if accepts else Verdict.REJECT, because, evidence=evidence)

    def _utility(self, evidence: dict[str, float]) -> _Condition:
        """u > 0 and, where tasks are counted, u >= min_u."""
        u, least = evidence["u"], self.options.min_u if self.options.variant in _COUNTING else 0.0
        holds = u > EQUAL_WITHIN and u >= least - EQUAL_WITHIN
        bar = f">= {least:g}" if least > 0.0 else "> 0"
        missed = f"< {least:g}" if least > 0.0 else "<= 0"
        lost = f"{self.options.weight:g} x {evidence['B']:g}"
        if critical := evidence.get("critical_regressions"):
            lost += f", {critical:g} of them safety-critical at {self.options.safety:g}"
        return _Condition(holds, f"u = {evidence['R']:g} - {lost} = {u:+g} {bar if holds else missed}")

    def _penalised(self, winner: Winner, table: GenerationTable) -> NDArray[np.float64]:
        """`family`: what a safety-critical task lost counts more; other variants weigh it in u."""
        if self.options.variant != "family":
            return winner.differences
        worse = _critical(table) & (winner.differences < -EQUAL_WITHIN)
        return np.where(worse, winner.differences * (self.options.safety / self.options.weight), winner.differences)


def _module_fault(table: GenerationTable) -> str:
    """Why the edit is none of the attributed module alone; empty where it is, or where that is not asked for."""
    if not table.module_rule or table.edited == (table.attributed,):
        return ""
    edited = ", ".join(table.edited) or "nothing"
    return f"the edit changes {edited}, and the failure was attributed to {table.attributed or 'no module'}"


def _critical(table: GenerationTable) -> NDArray[np.bool_]:
    """Shape (n,): which tasks are safety-critical."""
    if not table.critical or not table.tasks:
        return np.zeros(len(table.incumbent), dtype=np.bool_)
    critical = set(table.critical)
    return np.array([task in critical for task in table.tasks], dtype=np.bool_)


def _family_means(differences: NDArray[np.float64], table: GenerationTable) -> dict[str, float | None]:
    """Mean change of each family, in order of its name; None where none of its tasks was measured."""
    families = np.array(table.families or ("all tasks",) * len(differences))
    means = {name: float(mean_measured(differences[families == name])) for name in sorted(set(families.tolist()))}
    return {name: None if math.isnan(mean) else mean for name, mean in means.items()}


def _total(winner: Winner) -> _Condition:
    holds = winner.gain >= -EQUAL_WITHIN
    words = f"total success {points(winner.gain)}"
    return _Condition(holds, words if holds else f"{words}, and it may not fall")


def _families(means: dict[str, float], *, strict: bool) -> list[_Condition]:
    """The family-balanced mean rises; `strict`: enough families rise too, and none falls far."""
    balanced = sum(means.values()) / len(means)
    rises = balanced > EQUAL_WITHIN
    found = [_Condition(rises, f"family-balanced change {points(balanced)} {'>' if rises else '<='} 0")]
    if not strict:
        return found
    rose, needed = sum(mean > EQUAL_WITHIN for mean in means.values()), math.ceil(FAMILY_SHARE * len(means) - 1e-9)
    lowest = min(means, key=lambda name: means[name])
    return [
        *found,
        _Condition(rose >= needed, f"{rose} of {len(means)} families rise, and {needed} must"),
        _Condition(
            means[lowest] >= FAMILY_FLOOR - EQUAL_WITHIN,
            f"the lowest, {lowest}, changes by {points(means[lowest])}, and {points(FAMILY_FLOOR)} is the least",
        ),
    ]
