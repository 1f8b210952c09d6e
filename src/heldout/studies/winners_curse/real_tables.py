"""Tables and the plot of the runs of a real model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heldout.store.events import AuditResult
from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.tables import Cell, Estimate, Table, mean_estimate

__all__ = ["RealRun", "inflation", "real_plot", "real_tables"]


@dataclass(frozen=True, slots=True)
class RealRun:
    """What one run believed, and what gold and audit say; fractions of one, None where it was not measured."""

    source: str
    n: int
    rule: str
    seed: int
    simulated: bool
    select_start: float | None
    select_final: float | None
    gold_start: float | None
    """None where nothing improved: then gold stayed closed."""
    gold_final: float | None
    gold_gain: float | None
    audit: AuditResult | None
    modelled: float | None
    """Overstatement by the noise model."""
    commits: int
    evaluations: int
    tokens: int

    @property
    def believed(self) -> float | None:
        return _minus(self.select_final, self.select_start)

    @property
    def audited(self) -> float | None:
        return self.audit.gain if self.audit else None

    @property
    def overstatement(self) -> float | None:
        """Believed gain minus gold gain."""
        return _minus(self.believed, self.gold_gain)

    @property
    def arm(self) -> tuple[str, int, str]:
        return self.source, self.n, self.rule


def real_tables(runs: Sequence[RealRun]) -> tuple[Table, ...]:
    """Arms, and every run."""
    return _arms_table(runs), _runs_table(runs)


def _arms_table(runs: Sequence[RealRun]) -> Table:
    rows = [
        _arm_row(arm, [one for one in runs if one.arm == arm], runs) for arm in dict.fromkeys(one.arm for one in runs)
    ]
    return Table(
        name="real_arms",
        title="Arms",
        note=(
            "Points, mean ± standard error over seeds (each seed has its own tasks). Inflation: the final program's "
            "select "
            "score minus its gold accuracy; overstatement: believed minus gold gain; `model`: what the noise model "
            "expects of "
            "that. Where nothing improved gold stays closed, and its level is that of a sibling run on the same "
            "tasks, if any."
        ),
        columns=(
            *(
                "source",
                "n",
                "rule",
                "believed gain",
                "audited gain",
                "gold gain",
                "inflation",
                "overstatement",
                "model",
            ),
            *("RMSE of believed", "commits", "evaluations", "tokens"),
        ),
        rows=tuple(rows),
    )


def _arm_row(arm: tuple[str, int, str], mine: Sequence[RealRun], runs: Sequence[RealRun]) -> tuple[Cell, ...]:
    errors = [one.overstatement for one in mine if one.overstatement is not None]
    return (
        *arm,
        _mean(one.believed for one in mine),
        _mean(one.audited for one in mine),
        _mean(one.gold_gain for one in mine),
        _mean(inflation(one, runs) for one in mine),
        _mean(errors),
        _mean(one.modelled for one in mine),
        100.0 * math.sqrt(math.fsum(error**2 for error in errors) / len(errors)) if errors else None,
        mean_estimate([one.commits for one in mine], scale=1.0),
        math.fsum(one.evaluations for one in mine) / len(mine),
        math.fsum(one.tokens for one in mine) / len(mine),
    )


def _runs_table(runs: Sequence[RealRun]) -> Table:
    rows = [
        (
            *(*one.arm, one.seed),
            *(_points(value) for value in (one.select_start, one.select_final, one.believed)),
            Estimate(value=100 * one.audit.gain, standard_error=100 * one.audit.standard_error)
            if one.audit and one.audit.gain is not None and one.audit.standard_error is not None
            else None,
            *(_points(value) for value in (one.gold_start, one.gold_final, inflation(one, runs))),
            *(one.audit.verdict if one.audit else None, one.commits, one.evaluations, one.tokens),
        )
        for one in runs
    ]
    return Table(
        name="real_runs",
        title="Every run",
        note="Levels in percent, gains in points; the audited gain with its standard error over audit tasks.",
        columns=(
            *("source", "n", "rule", "seed", "select start", "select final", "believed gain", "audited gain"),
            *("gold start", "gold final", "inflation", "audit says", "commits", "evaluations", "tokens"),
        ),
        rows=tuple(rows),
    )


def real_plot(runs: Sequence[RealRun]) -> Plot:
    """Believed, audited and gold gain of every arm."""
    arms = list(dict.fromkeys(one.arm for one in runs))
    named = {"believed": "believed", "audited": "audited", "gold": "gold_gain"}
    lines = []
    for name, attribute in named.items():
        spots = []
        for arm in arms:
            mean = _mean(getattr(one, attribute) for one in runs if one.arm == arm)
            if mean is not None:
                spots.append(Spot(x=_label(arm), y=mean.value, standard_error=mean.standard_error))
        lines.append(Line(name=name, spots=tuple(spots), joined=False))
    return Plot(
        name="real_gains",
        title="Gains: believed, audited, and on gold" + (" (simulation)" if any(one.simulated for one in runs) else ""),
        x_label="source, items in the select set, rule",
        y_label="points",
        xs=tuple(_label(arm) for arm in arms),
        lines=tuple(lines),
    )


def _label(arm: tuple[str, int, str]) -> str:
    source, n, rule = arm
    return "\n".join((source, f"n = {n}", rule.replace("_", "\n")))


def inflation(one: RealRun, runs: Sequence[RealRun]) -> float | None:
    """Select minus gold of the final; an unchanged run takes the start's gold level from a run on the same tasks."""
    gold = one.gold_final
    if gold is None and one.commits == 0:
        same = [other for other in runs if (other.source, other.n, other.seed) == (one.source, one.n, one.seed)]
        gold = next((other.gold_start for other in same if other.gold_start is not None), None)
    return _minus(one.select_final, gold)


def _mean(values: Iterable[float | None]) -> Estimate | None:
    return mean_estimate([value for value in values if value is not None])


def _points(fraction: float | None) -> float | None:
    return None if fraction is None else 100.0 * fraction


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
