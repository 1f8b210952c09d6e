"""Steps 1 and 6 of a round: one protocol for every model, on the diagnosis tasks and on the deciding ones."""

from __future__ import annotations

import numpy as np

from heldout.loops.session import Scored, score_column
from heldout.loops.weights.state import WeightsSearch
from heldout.records import Candidate, Outcome, TrainTask
from heldout.rollouts import Sweep

__all__ = ["diagnosis_sweep", "score"]


def score(search: WeightsSearch, candidate: Candidate) -> Scored:
    """A candidate on the deciding tasks: select, or (an ablation) the tasks that are diagnosed too."""
    session = search.session
    if search.options.decide_on == "select":
        return session.score_on_select(candidate)
    sweeps = [
        Sweep(candidate, session.tasks.train, "train", repeat, traced=True) for repeat in range(session.gate.repeats)
    ]  # traced, since the diagnosis of the next round reads the first of them
    columns = [score_column(session.engine.evaluate(sweep, grade=session.tasks.grade)) for sweep in sweeps]
    return Scored(candidate, np.stack(columns, axis=1))


def diagnosis_sweep(search: WeightsSearch, candidate: Candidate) -> list[tuple[TrainTask, Outcome, str]]:
    """Every diagnosis task with its outcome and the key of its trace; paid once for each candidate."""
    session = search.session
    sweep = Sweep(candidate, session.tasks.train, "train", traced=True)
    outcomes = session.engine.evaluate(sweep, grade=session.tasks.grade)
    return list(zip(session.tasks.train, outcomes, session.engine.keys(sweep), strict=True))
