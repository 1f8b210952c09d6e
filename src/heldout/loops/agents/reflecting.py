"""The report card of a round, and the meta-episode in which the improver edits its own method (spec §4, step 11)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from heldout.errors import HeldoutError
from heldout.improvers.agent import MetaView, RoundNote
from heldout.improvers.llm.method_hooks import method_hook_faults
from heldout.improvers.method import apply_method_edits, check_method_edits
from heldout.loops.agents.attempting import Attempted
from heldout.loops.agents.experiments import Experiments
from heldout.loops.agents.paying import paid
from heldout.loops.agents.state import METHOD, Agents, Shown
from heldout.loops.paying import journal_lost
from heldout.loops.proposing import step_seed
from heldout.probes import Laboratory
from heldout.records import Candidate, EditProposal, Evidence, Spend
from heldout.sandbox import make_sandboxes
from heldout.store.agent_events import CardWritten, FlipsConfirmed, MethodEdited
from heldout.store.events import CandidateAdded, TrackMoved

__all__ = ["RoundFacts", "card_text", "reflect"]

META_EPISODE = -1


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """What happened in a round."""

    number: int
    note: RoundNote
    attempted: Attempted
    flips: FlipsConfirmed | None
    evidence: tuple[Evidence, ...]
    shown: Shown


def card_text(agents: Agents, facts: RoundFacts) -> str:
    """Facts, no advice: the verdict, the table, the predictions, the screen, the pool, the improver's own events."""
    note, flips, screened = facts.note, facts.flips, facts.attempted.screened
    lines = [
        f"# Round {facts.number}",
        f"description: {note.note or 'none'}",
        f"verdict: {note.verdict}{f' ({note.label})' if note.label else ''}",
        f"select score: {_percent(note.select_before)} -> {_percent(note.select_after)}",
    ]
    if flips is not None:
        lines.append(
            f"select tasks: {len(flips.fixed)} fixed, {len(flips.broken)} broken (confirmed); "
            f"{len(flips.flaky)} flaky, {len(flips.infra)} without a second run; coverage {flips.coverage:.0%}; "
            f"hook error rate {flips.hook_error_rate:.0%}"
        )
    if facts.attempted.winner is not None:
        size = sum(len((edit.content or "").encode()) for edit in facts.attempted.winner.proposal.edits)
        net = len(flips.fixed) - len(flips.broken) if flips is not None else 0
        lines.append(f"edit: {size} bytes in {', '.join(note.edited) or 'no file'} -> net {net:+d}")
    if screened is not None:
        nets = [f"{fixed - broken:+d}" for fixed, broken in zip(screened.fixed, screened.broken, strict=True)]
        lines.append(f"screen (fixed - broken): {', '.join(nets)}; winner: {_place(screened.winner)}")
    lines += [f"earlier prediction, round {one.round}: {_counts(one)}" for one in agents.notes[-2:] if one.predictions]
    lines += _probe_lines(facts)
    lines += _tool_lines(facts)
    lines += [
        f"method, round {one.round}: {'edited' if one.target != one.origin else 'unchanged'}"
        + (f"; refused: {one.faults[0]}" if one.faults else "")
        for one in agents.session.recorder.every("method.edited", MethodEdited)
        if one.round == facts.number - 1
    ]
    return "\n".join(lines) + "\n"


def reflect(agents: Agents, facts: RoundFacts, experiments: Experiments) -> Candidate:
    """The improver's folder after the round; unchanged where its edits are refused or the episode fails."""
    session, number = agents.session, facts.number
    card = session.recorder.record("card", CardWritten(round=number, text=card_text(agents, facts)))
    if not agents.options.method.self_edit:
        return agents.method
    known = session.recorder.find("method.edited", str(number), MethodEdited)
    edited = known or _meta_episode(agents, facts, card.text, experiments)
    if edited.target == edited.origin:
        return agents.method
    method = session.store.load(edited.target)
    added = CandidateAdded(
        digest=method.digest,
        parent=edited.origin,
        track=METHOD,
        generation=number,
        index=0,
        note=edited.proposal.note,
    )
    session.add_candidate(method, added)
    why = "the improver edited its own method; no score gates this"
    moved = TrackMoved(track=METHOD, origin=edited.origin, target=edited.target, generation=number, why=why)
    session.recorder.record("track.moved", moved)
    return method


def _meta_episode(agents: Agents, facts: RoundFacts, card: str, experiments: Experiments) -> MethodEdited:
    """At most `method.attempts` submissions, the faults of each told before the next. It fails open."""
    session = agents.session
    faults: tuple[str, ...] = ()
    proposal, method, spend = EditProposal(), agents.method, Spend()
    for attempt in range(agents.options.method.attempts):
        view = _view(agents, facts, card, faults)
        try:
            proposal = experiments.meta(partial(_reflection, agents, view), attempt=attempt)
        except HeldoutError:
            journal_lost(session, "reflect", spend)
            raise
        spend = spend + proposal.spend
        if not proposal.edits:
            break
        method, faults = _edited(agents, proposal)
        if not faults:
            break
    kept = method if proposal.edits and not faults else agents.method
    session.store.save(kept)
    edited = MethodEdited(
        round=facts.number,
        origin=agents.method.digest,
        target=kept.digest,
        proposal=proposal,
        faults=faults,
        spend=spend,
    )
    return session.recorder.record("method.edited", edited)


def _reflection(agents: Agents, view: MetaView, laboratory: Laboratory) -> EditProposal:
    return paid(agents, partial(agents.improver.reflect, view), laboratory, purpose="reflect")


def _edited(agents: Agents, proposal: EditProposal) -> tuple[Candidate, tuple[str, ...]]:
    tasks = frozenset(task for members in agents.session.tasks.plan.values() for task, _ in members)
    sandbox = str(agents.session.config.solver.options.get("sandbox", "bubblewrap"))
    faults = check_method_edits(
        agents.method,
        proposal.edits,
        task_ids=tasks,
        hook_faults=lambda source: method_hook_faults(source, make_sandboxes(sandbox)),
    )
    return agents.method if faults else apply_method_edits(agents.method, proposal.edits), faults


def _view(agents: Agents, facts: RoundFacts, card: str, faults: tuple[str, ...]) -> MetaView:
    winner = facts.attempted.winner
    others = [one.proposal for one in facts.attempted.submissions if winner is None or one.episode != winner.episode]
    return MetaView(
        round=facts.number,
        seed=step_seed(agents.session.config.seed, facts.number, META_EPISODE),
        method=agents.method.model_copy(update={"files": dict(agents.method.files)}),
        card=card,
        note=facts.note,
        proposals=tuple(([winner.proposal] if winner is not None else []) + others),
        evidence=facts.evidence,
        traces=facts.shown.traces,
        ledger=facts.shown.ledger,
        faults=faults,
        noise=agents.noise,
        run_seed=agents.session.config.seed,
    )


def _probe_lines(facts: RoundFacts) -> list[str]:
    by_kind: dict[str, int] = {}
    for one in facts.evidence:
        by_kind[one.kind.value] = by_kind.get(one.kind.value, 0) + one.units
    verdicts = [one.verdict.value for one in facts.evidence if not one.refused]
    told = ", ".join(f"{kind} {units}" for kind, units in sorted(by_kind.items()))
    counts = ", ".join(f"{name} {verdicts.count(name)}" for name in sorted(set(verdicts)))
    refused = sum(bool(one.refused) for one in facts.evidence)
    return [f"pool: {sum(by_kind.values())} units ({told}); verdicts: {counts}; refused: {refused}"] if by_kind else []


def _tool_lines(facts: RoundFacts) -> list[str]:
    names = ("turns", "tool_calls", "tool_errors")
    totals = {name: sum(one.proposal.measures.get(name, 0.0) for one in facts.attempted.submissions) for name in names}
    errors = [one.fault or one.proposal.error or "" for one in facts.attempted.submissions]
    lines = (
        ["tools: " + ", ".join(f"{name} {total:g}" for name, total in totals.items())] if any(totals.values()) else []
    )
    return lines + [f"episode {i}: {error}" for i, error in enumerate(errors) if error]


def _counts(note: RoundNote) -> str:
    values = list(note.predictions.values())
    return ", ".join(f"{name} {values.count(name)}" for name in sorted(set(values)))


def _place(index: int | None) -> str:
    return "none" if index is None else f"proposal {index + 1}"


def _percent(score: float | None) -> str:
    return "not measured" if score is None else f"{100 * score:.1f} %"
