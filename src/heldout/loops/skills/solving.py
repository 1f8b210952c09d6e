"""Step 1 of a round: a train batch, run with the head, and its traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heldout.harness import steps_of
from heldout.improvers.skill_roles import SkillTrace
from heldout.loops.agents.options import SelectOptions
from heldout.loops.agents.sweeping import measured_sweep
from heldout.loops.skills.options import SweepOptions
from heldout.loops.skills.state import Batch, SkillSearch
from heldout.records import Candidate, Outcome, TrainTask, Trajectory
from heldout.rollouts import Sweep
from heldout.skills.modules import SKILL_FILE
from heldout.skills.visible import visible
from heldout.store.skill_events import SkillRoundStarted

__all__ = ["draw_batch", "retries", "run_batch", "shown", "solve"]

FIRST_FAULT_FILE = "first_fault.md"


def draw_batch(tasks: Sequence[TrainTask], *, size: int, number: int, seed: int) -> tuple[TrainTask, ...]:
    """The batch of round `number` (from 1): a stretch of a seeded order, without replacement until all are used up,
    and then of another order. The last stretch of an order may be shorter."""
    each = -(-len(tasks) // size)
    lap, place = divmod(number - 1, each)
    order = np.random.default_rng([seed, lap]).permutation(len(tasks))
    return tuple(tasks[i] for i in order[place * size : (place + 1) * size])


def solve(search: SkillSearch, number: int, *, parent: Candidate | None = None) -> Batch:
    """Run the round's batch with the head, or another parent, at the round's own seeds, and record what failed."""
    session = search.session
    tasks = draw_batch(session.tasks.train, size=search.options.batch, number=number, seed=session.config.seed)
    return run_batch(search, parent or search.head.candidate, tasks, number=number)


def run_batch(search: SkillSearch, candidate: Candidate, tasks: Sequence[TrainTask], *, number: int) -> Batch:
    """These train tasks under a candidate; an infrastructure failure teaches nothing, and is no failure."""
    session, bar = search.session, search.options.attribution.fails_below
    sweep = Sweep(candidate, tasks, "train", number, traced=True)
    outcomes = measured_sweep(session, sweep, retries(search.options.sweep))
    keys = session.engine.keys(sweep)
    rows = list(zip(tasks, outcomes, keys, strict=True))
    traces = {task.id: _trace(search, candidate, task, one, key) for task, one, key in rows if one.score is not None}
    failed = tuple(task.id for task, one, _ in rows if one.score is not None and one.score < bar)
    started = SkillRoundStarted(
        round=number,
        head=candidate.digest,
        batch=tuple(task.id for task in tasks),
        failed=failed,
        missing=tuple(task.id for task, one, _ in rows if one.score is None),
    )
    session.recorder.record("skill.round", started)
    return Batch(number, candidate, tuple(traces.values()), tuple(traces[task] for task in failed))


def retries(options: SweepOptions) -> SelectOptions:
    """The same settings as loops over agents know them."""
    return SelectOptions(retries=options.retries, retry_wait_s=options.retry_wait_s)


def shown(search: SkillSearch, task: TrainTask) -> str:
    """What a train task shows besides its text."""
    environment = search.session.tasks.environment
    return "" if environment is None else visible(environment.scene(task, seed=0))


def _trace(search: SkillSearch, candidate: Candidate, task: TrainTask, outcome: Outcome, key: str) -> SkillTrace:
    session = search.session
    kept = session.traces.load(key) or Trajectory(answer=None)
    given = kept.artifacts.get(SKILL_FILE) or candidate.files.get(SKILL_FILE, "")
    failed = outcome.score is not None and outcome.score < 1.0
    feedback = session.tasks.explain(task.id, kept.answer) if failed and kept.answer is not None else ""
    return SkillTrace(
        task=task,
        visible=shown(search, task),
        skill=given,
        steps=steps_of(kept),
        answer=kept.answer,
        score=outcome.score or 0.0,
        feedback=feedback or outcome.error or "",
        first_fault=kept.artifacts.get(FIRST_FAULT_FILE, ""),
        measures=outcome.measures,
    )
