"""Tables, plot and verdicts of the runs of a real model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from heldout.stats import t_quantile
from heldout.store.events import AuditResult
from heldout.studies.plots import Line, Plot, Spot
from heldout.studies.results import Claim, ClaimVerdict, Region
from heldout.studies.tables import Cell, Estimate, Table, mean_estimate
from heldout.studies.winners_curse.claims import SAYS

__all__ = ["RealRun", "real_claims", "real_plot", "real_tables"]


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
            "Points, mean ± standard error over seeds (each seed has its own tasks). Inflation: the final program's select "
            "score minus its gold accuracy; overstatement: believed minus gold gain; `model`: what the noise model expects of "
            "that. Where nothing improved gold stays closed, and its level is that of a sibling run on the same tasks, if any."
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
        _mean(_inflation(one, runs) for one in mine),
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
            *(_points(value) for value in (one.gold_start, one.gold_final, _inflation(one, runs))),
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
    return f"{source} {n} {'sel-conf' if rule == 'select_confirm' else rule}"


def real_claims(runs: Sequence[RealRun]) -> tuple[Claim, ...]:
    """C1, C5 and C7, paired by source and seed; what needs the truth of every candidate is left to the simulation."""
    small, large = min(one.n for one in runs), max(one.n for one in runs)
    inflation = {one: _inflation(one, runs) for one in runs}
    drop = _paired(
        (inflation[one], inflation[twin]) for one, twin in _twins(runs, n=(small, large)) if one.rule == "greedy"
    )
    ahead = _paired((twin.gold_gain, one.gold_gain) for one, twin in _twins(runs, rule=("greedy", "select_confirm")))
    growth = _paired(
        (twin.gold_gain, one.gold_gain) for one, twin in _twins(runs, n=(small, large)) if one.rule == "greedy"
    )
    return (
        _claim("C1", Region(low=0.0), drop, f"inflation at n = {small} minus n = {large}, greedy", partial=True),
        _claim("C5", Region(high=1.0), ahead, "gold gain, select_confirm minus greedy, all n"),
        _claim("C7", Region(low=0.0), growth, f"gold gain at n = {large} minus n = {small}, greedy", partial=True),
    )


def _twins(
    runs: Sequence[RealRun], *, n: tuple[int, int] | None = None, rule: tuple[str, str] | None = None
) -> list[tuple[RealRun, RealRun]]:
    """Pairs of runs that differ in nothing but n, or but the rule, from the first value to the second."""
    known = {(*one.arm, one.seed): one for one in runs}
    pairs = []
    for one in runs:
        if n is not None and one.n == n[0]:
            key = (one.source, n[1], one.rule, one.seed)
        elif rule is not None and one.rule == rule[0]:
            key = (one.source, one.n, rule[1], one.seed)
        else:
            continue
        if key in known and known[key] is not one:
            pairs.append((one, known[key]))
    return pairs


def _paired(values: Iterable[tuple[float | None, float | None]]) -> list[float]:
    """First minus second, in points, where both were measured."""
    return [100.0 * (a - b) for a, b in values if a is not None and b is not None]


def _claim(name: str, region: Region, differences: Sequence[float], rests_on: str, *, partial: bool = False) -> Claim:
    """Verdict by a t interval over pairs. `partial`: the claim says more than this part can show."""
    if len(differences) < 2 or np.std(differences) == 0.0:
        sentence = f"{len(differences)} pairs of runs are too few, or too alike, to say."
        return _claimed(name, ClaimVerdict.UNDECIDED, rests_on, None, None, sentence)
    mean, spread = float(np.mean(differences)), float(np.std(differences, ddof=1))
    half = t_quantile(0.95, len(differences) - 1) * spread / math.sqrt(len(differences))
    interval = (mean - half, mean + half)
    verdict = region.verdict(interval)
    sentence = f"{mean:+.1f} points over {len(differences)} pairs of runs on the same tasks"
    if partial and verdict is ClaimVerdict.REPRODUCED:
        sentence += "; the direction only, at the sizes and sources that were run"
    return _claimed(name, verdict, rests_on, mean, interval, sentence + ".")


def _claimed(
    name: str,
    verdict: ClaimVerdict,
    rests_on: str,
    number: float | None,
    interval: tuple[float, float] | None,
    sentence: str,
) -> Claim:
    return Claim(
        id=name,
        part="c",
        says=SAYS[name],
        verdict=verdict,
        rests_on=rests_on,
        number=number,
        interval=interval,
        sentence=sentence,
    )


def _inflation(one: RealRun, runs: Sequence[RealRun]) -> float | None:
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
