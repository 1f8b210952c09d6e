"""What a candidate is worth: measured once on every role after the last decision, and exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heldout.audit.retention import TRAIN_REPEAT
from heldout.config import RunConfig, TasksConfig
from heldout.harness.base import Episode, Preparation
from heldout.loops.agents.selecting import FRESH_REPEAT
from heldout.records import Candidate, Record, Task
from heldout.rollouts import paired_seed
from heldout.skills.guide import kind_of
from heldout.skills.modules import MODULES
from heldout.studies.gso.shadow import ShadowHarness, job_of_task, shadow_grade
from heldout.tasks import load_tasks
from heldout.worlds.tables.catalogue import CATALOGUE
from heldout.worlds.tables.environment import TablesEnvironment
from heldout.worlds.tables.generator import job_of, origin_of
from heldout.worlds.tables.job import Job
from heldout.worlds.tables.source import TablesOptions
from heldout.worlds.tables.truth import mean_rate, pass_rate
from heldout.worlds.tables.worker import TableWorker

__all__ = ["ROLES", "Exact", "Measured", "Roles", "Yard", "as_one_skill", "roles_of"]

Role = Literal["train", "select", "audit", "ood"]

ROLES: tuple[Role, ...] = ("train", "select", "audit", "ood")

_REPEATS: Mapping[Role, int] = {"train": TRAIN_REPEAT, "select": FRESH_REPEAT, "audit": 0, "ood": 0}
"""Seeds that no search used: those that a run's own retention, final selection and audit take."""

_TRAIN_VOCABULARY = "A"


class Measured(Record):
    """Scores of one candidate, task by task in the order of the role, each measured once; and what that took."""

    train: tuple[float, ...]
    select: tuple[float, ...]
    audit: tuple[float, ...]
    ood: tuple[float, ...]
    calls: float
    """Model calls for one audit task, on average: the writer's, the solver's, those of a recovery."""

    def scores(self, role: Role) -> NDArray[np.float64]:
        """Shape (n,)."""
        return np.array(getattr(self, role), dtype=np.float64)

    def mean(self, role: Role, first: int | None = None) -> float:
        """Over all tasks of the role, or its `first` ones."""
        return float(self.scores(role)[:first].mean())


class Exact(Record):
    """Exact expectations over seeds on the same tasks, known because this is a simulation."""

    train: float
    select: float
    audit: float
    ood: float

    def mean(self, role: Role) -> float:
        """As `Measured.mean`."""
        return float(getattr(self, role))


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """The tasks of one world by role, sealed ones too: no run holds this."""

    environment: TablesEnvironment
    tasks: Mapping[Role, tuple[Task, ...]]
    families: Mapping[Role, tuple[str, ...]]
    jobs: Mapping[Role, tuple[Job, ...]]
    pool: tuple[Job, ...]
    """Every task of the vocabulary that train tasks come from."""


def roles_of(config: TasksConfig) -> Roles:
    """Read once for each world."""
    return _roles(config.model_dump_json())


@lru_cache(maxsize=2)
def _roles(text: str) -> Roles:
    config = TasksConfig.model_validate_json(text)
    found, options = load_tasks(config), TablesOptions.model_validate(dict(config.options))
    environment = TablesEnvironment(seed=config.seed, summary=options.summary, decoy=options.decoy)
    tasks: dict[Role, tuple[Task, ...]] = {
        "train": found.train,
        "select": found.select,
        "audit": found.open_role("audit").tasks,
        "ood": found.open_role("ood").tasks,
    }
    origins = (
        origin_of(turn, seed=config.seed, ood=False, summary=options.summary, decoy=options.decoy)
        for turn in range(options.count)
    )
    return Roles(
        environment,
        tasks,
        {role: tuple(task.family for task in given) for role, given in tasks.items()},
        {role: tuple(job_of_task(environment, task) for task in given) for role, given in tasks.items()},
        tuple(job_of(origin) for origin in origins if origin.vocabulary == _TRAIN_VOCABULARY),
    )


@dataclass(frozen=True, slots=True)
class Yard:
    """Measures candidates as one run would: its tasks, its seeds, its harness, its solver."""

    config: RunConfig
    recovery: bool

    @property
    def roles(self) -> Roles:
        return roles_of(self.config.tasks)

    @property
    def slip(self) -> float:
        return float(self.config.solver.model.options["slip"])

    def measured(self, candidate: Candidate) -> Measured:
        """Every role once."""
        options = {**self.config.solver.options, "recovery": self.recovery}
        harness = ShadowHarness(options=options, environment=self.roles.environment)
        worker = TableWorker(self.config.solver.model)
        scores: dict[str, tuple[float, ...]] = {}
        calls = 0.0
        for role in ROLES:
            runs = [
                harness.run(candidate, task, Episode(worker, seed, Preparation())) for task, seed in self._seeded(role)
            ]
            scores[role] = tuple(shadow_grade(run.answer, "") for run in runs)
            calls = float(np.mean([run.spend.calls for run in runs])) if role == "audit" else calls
        return Measured(**scores, calls=calls)

    def exact(self, candidate: Candidate) -> Exact:
        """Every role."""
        return Exact(**{role: self.rate(candidate, self.roles.jobs[role]) for role in ROLES})

    def rate(self, candidate: Candidate, jobs: Sequence[Job]) -> float:
        """The exact mean over these tasks."""
        return mean_rate(candidate.files, jobs, slip=self.slip, recovery=self.recovery)

    def rates(self, candidate: Candidate, jobs: Iterable[Job]) -> NDArray[np.float64]:
        """Exact, task by task."""
        found = [pass_rate(candidate.files, job, slip=self.slip, recovery=self.recovery) for job in jobs]
        return np.array(found, dtype=np.float64)

    def _seeded(self, role: Role) -> Iterable[tuple[Task, int]]:
        repeat = _REPEATS[role]
        return [(task, paired_seed(self.config.seed, task.id, repeat)) for task in self.roles.tasks[role]]


def as_one_skill(guide: Candidate) -> Candidate:
    """One skill for all tasks that holds every sentence of the catalogue that a guide holds, traps by name aside."""
    if kind_of(guide) != "guide":
        raise ValueError(f"expected a guide, got files {', '.join(sorted(guide.files))}")
    text = " ".join("\n".join(guide.files[name] for name in MODULES).split()).casefold()
    held = [edit.text for edit in CATALOGUE if " ".join(edit.text.split()).casefold() in text]
    lines = "\n".join(f"- {sentence}" for sentence in held)
    front = "---\nname: learned-rules\ndescription: The rules of a learned guide, as one skill for all tasks.\n---\n"
    return Candidate(files={"SKILL.md": f"{front}\n# Learned rules\n\n{lines}\n"})
