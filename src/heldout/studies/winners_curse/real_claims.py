"""Verdicts on the runs of a real model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from heldout.stats import t_quantile
from heldout.studies.results import Claim, ClaimVerdict, Region
from heldout.studies.winners_curse.claims import SAYS
from heldout.studies.winners_curse.real_tables import RealRun, inflation

__all__ = ["real_claims"]


def real_claims(runs: Sequence[RealRun]) -> tuple[Claim, ...]:
    """C1, C5 and C7, paired by source and seed; what needs the truth of every candidate is left to the simulation."""
    small, large = min(one.n for one in runs), max(one.n for one in runs)
    drop = _paired(
        (inflation(one, runs), inflation(twin, runs))
        for one, twin in _twins(runs, n=(small, large))
        if one.rule == "greedy"
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
