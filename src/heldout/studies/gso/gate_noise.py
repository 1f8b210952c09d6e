"""Part (c): other error rates of the solver: the order of arms, and what the gate makes of edits without effect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heldout.stats import normal_quantile
from heldout.studies.gso.arms import ARMS, GATED, RIVALS, Arm, World, available
from heldout.studies.gso.bench import Bench
from heldout.studies.gso.claims import claim_of, worst
from heldout.studies.gso.null_edits import NullRates, null_rates
from heldout.studies.gso.reading import EditSeen
from heldout.studies.gso.summaries import ArmRuns, Known, audit, exact_audit
from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.results import Claim, Part, Region
from heldout.studies.tables import Cell, Estimate, Table

__all__ = ["AGREES", "NullCounts", "gate_and_noise", "null_counts", "rate_claim"]

AGREES = Region(low=-5.0, high=5.0)
"""Points within which a measured rate counts as that of the table: equality itself cannot be shown."""

Worlds = Mapping[World, Mapping[str, ArmRuns]]


@dataclass(frozen=True, slots=True)
class NullCounts:
    """Edits without effect that the runs themselves proposed."""

    edits: int
    accepted: int
    expected: float
    """How many of them the rule accepts on average, from each task's own disagreement."""
    by_table: float
    """The same from their mean alone."""
    spread: float
    """Standard deviation of the number, if the expectation is right."""


def gate_and_noise(bench: Bench) -> Part:
    """The rivals and the gates at every ε, gate tables of edits without effect, claim C6."""
    plan = bench.plan
    worlds = [World(slip) for slip in plan.slips]
    found = bench.run(_arms(), worlds)
    rates = null_rates(plan, worlds)
    return Part(
        id="c",
        title="The gate, and other error rates",
        simulated=True,
        quick=plan.quick,
        intro=(
            f"ε in {{{', '.join(f'{slip:g}' for slip in plan.slips)}}}: the chance that the solver fails a step. More "
            f"slips mean more disagreement between two runs of the same guide, and so more edits without effect that a "
            f"gate lets in. {plan.seeds} seeds; the world of part a is ε = {World().slip:g}."
        ),
        tables=(_order(found), _rate_table(rates), _run_table(found)),
        claims=(rate_claim(rates, null_counts(_decided_by_u(found))),),
        plots=(_plot(found),),
        seeds=plan.seeds,
        config_digests={
            f"{name}, ε = {world.slip:g}": runs.config_digest
            for world, arms in found.items()
            for name, runs in arms.items()
        },
    )


def rate_claim(rates: Mapping[World, Sequence[NullRates]], own: NullCounts) -> Claim:
    """C6, of the rule u > 0 at every ε together: the widest gap, intervals corrected for their number (Bonferroni)."""
    gaps = {world: _gap(one[0], share=len(rates)) for world, one in rates.items()}
    widest = max(gaps, key=lambda world: abs(gaps[world].value))
    told = "; ".join(
        f"ε = {world.slip:g}, p = {100 * one[0].disagreement:.1f} %: {100 * one[0].rate:.1f} % of {one[0].tables} "
        f"tables, table {100 * one[0].by_table:.1f} %, by each task's own p {100 * one[0].by_task:.1f} %"
        for world, one in rates.items()
    )
    sentence = (
        "Of the rule u > 0, on edits without effect; the claim asks for a gap of at most 5 points with the whole "
        f"corrected interval, at every ε. {told}. Of the edits that the runs of gso themselves proposed at these ε, "
        f"{own.edits} have no effect on select; {own.accepted} of them were accepted, where {own.expected:.1f} ± "
        f"{own.spread:.1f} are expected."
    )
    verdict = worst(*(AGREES.verdict(one.interval) for one in gaps.values()))
    rests_on = f"measured rate minus the table's at the same p, points, the widest: ε = {widest.slip:g}"
    return claim_of("C6", "c", verdict, rests_on, gaps[widest], sentence)


def _decided_by_u(found: Worlds) -> list[EditSeen]:
    """Edits of every ε that the rule u > 0 decided on."""
    names = ("gso", "gso, any module")
    return [edit for arms in found.values() for name in names for one in arms[name].results for edit in one.seen]


def null_counts(seen: Sequence[EditSeen]) -> NullCounts:
    """Of the edits of several runs, those that truly change no select task."""
    null = [one for one in seen if one.null]
    return NullCounts(
        edits=len(null),
        accepted=sum(one.accepted for one in null),
        expected=sum(one.expected for one in null),
        by_table=sum(one.by_table for one in null),
        spread=math.sqrt(sum(one.expected * (1.0 - one.expected) for one in null)),
    )


def _arms() -> dict[str, Arm]:
    return available({name: ARMS[name] for name in (*RIVALS, *GATED)})


def _gap(one: NullRates, *, share: int) -> Known:
    """Measured minus the table's, in points; the sampling error is that of the tables."""
    error = math.sqrt(max(one.by_task * (1.0 - one.by_task), 1e-12) / one.tables)
    gap, half = one.rate - one.by_table, normal_quantile(1.0 - 0.05 / share) * error
    return Known(100.0 * gap, 100.0 * (gap - half), 100.0 * (gap + half), 100.0 * error)


def _order(found: Worlds) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in next(iter(found.values())):
        cells = [
            cell
            for arms in found.values()
            for cell in (arms[name].known(audit).estimate, arms[name].known(exact_audit).value, _rank(arms, name))
        ]
        rows.append((name, *cells))
    return Table(
        name="noise",
        title="Audit scores and the order of arms, by ε",
        note="A simulation. Percent, ± one standard error over seeds; `rank` is that of the exact mean, 1 the highest.",
        columns=(
            "arm",
            *(f"{what}, ε = {world.slip:g}" for world in found for what in ("audit", "exact", "rank")),
        ),
        rows=tuple(rows),
    )


def _rank(arms: Mapping[str, ArmRuns], name: str) -> int:
    own = arms[name].mean(exact_audit)
    return 1 + sum(other.mean(exact_audit) > own + 1e-9 for other in arms.values())


def _rate_table(rates: Mapping[World, Sequence[NullRates]]) -> Table:
    rows = tuple(
        (
            *(world.slip, one.rule, one.n, 100.0 * one.disagreement, _share(one)),
            *(100.0 * one.by_table, 100.0 * one.by_task, one.tables),
        )
        for world, found in rates.items()
        for one in found
    )
    return Table(
        name="false_accepts",
        title="How often each rule accepts an edit without effect",
        note=(
            "A simulation. The start guide against itself with one sentence more that has no effect, run anew for each "
            "table, and decided by the real gates. Percent, ± the sampling error of the tables. `by the table`: the "
            "formula behind the specification's table, which takes all tasks for alike, at each world's exact mean "
            "disagreement p; `by each task's p`: the same from every task's own."
        ),
        columns=("ε", "rule", "n", "p, %", "accepted, %", "by the table, %", "by each task's p, %", "tables"),
        rows=rows,
    )


def _share(one: NullRates) -> Estimate:
    error = math.sqrt(one.rate * (1.0 - one.rate) / one.tables)
    return Estimate(value=100.0 * one.rate, standard_error=100.0 * error)


def _run_table(found: Worlds) -> Table:
    return Table(
        name="null_edits",
        title="Edits without effect in the runs themselves",
        note=(
            "A simulation. Of all edits that the runs put before the gate, those that truly change the chance of no "
            "select task; all seeds together. `expected`: how many the rule accepts on average, from the exact chances "
            "of their parents, ± the standard deviation of that number; `by the table`: from their mean p alone."
        ),
        columns=("ε", "arm", "edits", "without effect", "accepted", "expected", "by the table", "mean p, %"),
        rows=tuple(_run_rows(found)),
    )


def _run_rows(found: Worlds) -> Iterator[tuple[Cell, ...]]:
    for world, arms in found.items():
        for name in GATED:
            seen = [edit for one in arms[name].results for edit in one.seen]
            counts = null_counts(seen)
            noise = [one.disagreement for one in seen if one.null]
            yield (
                *(world.slip, name, len(seen), counts.edits, counts.accepted),
                *(Estimate(value=counts.expected, standard_error=counts.spread), counts.by_table),
                100.0 * float(np.mean(noise)) if noise else None,
            )


def _plot(found: Worlds) -> Plot:
    lines = []
    for name in ("gso", "start guide", "persistent, strict gate", "one-shot + recovery", "no skill"):
        spots = tuple(
            Spot(x=f"ε = {world.slip:g}", y=one.value, standard_error=one.standard_error)
            for world, arms in found.items()
            if not np.isnan((one := arms[name].known(audit)).value)
        )
        lines.append(Line(name=name, spots=spots))
    return Plot(
        name="noise",
        title="Audit score by the solver's error rate (simulation)",
        x_label="ε",
        y_label="%",
        xs=tuple(f"ε = {world.slip:g}" for world in found),
        lines=tuple(lines),
    )
