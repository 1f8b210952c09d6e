"""Runs of the real loop, and what is read from each; nothing of its folder is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from heldout.config import ExecutorConfig, RunConfig, config_digest
from heldout.errors import BudgetExhausted
from heldout.loops import load_loop
from heldout.loops.base import Found, Loop
from heldout.loops.session import Session
from heldout.records import Candidate, Record
from heldout.rollouts import make_executor
from heldout.studies.improve_any_task.measuring import Worth, Yard
from heldout.studies.improve_any_task.plans import Start
from heldout.studies.improve_any_task.reading import (
    Noise,
    Trail,
    first_kept,
    noise_of,
    scores_of,
    trail_of,
    without_start,
)
from heldout.workbench import Opening, OpenRun, open_run

__all__ = ["Result", "Wanted", "run_all", "run_jobs"]

_MEMORY = Path("/dev/shm")
"""A folder in memory, where there is one: a run forces its decisions to the disk."""

_MOST_S = 7200.0


class Final(Record):
    """A model that a run ends with."""

    worth: Worth
    select: float | None
    """Its mean on the tasks that decide, as the run has it."""


class Result(Record):
    """What one run left."""

    seed: int
    start: Start
    config_digest: str
    begun: Final
    final: Final
    without_start: Final
    """What the paper's rule makes the final of the same models."""
    first: Worth
    """Of the first child that was accepted, or of the start."""
    trail: Trail
    noise: Noise | None = None

    @property
    def is_start(self) -> bool:
        """Nothing improved."""
        return self.final.worth.weights == self.begun.worth.weights

    @property
    def gain(self) -> float:
        """On audit, measured; a fraction of one."""
        return self.final.worth.audit - self.begun.worth.audit

    @property
    def exact_gain(self) -> float:
        """On audit, exactly; NaN for real models."""
        before, after = self.begun.worth.exact, self.final.worth.exact
        return float("nan") if before is None or after is None else after - before

    @property
    def select_gain(self) -> float:
        """On the tasks that decide; NaN where a side was not measured."""
        before, after = self.begun.select, self.final.select
        return float("nan") if before is None or after is None else after - before

    @property
    def overstatement(self) -> float:
        """What the deciding tasks promise beyond the audit."""
        return self.select_gain - self.gain

    @property
    def later_gain(self) -> float:
        """On audit, since the first acceptance: exact where that is known."""
        if self.final.worth.exact is not None and self.first.exact is not None:
            return self.final.worth.exact - self.first.exact
        return self.final.worth.audit - self.first.audit

    def kept(self, skill: str) -> float:
        """Change of a plain skill."""
        return self.final.worth.retain[skill] - self.begun.worth.retain[skill]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run that is asked for."""

    start: Start
    config: RunConfig


def run_jobs(jobs: Iterable[Sequence[Wanted]], *, workers: int) -> list[list[Result]]:
    """The results of each job, in order. A job is one process; its runs must have one seed."""
    several = ExecutorConfig(kind="process", workers=workers, timeout_s=_MOST_S)
    executor = make_executor(several if workers > 1 else ExecutorConfig(kind="inline"))
    try:
        waiting = [executor.submit(run_all, tuple(job)) for job in jobs]
        return [future.result() for future in waiting]
    finally:
        executor.close()


def run_all(wanted: Sequence[Wanted]) -> list[Result]:
    """One after the other. What a model is worth is measured once where several runs end with it."""
    known: dict[str, Worth] = {}
    return [_run(one, known) for one in wanted]


def _run(wanted: Wanted, known: dict[str, Worth]) -> Result:
    _one_thread(wanted.config)
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as place,
        open_run(wanted.config, Opening(Path(place) / "run", command="heldout bench improve_any_task")) as opened,
    ):
        found = _searched(opened, load_loop(wanted.config.loop)(opened.session))
        return _result(wanted, opened.session, found, known)


def _one_thread(config: RunConfig) -> None:
    """Several processes share the cores."""
    if config.solver.model.name.startswith("pocket"):
        import torch

        torch.set_num_threads(1)


def _searched(opened: OpenRun, loop: Loop) -> Found:
    """A budget that runs out ends the search, not the run."""
    try:
        return loop.run(opened.start)
    except BudgetExhausted:
        return loop.found(opened.start)


def _result(wanted: Wanted, session: Session, found: Found, known: dict[str, Worth]) -> Result:
    yard, scores = Yard(session, known), scores_of(session, found)
    first = first_kept(session)

    def final(digest: str) -> Final:
        candidate: Candidate = session.store.load(digest)
        return Final(worth=yard.worth(candidate), select=scores.get(digest))

    begun = final(found.start.candidate.digest)
    return Result(
        seed=wanted.config.seed,
        start=wanted.start,
        config_digest=config_digest(wanted.config),
        begun=begun,
        final=final(found.final.candidate.digest),
        without_start=final(without_start(session, found)),
        first=begun.worth if first is None else final(first).worth,
        trail=trail_of(session),
        noise=noise_of(session),
    )
