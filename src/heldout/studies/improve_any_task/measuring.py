"""What a model is worth: on audit and elsewhere, measured after the last decision, and exactly where it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from heldout.config import TasksConfig
from heldout.ledger import Ledger
from heldout.loops.session import Session, score_column
from heldout.records import Candidate, Record
from heldout.rollouts import Engine, Sweep
from heldout.tasks import OpenRole, load_tasks
from heldout.worlds.formats.job import Job
from heldout.worlds.formats.reading import read_job
from heldout.worlds.formats.skills import Skills, read_checkpoint, true_accuracy

__all__ = ["RETAINED", "Worth", "Yard", "skills_of"]

RETAINED = ("copy", "reverse", "sort")
"""The plain skills of the role `retain`."""


class Worth(Record):
    """One model; fractions of one."""

    weights: str
    """Digest."""
    audit: float
    """Measured, every audit task once."""
    tasks: int
    """How many those are."""
    exact: float | None = None
    """The expectation on the same tasks, known in a simulation alone."""
    retain: Mapping[str, float]
    """By plain skill: exact in a simulation, else measured."""


@dataclass(slots=True)
class Yard:
    """Measures the models of one run after its search: the run's own harness and model, and an account of its own, so
    that nothing of it counts for the run."""

    session: Session
    known: dict[str, Worth] = field(default_factory=dict)
    """By weights; runs of one world, learner and start may share it."""

    def worth(self, candidate: Candidate) -> Worth:
        """Measured once."""
        weights = candidate.weights or ""
        if weights not in self.known:
            self.known[weights] = self._measured(candidate, weights)
        return self.known[weights]

    def _measured(self, candidate: Candidate, weights: str) -> Worth:
        config = self.session.config.tasks
        audit, retain = (_opened(config.model_dump_json(), role) for role in ("audit", "retain"))
        scores = self._scores(candidate, audit)
        skills = skills_of(self.session, candidate)
        if skills is not None:
            exact = true_accuracy(skills, _jobs(audit))
            plain: Mapping[str, float] = {name: skills.of(name) for name in RETAINED}
            return Worth(weights=weights, audit=float(np.mean(scores)), tasks=len(scores), exact=exact, retain=plain)
        by_skill = self._by_skill(candidate, retain)
        return Worth(weights=weights, audit=float(np.mean(scores)), tasks=len(scores), retain=by_skill)

    def _by_skill(self, candidate: Candidate, opened: OpenRole) -> Mapping[str, float]:
        scores, families = self._scores(candidate, opened), [task.family for task in opened.tasks]
        return {
            name: float(np.mean([score for score, family in zip(scores, families, strict=True) if family == name]))
            for name in RETAINED
        }

    def _scores(self, candidate: Candidate, opened: OpenRole) -> Sequence[float]:
        session = self.session
        engine = Engine(
            harness=session.engine.harness,
            model=session.engine.model,
            executor=session.engine.executor,
            ledger=Ledger(),
            append=lambda _kind, _payload: None,
            seed=session.engine.seed,
        )
        outcomes = engine.evaluate(Sweep(candidate, opened.tasks, opened.name), grade=opened.grade)
        return [float(score) for score in score_column(outcomes)]


def skills_of(session: Session, candidate: Candidate) -> Skills | None:
    """What simulated weights can do; None for real ones."""
    ground = session.ground
    if ground is None or ground.trainer != "simulated" or candidate.weights is None:
        return None
    return read_checkpoint(ground.store.path(candidate.weights)).skills


@lru_cache(maxsize=4)
def _opened(config: str, role: str) -> OpenRole:
    """The tasks of a role, read anew: the run's own set stays sealed."""
    return load_tasks(TasksConfig.model_validate_json(config)).open_role(role)


def _jobs(opened: OpenRole) -> list[Job]:
    """Of tasks of the world `formats`, which say everything themselves."""
    return [job for task in opened.tasks if (job := read_job(task.input)) is not None]
