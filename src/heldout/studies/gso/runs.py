"""One run of an arm's real loop in the shadow world, and what is read from it; nothing of its folder is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heldout.config import ExecutorConfig, RunConfig, config_digest
from heldout.loops import load_loop
from heldout.records import Candidate, Record
from heldout.rollouts import make_executor
from heldout.skills.guide import NO_SKILL, start_guide
from heldout.skills.judge import RuleJudge
from heldout.studies.gso.arms import Arm
from heldout.studies.gso.measuring import Exact, Measured, Yard, as_one_skill
from heldout.studies.gso.reading import Cost, Edits, EditSeen, begun_of, cost_of, edits_of, edits_seen
from heldout.workbench import Opening, open_run

__all__ = ["Result", "Wanted", "run_jobs", "run_once"]

_MEMORY = Path("/dev/shm")
"""A folder in memory, where there is one: a run forces its decisions to the disk, which is most of its time."""

_MOST_S = 7200.0

_RULES: Mapping[str, tuple[float, float]] = {"gso": (2.0, 1.0), "two": (2.0, 2.0), "more_repairs": (1.0, 1.0)}
"""Weight of a break and least u, by the name of a gate."""


class Result(Record):
    """What one arm left in one world."""

    seed: int
    config_digest: str
    measured: Measured
    exact: Exact
    last_exact: Exact
    """Of the last head, which the final selection may have refused."""
    files: Mapping[str, str]
    """Of the final."""
    begun: Mapping[str, str]
    """Of the candidate that the first edit is made to."""
    begun_audit: float
    """Its exact audit rate."""
    is_start: bool
    cost: Cost = Cost()
    edits: Edits = Edits()
    seen: tuple[EditSeen, ...] = ()
    """For arms whose guide a rule on repairs and breaks decides on."""
    judged: float | None = None
    """The rule judge's total of the final text; None without a text."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run that is asked for."""

    arm: Arm
    config: RunConfig
    base: Result | None = None
    """The result whose final is measured, for an arm of another arm's final."""


def run_jobs(jobs: Iterable[Sequence[Wanted]], *, workers: int) -> list[list[Result]]:
    """The results of each job, in order. A job is one process, so runs of one world belong together."""
    several = ExecutorConfig(kind="process", workers=workers, timeout_s=_MOST_S)
    executor = make_executor(several if workers > 1 else ExecutorConfig(kind="inline"))
    try:
        waiting = [executor.submit(_run_all, tuple(job)) for job in jobs]
        return [future.result() for future in waiting]
    finally:
        executor.close()


def _run_all(wanted: Sequence[Wanted]) -> list[Result]:
    return [run_once(one) for one in wanted]


def run_once(wanted: Wanted) -> Result:
    """Search and final selection where the arm has a loop; then its final on every role, measured and exact."""
    return _searched(wanted) if wanted.arm.loop else _as_it_is(wanted)


def _searched(wanted: Wanted) -> Result:
    arm, config = wanted.arm, wanted.config
    yard = Yard(config, arm.recovery)
    with (
        tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as place,
        open_run(config, Opening(Path(place) / "run", command="heldout bench gso")) as opened,
    ):
        session = opened.session
        found = load_loop(config.loop)(session).run(opened.start)
        last = next(iter(session.heads.values())).candidate
        weight, min_u = _RULES.get(arm.gate, (0.0, 0.0))
        decides = config.loop == "gso" and config.search.iterate
        return _result(yard, found.final.candidate, begun=begun_of(session, opened.start)).model_copy(
            update={
                "last_exact": yard.exact(last),
                "is_start": found.final.candidate.digest == found.start.candidate.digest,
                "cost": cost_of(opened.folder),
                "edits": edits_of(session, yard),
                "seen": edits_seen(session, yard, weight=weight, min_u=min_u) if decides else (),
            }
        )


def _as_it_is(wanted: Wanted) -> Result:
    """Nothing is searched: the start, no skill, or another arm's final under other conditions."""
    arm, base = wanted.arm, wanted.base
    files = (start_guide() if arm.guide else NO_SKILL) if base is None else base.files
    sides = [Candidate(files=dict(one)) for one in (files, files if base is None else base.begun)]
    candidate, begun = [as_one_skill(one) if arm.flattened else one for one in sides]
    made = _result(Yard(wanted.config, arm.recovery), candidate, begun=begun)
    if base is None:
        return made
    return made.model_copy(update={"cost": base.cost, "edits": base.edits, "is_start": base.is_start})


def _result(yard: Yard, candidate: Candidate, *, begun: Candidate) -> Result:
    exact = yard.exact(candidate)
    return Result(
        seed=yard.config.seed,
        config_digest=config_digest(yard.config),
        measured=yard.measured(candidate),
        exact=exact,
        last_exact=exact,
        files=candidate.files,
        begun=begun.files,
        begun_audit=exact.audit if begun == candidate else yard.rate(begun, yard.roles.jobs["audit"]),
        is_start=True,
        judged=RuleJudge().judge(candidate).total,
    )
