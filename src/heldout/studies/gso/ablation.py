"""Which ingredient carries the gain: a fresh skill, a recovery, or learned rules; and one world as its user sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from heldout.stats import RoleScores, retention_of
from heldout.studies.gso.arms import NO_SKILL
from heldout.studies.gso.measuring import Roles
from heldout.studies.gso.summaries import ArmRuns, Baselines, Known, exact_audit, known
from heldout.studies.tables import Cell, Table

__all__ = ["CORNERS", "Corner", "ablation_table", "effects", "one_world_table"]

Arms = Mapping[str, ArmRuns]


@dataclass(frozen=True, slots=True)
class Corner:
    """Which ingredients are there, beyond the start guide's own sentences."""

    learned: bool
    fresh: bool
    recovery: bool


CORNERS: Mapping[Corner, str] = {
    Corner(False, False, False): "start's rules as one skill, no recovery",
    Corner(False, False, True): "start's rules as one skill",
    Corner(False, True, False): "start guide, no recovery",
    Corner(False, True, True): "start guide",
    Corner(True, False, False): "gso's rules as one skill, no recovery",
    Corner(True, False, True): "gso's rules as one skill",
    Corner(True, True, False): "gso, no recovery",
    Corner(True, True, True): "gso",
}
"""The arm that measures each."""

_INGREDIENTS: Mapping[str, str] = {
    "learned": "learned rules, in place of the start's",
    "fresh": "a fresh skill for each task, in place of one",
    "recovery": "a recovery",
}


def effects(corners: Mapping[Corner, NDArray[np.float64]], ingredient: str) -> tuple[NDArray[np.float64], ...]:
    """What an ingredient adds in each of the four settings of the other two, one value a seed."""
    others = [name for name in _INGREDIENTS if name != ingredient]
    found = []
    for setting in product((False, True), repeat=2):
        given = dict(zip(others, setting, strict=True))
        found.append(corners[Corner(**{ingredient: True}, **given)] - corners[Corner(**{ingredient: False}, **given)])
    return tuple(found)


def ablation_table(arms: Arms) -> Table:
    """Exact audit rates of the factorial, and what each ingredient adds."""
    corners = {corner: arms[name].values(exact_audit) for corner, name in CORNERS.items()}
    bare, base = (arms[name].values(exact_audit) for name in ("no skill, no recovery", NO_SKILL))
    rows: list[tuple[Cell, ...]] = [
        ("no skill, no recovery", *_numbers(known(bare)), None, None),
        ("no skill", *_numbers(known(base)), None, None),
    ]
    rows += [(name, *_numbers(known(corners[corner])), None, None) for corner, name in CORNERS.items()]
    for ingredient, says in _INGREDIENTS.items():
        found = effects(corners, ingredient)
        mean = known(np.mean(found, axis=0))
        least, most = _ends(found)
        rows.append((f"adds: {says}", *_numbers(mean), least, most))
    rules = known(corners[Corner(False, False, False)] - bare)
    rows.append(("adds: the start's rules as one skill, over no skill, without recovery", *_numbers(rules), None, None))
    return Table(
        name="ablation",
        title="Which ingredient carries the gain",
        note=(
            "A property of this simulation, which says nothing of language models. Exact audit rates in percent (mean "
            "over seeds, with its 95 % t interval), in every combination of three ingredients; below, the points that "
            "each adds on average over the four settings of the other two, with the least and the most of the four. As "
            "one skill: a SKILL.md for all tasks that holds the same sentences, which the solver must apply by itself."
        ),
        columns=("combination, or what is added", "exact audit", "low", "high", "least", "most"),
        rows=tuple(rows),
    )


def _numbers(one: Known) -> tuple[float, float, float]:
    return one.value, one.low, one.high


def _ends(found: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    means = [100.0 * float(one.mean()) for one in found]
    return min(means), max(means)


def one_world_table(arms: Arms, none: Baselines, roles: Roles) -> Table:
    """The first seed's run as its user would read it: paired over tasks, with the label that the report gives."""
    rows: list[tuple[Cell, ...]] = []
    for name, runs in arms.items():
        base, own = none[runs.arm.recovery].results[0].measured, runs.results[0].measured
        if runs is none[runs.arm.recovery]:
            continue
        found = retention_of(
            RoleScores(base.scores("train"), own.scores("train"), roles.families["train"]),
            RoleScores(base.scores("audit"), own.scores("audit"), roles.families["audit"]),
            seed=runs.results[0].seed,
        )
        rows.append(
            (
                *(name, 100.0 * found.train_gain, *_points(found.train_interval)),
                *(100.0 * found.audit_gain, *_points(found.audit_interval)),
                *(100.0 * found.retention, *_points(found.retention_interval), found.label.value),
            )
        )
    return Table(
        name="one_world",
        title="One run, as its user sees it",
        note=(
            "A simulation. The first seed alone: gains over no skill in points, with paired bootstrap intervals over "
            "tasks, stratified by family, and the label that the report of a run would give."
        ),
        columns=(
            *("arm", "train gain", "low", "high", "audit gain", "low ", "high ", "Retention", "low  ", "high  "),
            "label",
        ),
        rows=tuple(rows),
    )


def _points(interval: tuple[float, float]) -> tuple[float, float]:
    return 100.0 * interval[0], 100.0 * interval[1]
