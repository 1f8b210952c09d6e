"""The gate on a round's paired table, and what follows from its verdict (spec §4, step 10)."""

from __future__ import annotations

import numpy as np

from heldout.gates import GenerationTable
from heldout.improvers.agent import RoundNote
from heldout.loops.agents.attempting import Attempted, changed_paths
from heldout.loops.agents.screening import screen_rows
from heldout.loops.agents.state import HARNESS, Agents, Kept
from heldout.loops.proposing import edit_size, step_seed
from heldout.loops.session import Scored
from heldout.records import Decision, Verdict
from heldout.stats import EQUAL_WITHIN, mean_interval
from heldout.store.agent_events import CardWritten, FlipsConfirmed, Smoked, Submitted
from heldout.store.events import Decided, TrackMoved

__all__ = ["decide", "nothing_measured"]


def nothing_measured(agents: Agents, number: int, attempted: Attempted) -> None:
    """A round without a candidate: recorded as undecided, and the head stays."""
    smoked = [one for one in agents.session.recorder.every("smoke", Smoked) if one.round == number and one.check]
    faults = [f"{one.check}: {one.fault}" for one in smoked[-1:]]  # what the last repair left, where there was a winner
    faults += [one.fault for one in attempted.submissions if one.fault]
    reason = f"round {attempted.verdict}: {faults[0] if faults else 'every attempt failed a mechanical check'}"
    _record(agents, number, (), Decision(gate=agents.session.gate.name, verdict=Verdict.UNDECIDED, reason=reason))
    agents.notes.append(RoundNote(round=number, verdict=attempted.verdict, note=reason))


def decide(agents: Agents, winner: Submitted, flips: FlipsConfirmed, measured: Kept) -> None:
    """The verdict on a measured candidate; an acceptance moves the harness head, everything else leaves it."""
    session, head = agents.session, agents.head
    void = flips.label == "void"
    decision = _void(agents, flips) if void else _judged(agents, winner, measured)
    accepted = decision.verdict is Verdict.ACCEPT
    if not session.config.search.iterate and not void:
        decision = decision.model_copy(
            update={"verdict": Verdict.UNDECIDED, "reason": "best of N: one choice is made at the end"}
        )
        accepted = False
        agents.competing.append(measured)
    _record(agents, flips.round, (measured,), decision)
    agents.winners[flips.round] = winner
    agents.notes.append(_note(winner, flips, "void" if void else decision.verdict.value))
    if (not accepted and not void) or flips.label == "INERT":
        agents.dead.add(winner.edits)
    if accepted:
        moved = TrackMoved(
            track=HARNESS,
            origin=head.candidate.digest,
            target=measured.candidate.digest,
            generation=flips.round,
            why=decision.reason,
        )
        session.move(Scored(measured.candidate, measured.select[:, None]), moved)
        agents.kept.append(measured)
        agents.competing.append(measured)
        passed = session.recorder.find("card", str(flips.round), CardWritten) is not None
        session.hold_audit(agents.start, measured.candidate, passed=passed)


def _table(agents: Agents, winner: Submitted, measured: Kept) -> GenerationTable:
    """The paired select table; for `manifest`, whose predictions are about train, with the screen's rows below it."""
    session, head = agents.session, agents.head
    ids = [task.id for task in session.tasks.select]
    before, after = head.select, measured.select
    if session.gate.name == "manifest":
        screened = screen_rows(agents, measured.round, winner)
        ids += [task for task, _, _ in screened]
        before = np.concatenate([before, [was for _, was, _ in screened]])
        after = np.concatenate([after, [now for _, _, now in screened]])
    best = max(agents.kept, key=lambda one: (one.score or 0.0, -one.round))
    return GenerationTable(
        incumbent=before[:, None],
        candidates=after[None, :, None],
        edit_sizes=np.array([edit_size(head.candidate, measured.candidate)]),
        seed=step_seed(session.config.seed, measured.round, -1),
        tasks=tuple(ids),
        predicted=(winner.proposal.predicted_fixes,),
        at_risk=(winner.proposal.at_risk,),
        best=best.select[:, None] if len(ids) == len(best.select) else None,
    )


def _judged(agents: Agents, winner: Submitted, measured: Kept) -> Decision:
    """The gate's decision, with the select table's own numbers: rows of train tasks, many of them chosen because they
    failed, are no part of a gain."""
    table = _table(agents, winner, measured)
    decision = agents.session.decide(table)
    if len(table.tasks) == len(measured.select):
        return decision
    difference = measured.select - agents.head.select
    found = mean_interval(difference)
    numbers = {"n": found.n, "effect": found.mean, "standard_error": found.standard_error, "interval": found.interval}
    wins, losses = (float(np.count_nonzero(sign * difference > EQUAL_WITHIN)) for sign in (1.0, -1.0))
    return decision.model_copy(update={**numbers, "wins": wins, "losses": losses})


def _void(agents: Agents, flips: FlipsConfirmed) -> Decision:
    floor = agents.options.select.coverage
    reason = f"paired coverage {flips.coverage:.0%} is below {floor:.0%}: the round is void"
    return Decision(gate=agents.session.gate.name, verdict=Verdict.UNDECIDED, winner=0, n=flips.n, reason=reason)


def _record(agents: Agents, number: int, measured: tuple[Kept, ...], decision: Decision) -> None:
    head = agents.head
    won = measured[decision.winner] if decision.winner is not None and measured else None
    decided = Decided(
        generation=number,
        incumbent=head.candidate.digest,
        candidates=tuple(one.candidate.digest for one in measured),
        incumbent_score=head.score,
        scores=tuple(one.score for one in measured),
        winner=None if won is None else won.candidate.digest,
        decision=decision,
    )
    agents.session.recorder.record("decision", decided)


def _note(winner: Submitted, flips: FlipsConfirmed, verdict: str) -> RoundNote:
    return RoundNote(
        round=flips.round,
        verdict=verdict,
        label="" if flips.label == "void" else flips.label,
        note=winner.proposal.note,
        edits=winner.edits,
        edited=tuple(changed_paths(winner)),
        select_before=flips.score_before,
        select_after=flips.score_after,
        fixed=flips.fixed,
        broken=flips.broken,
    )
