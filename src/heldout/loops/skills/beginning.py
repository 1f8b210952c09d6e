"""Round 0: the start on select, the noise, and what a no-effect edit would show."""

from __future__ import annotations

from typing import Literal

from heldout.config import GateConfig
from heldout.errors import HarnessError, SetupError
from heldout.gates import Gate, make_gate
from heldout.improvers.skill_roles import SkillImprover
from heldout.loops.noise import measure_noise
from heldout.loops.session import Session
from heldout.loops.skills.options import SkillOptions
from heldout.loops.skills.state import SkillSearch
from heldout.records import Candidate
from heldout.skills.guide import check_guide, kind_of
from heldout.skills.literals import train_literals

__all__ = ["begin"]

CONFIRMED = 0.25
"""Share of no-effect flips that show again when both sides run once more, on tasks that pass half of the time; see
`heldout.stats.confirmed_null_rate`."""


def begin(
    session: Session, start: Candidate, options: SkillOptions, *, target: Literal["guide", "skill"]
) -> SkillSearch:
    """The state before round 1. `SetupError` for a start, an improver or a gate that does not fit the loop."""
    improver = _improver(session)
    _check_start(session, start, target=target)
    _check_gate(session)
    head = session.score_start(start, track=target)
    measure_noise(session, head, _calibrated(session), confirmed=CONFIRMED if options.sweep.confirm_flips else 1.0)
    scanned = target == "guide" and options.literals
    forbidden = train_literals(session.tasks.train, session.tasks.environment) if scanned else ()
    return SkillSearch(session, options, improver, target, start, head, forbidden=forbidden)


def _improver(session: Session) -> SkillImprover:
    if session.skills is None:
        raise SetupError(
            f"improver.kind = {session.config.improver.kind!r} edits no skills; use skill_catalog or skill_llm"
        )
    return session.skills


def _check_start(session: Session, start: Candidate, *, target: str) -> None:
    loop, found = session.config.loop, _told(start)
    if target == "guide" and found != "a guide":
        raise SetupError(
            f"the loop {loop!r} improves a guide of six modules, and the start is {found}: set solver.harness=skilled "
            "and solver.options.start=guide, or solver.start to a folder with the six files"
        )
    if target == "skill" and found not in ("one skill", "no skill"):
        raise SetupError(
            f"the loop {loop!r} improves one skill for all tasks, and the start is {found}: set solver.harness=skilled "
            "and solver.options.start=none, or solver.start to a folder with a SKILL.md"
        )


def _told(start: Candidate) -> str:
    """What a start is, in words; a harness other than `skilled` has starts that are nothing of the kind."""
    kind = kind_of(start)
    if kind != "guide":
        return "one skill" if kind == "skill" else "no skill"
    try:
        check_guide(start.files)
    except HarnessError as fault:
        return f"none ({fault})"
    return "a guide"


def _check_gate(session: Session) -> None:
    """A round's table has one measurement of each select task, no new tasks, and no pilot before it."""
    gate, config = session.gate, session.config.gate
    unlearned = config.kind == "bayes_pilot" and config.prior is None
    if gate.repeats > 1 or gate.fresh_tasks or unlearned:
        wants = "a pilot, or gate.prior" if unlearned else "repeats" if gate.repeats > 1 else "new tasks"
        raise SetupError(
            f"gate.kind = {config.kind!r} asks for {wants}, which the loop {session.config.loop!r} does not measure: "
            "use repairs_over_regressions, greedy, net or mcnemar"
        )


def _calibrated(session: Session) -> list[Gate]:
    """The run's own rule and the plain one, more repairs than breaks, for comparison."""
    own = session.gate
    return [own] if own.name == "net" else [own, make_gate(GateConfig(kind="net"))]
