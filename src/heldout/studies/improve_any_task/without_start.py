"""The final where the start does not compete, and where it does: the claim C6 and its table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from heldout.studies.improve_any_task.arms import HARMFUL, WITHOUT_START
from heldout.studies.improve_any_task.plans import Start
from heldout.studies.improve_any_task.runs import Result
from heldout.studies.improve_any_task.saying import claim_of
from heldout.studies.improve_any_task.summaries import Arms, share, signed
from heldout.studies.results import Claim, ClaimVerdict, Region
from heldout.studies.tables import Cell, Table

__all__ = ["SOMETIMES", "below_claim", "below_start", "start_table"]

SOMETIMES = Region(low=1.0)
"""Percent of the runs: more than one in a hundred."""


def below_start(one: Result) -> bool:
    """Whether the final is worse than the start on audit: exactly where that is known, else measured."""
    return one.gain < 0.0 if math.isnan(one.exact_gain) else one.exact_gain < 0.0


def below_claim(arms: Arms, part: str) -> Claim:
    """C6, of the start that is hardest to improve; with the start in the pool it must never happen on select."""
    hardest: Start = "trained" if "trained" in arms else "instruct"
    runs = arms[hardest][WITHOUT_START].results
    number = share(sum(map(below_start, runs)), len(runs))
    every = [one for given in arms.values() for runs in given.values() if not runs.arm.of for one in runs.results]
    broken = sum(one.select_gain < 0.0 for one in every)
    told = "; ".join(
        f"`{name}` from {start} {_told(given[name].results)}"
        for start, given in arms.items()
        for name in (WITHOUT_START, f"{HARMFUL}, without the start")
        if name in given
    )
    sentence = (
        f"The probability that the final without the start is below the start on audit is {number.value:.1f} % "
        f"({number.low:.1f} to {number.high:.1f}) from `{hardest}`, the start that is hardest to improve; the claim "
        f"asks for more than 1 %. {told}.{_measured(runs)} With the start in the pool the final is below it on the "
        f"deciding tasks in {broken} of {len(every)} runs of all arms."
    )
    verdict = ClaimVerdict.NOT_REPRODUCED if broken else SOMETIMES.verdict(number.interval)
    rests_on = f"runs from `{hardest}` whose final without the start is below the start on audit, %, Wilson interval"
    return claim_of("C6", part, verdict, rests_on, number, sentence)


def _told(runs: Sequence[Result]) -> str:
    """How many are below, and by how much, so that a share of small losses is seen as such."""
    below = [one for one in runs if below_start(one)]
    counted = f"{len(below)} of {len(runs)}"
    if not below:
        return counted
    audited = f"{signed(_mean([one.gain for one in below]))} points on audit"
    exact = _mean([one.exact_gain for one in below])
    if math.isnan(exact):
        return f"{counted} (by {audited} on average, {sum(map(_clearly, below))} by more than one standard error)"
    return f"{counted} (by {audited} on average, exactly {signed(exact)})"


def _measured(runs: Sequence[Result]) -> str:
    """What decides in a part without exact scores."""
    if not all(math.isnan(one.exact_gain) for one in runs):
        return ""
    return (
        f" Measured scores decide that here, so that one of {runs[0].begun.worth.tasks} tasks is enough; a standard "
        "error is that of two independent shares."
    )


def _clearly(one: Result) -> bool:
    """Below by more than a standard error of the difference; the two shares are of the same tasks, which as a rule
    makes it smaller."""
    shares = (one.begun.worth.audit, one.final.worth.audit)
    return -one.gain > math.sqrt(sum(value * (1.0 - value) for value in shares) / one.begun.worth.tasks)


def _mean(values: Sequence[float]) -> float:
    """In points."""
    return 100.0 * float(np.mean(values))


def start_table(arms: Arms, *, name: str) -> Table:
    """What becomes of the final where the start does not compete."""
    rows: list[tuple[Cell, ...]] = []
    for start, given in arms.items():
        for runs in given.values():
            if not runs.arm.of:
                continue
            kept, below = given[runs.arm.of], [one for one in runs.results if below_start(one)]
            chance = share(len(below), len(runs.results))
            lost = _mean([one.gain for one in below]) if below else None
            rows.append(
                (
                    *(start, runs.name, chance.value, chance.low, chance.high, lost),
                    *(runs.known(lambda one: one.gain).estimate, kept.known(lambda one: one.gain).estimate),
                    100.0 * kept.mean(lambda one: float(one.is_start)),
                    100.0 * kept.mean(lambda one: float(one.select_gain < 0.0)),
                )
            )
    return Table(
        name=name,
        title="The final without the start, and with it",
        note=(
            "The same models, chosen from without the start (the paper) and with it. `below`: percent of the runs "
            "whose final is worse than the start on audit (exactly where that is known, else measured), with its "
            "Wilson interval, and the audited gain of those runs in points. `nothing improved`: the start itself is "
            "the final, which is a result and ends with exit code 0."
        ),
        columns=(
            *("start", "arm", "below the start, %", "low", "high", "gain where below"),
            *(
                "audited gain",
                "audited gain with the start",
                "nothing improved with it, %",
                "below on select with it, %",
            ),
        ),
        rows=tuple(rows),
    )
