"""From evidence to one candidate: propose, screen, novelty, smoke (spec §4, steps 3 to 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heldout.improvers.agent import RoundView
from heldout.loops.agents.experiments import Experiments
from heldout.loops.agents.proposing import enter_lineage, propose, repair
from heldout.loops.agents.screening import screen
from heldout.loops.agents.showing import round_views
from heldout.loops.agents.smoking import smoke
from heldout.loops.agents.state import Agents, Round, Shown
from heldout.records import Candidate
from heldout.store.agent_events import Screened, Submitted

__all__ = ["Attempted", "attempt"]

DEAD_EDIT = "these edits were tried before and were reverted or changed nothing; submit others"


@dataclass(frozen=True, slots=True)
class Attempted:
    """What a round has to put to the gate."""

    submissions: tuple[Submitted, ...]
    screened: Screened | None
    winner: Submitted | None
    """It passed every check; None for a round without a usable candidate."""
    verdict: str
    """Where there is no winner: `error` (no episode gave a candidate) or `invalid` (smoke refused all attempts)."""


def attempt(agents: Agents, which: Round, shown: Shown, method: Candidate, experiments: Experiments) -> Attempted:
    """The round's winner, after at most one repair for novelty and `smoke.attempts` − 1 repairs for faults."""
    views = round_views(agents, which, shown, method)
    submissions = propose(agents, views, experiments)
    for one in submissions:
        enter_lineage(agents, one, parent=_base(agents, one), index=one.episode)
    screened = screen(agents, which, submissions, experiments.evidence(repairs=False))
    if screened.winner is None:
        return Attempted(submissions, screened, None, "error")
    chosen = submissions[screened.winner]
    view = views[screened.winner]
    repeats = chosen.edits in agents.dead
    chosen = _novel(agents, view, chosen, experiments) if repeats else chosen
    winner = _smoked(agents, view, chosen, experiments, repairs=int(repeats))
    if winner is not None and winner.attempt:
        enter_lineage(agents, winner, parent=_base(agents, winner), index=len(submissions))
    return Attempted(submissions, screened, winner, "" if winner is not None else "invalid")


def _novel(agents: Agents, view: RoundView, chosen: Submitted, experiments: Experiments) -> Submitted:
    """A winner that repeats a dead edit gets one repair; without another edit it goes on as it is."""
    other = repair(agents, view, chosen, DEAD_EDIT, experiments, attempt=1)
    return chosen if other.fault or other.edits in agents.dead else other


def _smoked(
    agents: Agents, view: RoundView, chosen: Submitted, experiments: Experiments, *, repairs: int
) -> Submitted | None:
    """The first submission that passes every check; `repairs` is how many the round has had before."""
    for number in range(agents.options.smoke.attempts):
        found = smoke(agents, view.round, number, chosen, experiments.evidence())
        if not found.check:
            return chosen
        if number < agents.options.smoke.attempts - 1:
            fault, attempt = f"{found.check}: {found.fault}", repairs + number + 1
            chosen = repair(agents, view, chosen, fault, experiments, attempt=attempt)
    return None


def _base(agents: Agents, one: Submitted) -> str:
    number = one.proposal.base_round
    return agents.bases.get(-1 if number is None else number, agents.head.candidate).digest


def changed_paths(one: Submitted | None) -> Sequence[str]:
    """Paths that a submission writes or deletes."""
    return () if one is None else tuple(sorted({edit.path for edit in one.proposal.edits}))
