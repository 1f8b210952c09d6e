"""The shadow world: the harness `skilled`, the sandbox and the grader of `tables`, simulated, for studies of many runs.

An episode here is decided, declared, repaired and scored as the simulated worker decides it in the real harness and
sandbox, without one command being run: `tests/studies/test_gso_shadow.py` compares both. Work folders are the real
ones, so that what an improver is shown and what the leak scan looks for is real. Tokens are the world's estimates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from heldout.errors import HarnessError, SetupError, TaskError
from heldout.harness.base import Episode, Preparation
from heldout.harness.loop_episode import ENDINGS
from heldout.harness.steps import Step
from heldout.models.base import Model
from heldout.options import read_options
from heldout.records import Candidate, Spend, Task, Trajectory, digest_of
from heldout.skills.faults import FIRST_FAULT_FILE
from heldout.skills.folder import read_skill
from heldout.skills.guide import NO_SKILL, check_guide, kind_of, start_guide
from heldout.skills.harness import SkilledOptions
from heldout.skills.modules import SKILL_FILE
from heldout.worlds.tables.environment import TablesEnvironment
from heldout.worlds.tables.generator import job_of, read_id
from heldout.worlds.tables.job import Job
from heldout.worlds.tables.odds import CHECK_OF
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.programs import program
from heldout.worlds.tables.skill_lines import Known
from heldout.worlds.tables.symbolic import Played, play
from heldout.worlds.tables.truth import PART_STAGE
from heldout.worlds.tables.worker import TableWorker

__all__ = ["ShadowGrader", "ShadowHarness", "job_of_task", "shadow_grade"]

_MOST_CALLS = 5
"""The writer's one, two turns, and two more after a recovery."""
_TURNS_BYTES = 8192
"""More than the replies of an episode, and what the solver is shown, take together."""
_SUBMIT = "echo HELDOUT_SUBMIT"
_FAILS_STILL = "bounded recovery: the check that failed was run again and fails still"
_UNCOUNTED = ("blocked", "format_errors", "timeouts", "truncated", "hook_calls", "hook_errors")
"""What never happens to the simulated worker."""


class ShadowHarness:
    """The harness `skilled` with the simulated worker in the world `tables`, as a simulation."""

    prepares: ClassVar[bool] = False
    replayable: ClassVar[bool] = False

    def __init__(
        self,
        *,
        answer: str = "generate",
        labels: Sequence[str] = (),
        max_tokens: int = 2048,
        options: Mapping[str, Any] | None = None,
        environment: object = None,
    ) -> None:
        del answer, labels, max_tokens
        if not isinstance(environment, TablesEnvironment):
            raise SetupError(f"the shadow harness simulates the tasks of source 'tables' only, got {environment!r}")
        self.options = _options(options or {})
        if self.options.max_turns < _MOST_CALLS - 1:
            raise SetupError(f"the shadow harness cuts no episode short: max_turns must be {_MOST_CALLS - 1} or more")
        self.environment = environment
        identity = {"options": self.options.model_dump(exclude={"start"}), "environment": environment.fingerprint}
        self.fingerprint = f"shadow:{digest_of(identity)[:16]}"

    @staticmethod
    def start_folder(options: Mapping[str, Any]) -> Mapping[str, str]:
        """The folder that a run with these options begins with."""
        return start_guide() if _options(options).start == "guide" else NO_SKILL

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """Nothing is measured beforehand."""
        del candidate, model
        return Preparation()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """The trajectory that the simulated worker has; `HarnessError` with any other model."""
        worker = episode.model
        if not isinstance(worker, TableWorker):
            raise HarnessError(f"the shadow harness simulates {TableWorker.name!r}, not {worker.name!r}")
        played = play(
            candidate.files,
            job_of_task(self.environment, task),
            seed=episode.seed,
            slip=worker.options.slip,
            recovery=self.options.recovery,
        )
        return Trajectory.model_construct(
            answer=json.dumps(sorted(played.wrong)),
            steps=_steps(_Turns.of(played), Known(played.job)),
            harness=self.fingerprint,
            components={kind_of(candidate): candidate.digest[:16]},
            model=worker.name,
            seed=episode.seed,
            measures=_measures(played),
            artifacts=_artifacts(played),
            spend=Spend.model_construct(calls=played.calls, tokens_in=played.tokens_in, tokens_out=played.tokens_out),
        )

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        """No episode of the worker is longer. Raises `HarnessError` for a folder that cannot be run."""
        del model
        kind = kind_of(candidate)
        if kind == "guide":
            check_guide(candidate.files)
        elif kind == "skill":
            read_skill(candidate.files)
        given = sum(len(text.encode()) for text in candidate.files.values()) + len(task.input.encode())
        return Spend.model_construct(
            calls=_MOST_CALLS,
            tokens_in=_MOST_CALLS * (given + _TURNS_BYTES) // 4,
            tokens_out=_MOST_CALLS * _TURNS_BYTES // 4,
        )


class ShadowGrader:
    """The grader of `tables`, simulated: a task passes where all of its parts are right."""

    simulated: ClassVar[bool] = True

    def __call__(self, answer: str | None, reference: str) -> float:
        """1 where no part is wrong, else 0; 0 for what is no answer of the shadow harness."""
        del reference
        return float(_wrong(answer) == [])

    def explain(self, answer: str | None, reference: str) -> str:
        """That it failed, and no more: which parts are wrong is what an improver has to find out. Empty for a pass."""
        return "" if self(answer, reference) == 1.0 else "the files that were left are not as they should be"


shadow_grade = ShadowGrader()
"""What `tasks.grader` names."""


def job_of_task(environment: TablesEnvironment, task: Task) -> Job:
    """The job of a task; `TaskError` for one of another world."""
    job = job_of(read_id(task.id, seed=environment.seed, summary=environment.summary, decoy=environment.decoy))
    if task.input != job.request:
        raise TaskError(f"task {task.id!r} has another text than the world of seed {environment.seed} gives it")
    return job


def _options(options: Mapping[str, Any]) -> SkilledOptions:
    return read_options(SkilledOptions, options, where="the shadow harness")


def _wrong(answer: str | None) -> list[str] | None:
    """Parts that an answer says are wrong; None where it says nothing of the kind."""
    try:
        found = json.loads(answer or "")
    except ValueError:
        return None
    return found if isinstance(found, list) and all(isinstance(name, str) for name in found) else None


def _measures(played: Played) -> Mapping[str, float]:
    turns = float(played.calls - played.outlook.writes)
    counted = {"turns": turns, "commands": turns, **dict.fromkeys(_UNCOUNTED, 0.0)}
    counted |= {name: float(name == "submitted") for name in ENDINGS}
    return counted | {
        "skill_calls": float(played.outlook.writes),
        "recoveries": float(played.recovered),
        "faults_declared": float(played.faults),
    }


def _artifacts(played: Played) -> Mapping[str, str]:
    skill = {SKILL_FILE: played.skill()} if played.outlook.writes else {}
    return skill if played.declared is None else skill | {FIRST_FAULT_FILE: f"{_fault(played.declared)}\n"}


def _fault(part: Part) -> str:
    """As the worker declares it."""
    return f"{PART_STAGE[part]}: {part}: the check {CHECK_OF[part]} finds another result than asked for"


@dataclass(frozen=True, slots=True)
class _Turns:
    """What of an episode its steps follow from."""

    first: frozenset[Part]
    """Wrong in the first program."""
    declared: Part | None
    last: frozenset[Part]
    """Wrong in the program of the recovery."""
    recovered: bool
    again: bool
    """A fault was declared after the recovery too."""

    @classmethod
    def of(cls, played: Played) -> _Turns:
        return cls(played.wrong_first, played.declared, played.wrong, played.recovered, played.faults > 1)


@lru_cache(maxsize=16384)
def _steps(turns: _Turns, known: Known) -> tuple[Mapping[str, Any], ...]:
    """The turns, with their commands; what the shell said to them is not simulated."""
    steps = [_ran(known.job, turns.first), *_submitted(None if turns.declared is None else _fault(turns.declared))]
    if turns.recovered:
        steps += [_ran(known.job, turns.last), *_submitted(_FAILS_STILL if turns.again else None)]
    return tuple(step.model_dump(mode="json") for step in steps)


def _submitted(fault: str | None) -> list[Step]:
    """A submission, with the fault that is declared in it."""
    if fault is None:
        return [Step(kind="submit", command=_SUBMIT, exit_code=0)]
    told = f"HELDOUT_FAULT {fault}"
    return [Step(kind="command", command=f"echo '{told}'; {_SUBMIT}", output=told, exit_code=0), Step(kind="submit")]


def _ran(job: Job, wrong: frozenset[Part]) -> Step:
    return Step(kind="command", command=f"python3 - <<'PY'\n{program(job, wrong).rstrip()}\nPY", exit_code=0)
