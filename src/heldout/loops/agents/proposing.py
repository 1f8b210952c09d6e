"""A round's proposals: parallel episodes with a shared pool of probes, and the one repair call of a faulty one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from heldout.improvers.agent import RoundView
from heldout.loops.agents.experiments import Experiments
from heldout.loops.agents.paying import paid
from heldout.loops.agents.state import HARNESS, Agents
from heldout.probes import Laboratory
from heldout.records import Candidate, EditProposal, apply_edits, edits_digest
from heldout.store import fault_of_files
from heldout.store.agent_events import Submitted
from heldout.store.events import CandidateAdded, Proposed

__all__ = ["enter_lineage", "propose", "repair"]


def propose(agents: Agents, views: Sequence[RoundView], experiments: Experiments) -> tuple[Submitted, ...]:
    """What each episode of the round submits; an episode whose submission is on record is not run again."""
    jobs = [partial(_episode, agents, view) for view in views]
    return tuple(experiments.episodes(jobs))


def repair(
    agents: Agents, view: RoundView, faulty: Submitted, fault: str, experiments: Experiments, *, attempt: int
) -> Submitted:
    """The winner with its fault told to its improver, in one call; `attempt` counts the round's repairs from 1."""
    known = agents.session.recorder.find("submission", f"{view.round}/{view.episode}/{attempt}", Submitted)
    if known is not None:
        return known
    job = partial(_repaired, agents, view, faulty.proposal, fault, attempt=attempt)
    return experiments.again(view.episode, job, attempt=attempt)


def _episode(agents: Agents, view: RoundView, laboratory: Laboratory) -> Submitted:
    known = agents.session.recorder.find("submission", f"{view.round}/{view.episode}/0", Submitted)
    if known is not None:
        return known
    ask = partial(agents.improver.propose, view)
    return _submitted(agents, view, paid(agents, ask, laboratory, purpose="propose"), attempt=0)


def _repaired(
    agents: Agents, view: RoundView, faulty: EditProposal, fault: str, laboratory: Laboratory, *, attempt: int
) -> Submitted:
    ask = partial(agents.improver.repair, view, faulty, fault)
    return _submitted(agents, view, paid(agents, ask, laboratory, purpose="repair"), attempt=attempt)


def _submitted(agents: Agents, view: RoundView, proposal: EditProposal, *, attempt: int) -> Submitted:
    """Record the proposal, and the candidate that it makes."""
    session = agents.session
    candidate, fault = _candidate(agents, view, proposal)
    if candidate is not None and not fault:
        session.store.save(candidate)
    submitted = Submitted(
        round=view.round,
        episode=view.episode,
        attempt=attempt,
        guidance=view.guidance,
        proposal=proposal,
        digest=None if candidate is None or fault else candidate.digest,
        edits=edits_digest(proposal.edits) if proposal.edits else "",
        fault=fault,
    )
    session.recorder.record("submission", submitted)
    return submitted


def _candidate(agents: Agents, view: RoundView, proposal: EditProposal) -> tuple[Candidate | None, str]:
    """The edited folder and what is wrong with it: sizes, paths and the harness's own check."""
    if not proposal.edits:
        return None, proposal.error or "the improver submitted no edits"
    number = proposal.base_round
    if number is not None and number not in view.bases:
        return None, f"base_round = {number} is no kept round; there is {', '.join(map(str, sorted(view.bases)))}"
    base = view.head if number is None else view.bases[number]
    candidate = apply_edits(base, proposal.edits)
    if candidate.digest == base.digest:
        return candidate, "the edits change nothing"
    fault = fault_of_files(candidate.files)
    if fault is not None:
        return candidate, f"the edited folder is not usable: {fault}"
    return candidate, proposal.error or agents.session.check(candidate) or ""


def enter_lineage(agents: Agents, submitted: Submitted, *, parent: str, index: int) -> None:
    """Put a submission and its candidate where every loop's lineage looks for them."""
    session = agents.session
    duplicate = submitted.digest if submitted.digest is not None and session.known(submitted.digest) else None
    proposed = Proposed(
        generation=submitted.round,
        index=index,
        digest=submitted.digest,
        note=submitted.proposal.note,
        error=submitted.fault or None,
        duplicate_of=duplicate,
        unanswered=submitted.proposal.unanswered,
    )
    known = session.recorder.find("proposal", f"{submitted.round}/{index}", Proposed)
    if known is None:
        session.recorder.record("proposal", proposed)
    if submitted.digest is not None and duplicate is None:
        added = CandidateAdded(
            digest=submitted.digest,
            parent=parent,
            track=HARNESS,
            generation=submitted.round,
            index=index,
            note=submitted.proposal.note,
        )
        session.add_candidate(session.store.load(submitted.digest), added)
