"""Step 4 of a round: parent and candidate on the same select tasks, and what became of each task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.config import GateConfig
from heldout.gates import GenerationTable
from heldout.gates.repairs_over_regressions import RepairsOverRegressions, RepairsOverRegressionsOptions
from heldout.loops.agents.sweeping import measured_sweep
from heldout.loops.proposing import edit_size, step_seed
from heldout.loops.session import Scored, score_column
from heldout.loops.skills.solving import retries
from heldout.loops.skills.state import SkillSearch
from heldout.options import read_options
from heldout.records import Candidate
from heldout.rollouts import Sweep
from heldout.stats import EQUAL_WITHIN
from heldout.store.skill_events import Cell, SelectTable

__all__ = ["Measured", "cell", "compare", "compare_once", "on_select", "record_table", "table_of"]

CONFIRMING = 500_000
"""Added to a round's repeat for the second runs of flipped tasks: seeds that no round uses."""

COUNTING = ("binary", "u_only")
"""Variants of the gate that count tasks, however far each moved."""

Scores = NDArray[np.float64]
"""Shape (n,), NaN where not measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Both sides of a round's table."""

    parent: Candidate
    candidate: Candidate
    before: Scores
    after: Scores
    unconfirmed: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[Scored, Scored]:
        """Parent and candidate, each with its scores of this table."""
        return Scored(self.parent, self.before[:, None]), Scored(self.candidate, self.after[:, None])


def on_select(search: SkillSearch, candidate: Candidate, *, repeat: int, purpose: str = "select") -> Scores:
    """Select scores of a candidate; what is missing counts as `sweep.missing` says."""
    session, options = search.session, search.options.sweep
    sweep = Sweep(candidate, session.tasks.select, purpose, repeat)
    scores = score_column(measured_sweep(session, sweep, retries(options)))
    return np.nan_to_num(scores, nan=0.0) if options.missing == "fail" else scores


def compare(search: SkillSearch, parent: Scored, candidate: Candidate, *, number: int) -> Measured:
    """Run both at the round's seeds, or the candidate alone at those of the parent's recorded outcomes."""
    repeat = number if search.options.sweep.rerun_parent else 0
    before = on_select(search, parent.candidate, repeat=repeat)
    after = on_select(search, candidate, repeat=repeat)
    measured = Measured(parent.candidate, candidate, before, after)
    return _confirmed(search, measured, number=number) if search.options.sweep.confirm_flips else measured


def compare_once(search: SkillSearch, parent: Candidate, candidate: Candidate) -> Measured:
    """Both at the seeds of the start's own sweep, each of them run once in the whole run."""
    before, after = (on_select(search, side, repeat=0) for side in (parent, candidate))
    return Measured(parent, candidate, before, after)


def _confirmed(search: SkillSearch, measured: Measured, *, number: int) -> Measured:
    """Each flipped task once more under both. Where the second pair does not differ in the same direction the task
    keeps its score before; where a second run gave nothing it is missing, since a break must not vanish with it."""
    session = search.session
    difference = measured.after - measured.before
    flipped = np.flatnonzero(np.abs(difference) > EQUAL_WITHIN)
    if not flipped.size:
        return measured
    tasks = [session.tasks.select[i] for i in flipped]
    again = []
    for side in (measured.parent, measured.candidate):
        sweep = Sweep(side, tasks, "confirm", CONFIRMING + number)
        again.append(score_column(measured_sweep(session, sweep, retries(search.options.sweep))))
    second = again[1] - again[0]
    unknown = np.isnan(second)
    refuted = ~unknown & (np.sign(second) != np.sign(difference[flipped]))
    after = measured.after.copy()
    after[flipped[refuted]] = measured.before[flipped[refuted]]
    after[flipped[unknown]] = np.nan
    ids = tuple(session.tasks.select[i].id for i in flipped[refuted])
    return Measured(measured.parent, measured.candidate, measured.before, after, ids)


def table_of(
    search: SkillSearch, measured: Measured, *, number: int, edited: tuple[str, ...], attributed: str | None
) -> GenerationTable:
    """What the gate is handed; `attributed` None where any module may be edited."""
    tasks = search.session.tasks.select
    return GenerationTable(
        incumbent=measured.before[:, None],
        candidates=measured.after[None, :, None],
        edit_sizes=np.array([edit_size(measured.parent, measured.candidate)]),
        seed=step_seed(search.session.config.seed, number, -1),
        tasks=tuple(task.id for task in tasks),
        families=tuple(task.family for task in tasks),
        edited=edited,
        attributed=attributed,
        module_rule=attributed is not None,
        critical=tuple(task.id for task in tasks if {task.id, task.family} & set(search.options.sweep.critical)),
    )


def record_table(search: SkillSearch, measured: Measured, *, number: int) -> SelectTable:
    """The table on record, task by task."""
    weight, counts = _weighing(search.session.config.gate)
    tasks, difference = search.session.tasks.select, measured.after - measured.before
    pairs = ~np.isnan(difference)
    moved = np.abs(difference) > EQUAL_WITHIN
    gained, lost = (_total(difference[pairs & moved & (sign * difference > 0)], counts=counts) for sign in (1, -1))
    families = sorted({task.family for task in tasks if task.family})
    means = {name: _mean(difference[[task.family == name for task in tasks]]) for name in families}
    table = SelectTable(
        round=number,
        parent=measured.parent.digest,
        candidate=measured.candidate.digest,
        cells={task.id: cell(a, b) for task, a, b in zip(tasks, measured.before, measured.after, strict=True)},
        unconfirmed=measured.unconfirmed,
        n=int(pairs.sum()),
        coverage=float(pairs.mean()),
        repairs=gained,
        regressions=lost,
        utility=gained - weight * lost,
        families={name: mean for name, mean in means.items() if mean is not None},
    )
    return search.session.recorder.record("skill.table", table)


def _weighing(gate: GateConfig) -> tuple[float, bool]:
    """Repairs that one break costs in a table's u, as the run's gate has it, and whether it counts tasks. A gate
    without such a weight sets one break against one repair."""
    if gate.kind != RepairsOverRegressions.name:
        return 1.0, False
    options = read_options(RepairsOverRegressionsOptions, gate.options, where=f"the gate {gate.kind}")
    return options.weight, options.variant in COUNTING


def _total(moved: Scores, *, counts: bool) -> float:
    return float(moved.size) if counts else float(np.abs(moved).sum())


def cell(before: float, after: float) -> Cell:
    """What became of a task; see `Cell`."""
    if np.isnan(before) or np.isnan(after):
        return "missing"
    if {before, after} <= {0.0, 1.0}:
        return {(0.0, 1.0): "repair", (1.0, 0.0): "regression", (1.0, 1.0): "both"}.get((before, after), "neither")  # type: ignore[return-value]
    if abs(after - before) <= EQUAL_WITHIN:
        return "equal"
    return "better" if after > before else "worse"


def _mean(values: Scores) -> float | None:
    measured = values[~np.isnan(values)]
    return float(measured.mean()) if measured.size else None
