"""The specification's reference results of the simulated loop, and whether they are met."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from heldout.studies.tables import Estimate, Table
from heldout.studies.winners_curse.summaries import ArmRuns

__all__ = ["REFERENCE_SEEDS", "reference_table"]

REFERENCE_SEEDS = 200

_SIZES = (16, 64, 256)

_GAINS: Mapping[str, tuple[tuple[float, float, float], ...]] = MappingProxyType(
    {
        "greedy": ((16.7, 31.3, 15.3), (7.1, 26.3, 19.1), (3.2, 24.4, 21.0)),
        "mcnemar": ((9.4, 27.3, 18.2), (2.9, 22.1, 19.2), (1.8, 22.1, 20.4)),
        "pace": ((3.3, 9.4, 5.0), (1.9, 23.2, 21.0), (1.6, 21.7, 20.3)),
        "select_confirm": ((10.2, 27.1, 17.5), (5.5, 24.9, 19.2), (2.4, 23.0, 20.5)),
        "bayes": ((4.7, 22.9, 17.7), (2.0, 22.5, 20.0), (2.0, 23.0, 20.8)),
    }
)
"""Inflation, reported and true gain in points, for n = 16, 64, 256; systems/winners_curse.md, section 7."""

_COMMITS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "greedy": (2.0, 2.4, 2.9),
        "mcnemar": (0.8, 1.1, 1.2),
        "pace": (0.2, 1.0, 1.3),
        "select_confirm": (1.2, 1.5, 1.9),
        "bayes": (1.0, 1.1, 1.7),
    }
)
_RMSE_REPORTED, _RMSE_AUDIT, _INFLATION_ALIKE = (19.2, 8.7, 4.3), (5.5, 6.5, 5.3), (18.1, 8.5, 2.7)
_HELPFUL, _HARMFUL_AT_16 = 5.0, 86.0

Row = tuple[str, int, str, float, Estimate, float, float, bool]


def reference_table(standard: Mapping[tuple[str, int], ArmRuns], alike: Mapping[int, ArmRuns]) -> Table:
    """Every stated number beside ours; `standard` by rule and n, `alike` (f = 0.3, greedy) by n."""
    rows: list[Row] = [row for runs in standard.values() for row in _arm_rows(runs)]
    for n, runs in alike.items():
        rows += _row(
            "greedy, f = 0.3", n, "inflation", _INFLATION_ALIKE[_SIZES.index(n)], runs.inflation, len(runs.runs)
        )
    met = sum(row[-1] for row in rows)
    greedy = [runs.audit_formula for (rule, _), runs in standard.items() if rule == "greedy"]
    formulas = f"{min(greedy):.1f} to {max(greedy):.1f}"
    return Table(
        name="simulated_reference",
        title=f"Against the specification's reference results: {met} of {len(rows)} met",
        note=(
            "A simulation. Points, percent or counts. The reference is itself a run of 200 seeds, so the standard "
            "error "
            "of a difference combines ours with that of 200 seeds of the same spread, and with the rounding of the "
            "stated "
            "figure; `met` is within 3 of it. By its formula √((p_d − δ²) / 64) the audit's RMSE is "
            f"{formulas} points here, whatever n; the reference's three values scatter around that."
            f"{_misses(rows)}"
        ),
        columns=("rule", "n", "quantity", "reference", "ours", "difference", "standard error", "met"),
        rows=tuple(rows),
    )


def _misses(rows: Sequence[Row]) -> str:
    missed = [f"{quantity} of {rule} at n = {n}" for rule, n, quantity, *_, met in rows if not met]
    return f" Not met: {', '.join(missed)}." if missed else ""


def _arm_rows(runs: ArmRuns) -> Iterator[Row]:
    rule, n, seeds = runs.arm.rule, runs.arm.n, len(runs.runs)
    if rule not in _GAINS:
        return
    at = _SIZES.index(n)
    inflation, reported, gain = _GAINS[rule][at]
    yield from _row(rule, n, "inflation", inflation, runs.inflation, seeds)
    yield from _row(rule, n, "reported gain", reported, runs.reported, seeds)
    yield from _row(rule, n, "true gain", gain, runs.gain, seeds)
    yield from _row(rule, n, "commits", _COMMITS[rule][at], runs.commit_count, seeds)
    if rule == "greedy":
        yield from _row(rule, n, "RMSE of reported gain", _RMSE_REPORTED[at], runs.rmse_reported, seeds)
        yield from _row(rule, n, "RMSE of 64-item audit", _RMSE_AUDIT[at], runs.rmse_audit, seeds)
        yield from _row(rule, n, "helpful later rewrites, %", _HELPFUL, runs.helpful, seeds, rounding=0.5)
        if n == 16:
            harmful = runs.harmful_later
            yield from _row(rule, n, "harmful among later commits, %", _HARMFUL_AT_16, harmful, seeds, rounding=0.5)


def _row(
    rule: str, n: int, quantity: str, stated: float, ours: Estimate | None, seeds: int, *, rounding: float = 0.05
) -> Iterator[Row]:
    """Nothing where we have no estimate. A uniform rounding error of half-width r has standard deviation r / √3."""
    if ours is None:
        return
    theirs = ours.standard_error * math.sqrt(seeds / REFERENCE_SEEDS)
    error = math.hypot(ours.standard_error, theirs, rounding / math.sqrt(3.0))
    difference = ours.value - stated
    yield rule, n, quantity, stated, ours, difference, error, abs(difference) <= 3.0 * error
