"""Other skills before and after: the claim C8 and its table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.stats import holm_adjusted, paired_t_test
from heldout.studies.improve_any_task.measuring import RETAINED
from heldout.studies.improve_any_task.saying import claim_of
from heldout.studies.improve_any_task.summaries import SAME, ArmRuns, Arms, Known, known, over, signed
from heldout.studies.results import Claim, ClaimVerdict
from heldout.studies.tables import Cell, Table

__all__ = ["forgetting_claim", "retained_table"]

_ALPHA = 0.05
_LITTLE = -1.0
"""Points: a fall that no interval reaches below does not count as one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Fall:
    """One skill in one arm from one start."""

    name: str
    values: NDArray[np.float64]
    """Change, one value a seed."""
    p: float
    """Two-sided, before any correction; 1 where nothing changes in any seed."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))


def forgetting_claim(arms: Arms, part: str) -> Claim:
    """C8: Holm's rule over every skill of every arm from every start, arms of another arm's models left out."""
    falls = [fall for start, given in arms.items() for runs in given.values() for fall in _falls(start, runs)]
    adjusted = holm_adjusted([one.p for one in falls])
    sure = [fall for fall, p in zip(falls, adjusted, strict=True) if p <= _ALPHA and fall.mean < 0.0]
    corrected = [known(one.values, confidence=1.0 - _ALPHA / len(falls)) for one in falls]
    surest = min(range(len(falls)), key=lambda at: (falls[at].mean >= 0.0, falls[at].p, falls[at].mean))
    deepest = min(falls, key=lambda one: one.mean)
    verdict = ClaimVerdict.REPRODUCED if sure else ClaimVerdict.UNDECIDED
    if not sure and all(one.low > _LITTLE for one in corrected):
        verdict = ClaimVerdict.NOT_REPRODUCED
    sentence = (
        f"{len(sure)} of {len(falls)} skills of an arm fall significantly (Holm). The surest fall is of "
        f"{falls[surest].name}, {over(corrected[surest])} points (interval corrected); the largest of {deepest.name}, "
        f"{signed(100.0 * deepest.mean)} points."
    )
    rests_on = "change of a plain skill, points, the surest fall over arms, starts and skills, Bonferroni interval"
    return claim_of("C8", part, verdict, rests_on, corrected[surest], sentence)


def _falls(start: str, runs: ArmRuns) -> list[_Fall]:
    if runs.arm.of:
        return []
    made = []
    for skill in RETAINED:
        before = runs.values(lambda one, skill=skill: one.begun.worth.retain[skill])  # type: ignore[misc]
        after = runs.values(lambda one, skill=skill: one.final.worth.retain[skill])  # type: ignore[misc]
        p = paired_t_test(before, after)
        made.append(_Fall(f"`{skill}` in `{runs.name}` from {start}", after - before, 1.0 if p is None else p))
    return made


def retained_table(arms: Arms, *, name: str, simulated: bool) -> Table:
    """The change of each plain skill, arm by arm."""
    rows: list[tuple[Cell, ...]] = []
    for start, given in arms.items():
        for runs in given.values():
            changes = [_change(runs, skill) for skill in RETAINED]
            mean = runs.change(lambda one: float(np.mean([one.kept(skill) for skill in RETAINED])))
            word = SAME if runs.unchanged else None
            rows.append((start, runs.name, *(one.estimate for one in changes), mean.value, mean.low, mean.high, word))
    how = "exactly, since this is a simulation" if simulated else "measured on the role `retain`"
    return Table(
        name=name,
        title="Other skills: final minus start",
        note=(
            f"Points, {how}; none of these tasks decides anything. `low` and `high`: 95 % t interval over seeds. "
            f"`{SAME}`: the final is the start in every run."
        ),
        columns=("start", "arm", *RETAINED, "mean", "low", "high", "note"),
        rows=tuple(rows),
    )


def _change(runs: ArmRuns, skill: str) -> Known:
    return runs.known(lambda one: one.kept(skill))
