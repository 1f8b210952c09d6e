"""Tables and plot of the step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from heldout.report.summary import RunSummary
from heldout.report.training_budget import budget_of
from heldout.report.training_rounds import TrainingRound
from heldout.store.events import AuditResult
from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.tables import Cell, Table

__all__ = [
    "checks_table",
    "cost_table",
    "curve_plot",
    "curve_table",
    "faults_table",
    "gains_table",
    "strategies_table",
]

_SPOTS = 12
"""Places of the plot: means over as many equal parts of the training."""


def gains_table(found: RunSummary) -> Table:
    """Start and final on every role, the deciding one first."""
    start, final = found.start.select, found.final.select
    rows: list[tuple[Cell, ...]] = [
        (
            *("select (decided)", final.n, _points(start.value), _points(final.value)),
            *(_points(found.gains.believed), None, None, None, None),
        )
    ]
    audited = () if found.audit is None else (found.audit,)
    for one in (*audited, *found.reports):
        rows.append(_gain_row(one))
        rows += [
            (
                *(f"{one.role}: {family.family}", family.n_tasks),
                *map(_points, (family.start_mean, family.final_mean, family.gain, *(family.interval or (None, None)))),
                *(None, None),
            )
            for family in one.families
        ]
    return Table(
        name="gains",
        title="Start and final",
        note="Percent right; gains in points, final minus start on the same tasks, with a 95 % interval.",
        columns=("role", "tasks", "start", "final", "gain", "low", "high", "fixed", "broken"),
        rows=tuple(rows),
    )


def _gain_row(one: AuditResult) -> tuple[Cell, ...]:
    measured = (one.start_mean, one.final_mean, one.gain, *(one.interval or (None, None)))
    return (one.role, one.n_tasks, *map(_points, measured), one.fixed, one.broken)


def faults_table(rounds: Sequence[TrainingRound]) -> Table:
    """What was wrong with the start's answers to train tasks."""
    rows = tuple(
        (one.number, cluster.code, cluster.count, cluster.also, 100.0 * cluster.share, cluster.recoverable)
        for one in rounds
        if one.diagnosed
        for cluster in one.diagnosed.clusters
    )
    return Table(
        name="faults",
        title="What was wrong before",
        note="Failed train tasks by the first fault, the one that hides the others; `also`: behind another fault.",
        columns=("round", "fault", "tasks", "also", "share, %", "recoverable, points"),
        rows=rows,
    )


def strategies_table(rounds: Sequence[TrainingRound]) -> Table:
    """Every strategy that was weighed; reported gains are what its source claims."""
    rows = tuple(
        (
            *(one.number, row.id, row.fits, row.reported_gain, row.reproduces, row.cost_s),
            *(row.score, row.lost or "chosen"),
        )
        for one in rounds
        if one.weighed
        for row in one.weighed.table
    )
    return Table(
        name="strategies",
        title="Strategies weighed",
        note="Gains and costs are those of the library's sources, invented for its world; they were not measured here.",
        columns=("round", "strategy", "fits", "reported gain", "P(reproduces)", "cost, s", "score", "why not"),
        rows=rows,
    )


def checks_table(rounds: Sequence[TrainingRound]) -> Table:
    """The preflight ladder."""
    rows = tuple(
        (one.number, stage.attempt, stage.stage, check.name, check.passed, check.found, check.wanted)
        for one in rounds
        for stage in one.ladder
        for check in stage.checks
    )
    return Table(
        name="preflight",
        title="Preflight",
        note="Stage a on tiny data, b after a short run; nothing larger is paid for before both pass.",
        columns=("round", "attempt", "stage", "check", "passed", "found", "wanted"),
        rows=rows,
    )


def curve_table(rounds: Sequence[TrainingRound]) -> Table:
    """Loss by step."""
    rows = tuple(
        (one.number, number, loss)
        for one in rounds
        if one.training
        for number, loss in enumerate(one.training.losses, start=1)
    )
    return Table(
        name="curve",
        title="Training curve",
        note="Mean loss (nats) per completion token of each step, before its update.",
        columns=("round", "step", "loss"),
        rows=rows,
    )


def curve_plot(rounds: Sequence[TrainingRound], *, simulated: bool) -> tuple[Plot, ...]:
    """The same, in twelve means; none where nothing was trained."""
    lines, xs = [], dict[str, None]()
    for one in rounds:
        losses = one.training.losses if one.training else ()
        if len(losses) < _SPOTS:
            continue
        ends = [round(place * len(losses) / _SPOTS) for place in range(_SPOTS + 1)]
        spots = tuple(Spot(x=f"to {end}", y=fmean(losses[begin:end])) for begin, end in pairwise(ends))
        lines.append(Line(name=f"round {one.number}", spots=spots))
        xs |= dict.fromkeys(spot.x for spot in spots)
    if not lines:
        return ()
    title = "Loss per completion token" + (" (simulation)" if simulated else "")
    plot = Plot(name="curve", title=title, x_label="step", y_label="nats", xs=tuple(xs), lines=tuple(lines))
    return (plot,)


def cost_table(found: RunSummary) -> Table:
    """Everything that was paid for, the most seconds first."""
    purposes = budget_of(found, found.training).purposes if found.training else ()
    rows = [
        (one.name, one.spend.wall_s, one.spend.cpu_s, one.spend.evaluations, one.spend.tokens_in, one.spend.tokens_out)
        for one in purposes
    ]
    total = found.total
    rows.append(("total", total.wall_s, total.cpu_s, total.evaluations, total.tokens_in, total.tokens_out))
    return Table(
        name="cost",
        title="Cost by purpose",
        note=(
            "Seconds of work, and of one processor; in a simulation those of training are simulated too. "
            "No dollars: nothing was asked of a served model."
        ),
        columns=("purpose", "seconds", "processor seconds", "evaluations", "tokens in", "tokens out"),
        rows=tuple(rows),
    )


def _points(value: float | None) -> float | None:
    return None if value is None else 100.0 * value
