"""Where each arm begins, and how much of a lead is there before any edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heldout.studies.gso.arms import Arm
from heldout.studies.gso.runs import Result
from heldout.studies.gso.summaries import ArmRuns, exact_audit, known, over
from heldout.studies.tables import Cell, Table

__all__ = ["begun_audit", "begun_table", "head_start"]

Arms = Mapping[str, ArmRuns]

_DRAFTING = ("one_shot_skill", "persistent_skill", "gepa")
"""Loops that draft a skill where their start is none."""


def begun_audit(one: Result) -> float:
    """Exact audit rate of what the edits begin with."""
    return one.begun_audit


def begun_table(arms: Arms) -> Table:
    """Every arm that searches: its beginning, its end, and gso's lead at both."""
    own = {measure: arms["gso"].values(measure) for measure in (begun_audit, exact_audit)}
    rows: list[tuple[Cell, ...]] = []
    for name, runs in arms.items():
        if not runs.arm.loop:
            continue
        begun, end = runs.values(begun_audit), runs.values(exact_audit)
        ahead, before = own[exact_audit] - end, own[begun_audit] - begun
        found = (begun, end, end - begun, ahead, before, ahead - before)
        rows.append((name, _begins_with(runs.arm), *(known(one).estimate for one in found)))
    return Table(
        name="beginnings",
        title="Where the arms begin",
        note=(
            "A simulation. Exact audit rates in percent, and differences in points: of the candidate that the first "
            "edit is made to (the draft, where an arm drafts a skill), of the final, and what lies between. gso's "
            "lead over the arm is split into what is there before any edit and what edits, gates and the final "
            "selection add. ± is one standard error over seeds."
        ),
        columns=(
            *("arm", "begins with", "start", "final", "final − start", "gso's lead", "lead before any edit"),
            "lead by editing",
        ),
        rows=tuple(rows),
    )


def _begins_with(arm: Arm) -> str:
    if arm.rules:
        return "the start guide's sentences, as one skill"
    if arm.guide:
        return "the start guide"
    return "a drafted skill" if arm.loop in _DRAFTING else "no skill"


def head_start(arms: Arms, names: Sequence[str], *, which: str) -> str:
    """How much of gso's exact lead over the mean of these arms is there before any edit, in words."""
    own_begun, own_end = (arms["gso"].values(measure) for measure in (begun_audit, exact_audit))
    begun, end = (_mean([arms[name].values(measure) for name in names]) for measure in (begun_audit, exact_audit))
    return (
        f"Where the arms begin decides a part of it: gso begins with an exact audit rate of "
        f"{100 * own_begun.mean():.1f} %, {which} with {100 * begun.mean():.1f} %. Of gso's exact lead over "
        f"{'their mean' if len(names) > 1 else 'it'}, {over(known(own_end - end))} points, "
        f"{over(known(own_begun - begun))} are there before any edit, and editing adds "
        f"{over(known(own_end - end - own_begun + begun))}."
    )


def _mean(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.mean(columns, axis=0)
    return found
