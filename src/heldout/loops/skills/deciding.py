"""Steps 4 and 5 of a round: the gate on the paired table, and what follows from its verdict."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.improvers.skill_roles import SkillNote
from heldout.loops.session import Scored
from heldout.loops.skills.state import SkillSearch
from heldout.loops.skills.tabling import CONFIRMING, Measured, record_table, table_of
from heldout.records import Decision, Outcome, Verdict
from heldout.store.events import Decided, TrackMoved
from heldout.store.skill_events import ModuleEdited, SelectTable

__all__ = ["decide", "decision_of", "move", "no_proposal", "settle"]


def no_proposal(
    search: SkillSearch, number: int, reason: str, *, edit: ModuleEdited | None = None, parent: Scored | None = None
) -> None:
    """A round without a candidate ends here, and counts."""
    decision = Decision(gate=search.session.gate.name, verdict=Verdict.UNDECIDED, reason=reason)
    _record(search, number, parent or search.head, (), decision)
    edited, note = ((), "") if edit is None else (edit.edited, edit.proposal.note)
    search.notes.append(SkillNote(round=number, edited=edited, note=note, verdict="refused", reason=reason))
    search.idle += 1


def decide(search: SkillSearch, edit: ModuleEdited, measured: Measured) -> Decision:
    """The gate's verdict on record, with the table; an acceptance moves the head, everything else leaves it."""
    table = record_table(search, measured, number=edit.round)
    decision = _judged(search, edit, measured, table)
    parent, candidate = measured.sides
    settle(search, edit, decision, parent=parent, candidate=candidate, table=table)
    if decision.verdict is Verdict.ACCEPT:
        move(search, candidate, number=edit.round, why=decision.reason)
    return decision


def decision_of(table: SelectTable, *, gate: str, verdict: Verdict, reason: str) -> Decision:
    """The decision of a loop that has a rule of its own, with the counts of the paired table."""
    repaired, broken = _changed(table)
    effect = (table.repairs - table.regressions) / table.n if table.n else None
    return Decision(
        gate=gate,
        verdict=verdict,
        winner=0,
        n=table.n,
        effect=effect,
        wins=len(repaired),
        losses=len(broken),
        reason=reason,
    )


def settle(
    search: SkillSearch,
    edit: ModuleEdited,
    decision: Decision,
    *,
    parent: Scored,
    candidate: Scored,
    table: SelectTable | None,
) -> None:
    """Put a decision on record, and remember for the editor what became of the edit."""
    _record(search, edit.round, parent, (candidate,), decision)
    repaired, broken = ((), ()) if table is None else _changed(table)
    note = SkillNote(
        round=edit.round,
        edited=edit.edited,
        note=edit.proposal.note,
        verdict=decision.verdict.value,
        reason=decision.reason,
        repairs=repaired,
        regressions=broken,
    )
    search.notes.append(note)
    search.idle = 0 if decision.verdict is Verdict.ACCEPT else search.idle + 1


def move(search: SkillSearch, head: Scored, *, number: int, why: str, after: int | None = None) -> None:
    """The track's new head, made in round `number`, with room kept for its audit. `after` is the last round that was
    run, where that is another one."""
    session, origin = search.session, search.head.candidate.digest
    target = head.candidate.digest
    moved = TrackMoved(track=search.track, origin=origin, target=target, generation=number, why=why)
    session.move(head, moved)
    search.head, search.head_round = head, number
    last = number if after is None else after
    passed = any(_is_later(outcome, last) for outcome in session.engine.recorded.values())
    session.hold_audit(
        search.start, head.candidate, passed=passed, counted=lambda outcome: not _is_later(outcome, last)
    )


def _is_later(outcome: Outcome, number: int) -> bool:
    """Whether an outcome came after this round: on record already where a run is resumed that was past its end."""
    if outcome.purpose == "noise":
        return False
    repeat = outcome.repeat - CONFIRMING if outcome.purpose == "confirm" else outcome.repeat
    return outcome.purpose not in ("select", "train", "confirm") or repeat > number


def _judged(search: SkillSearch, edit: ModuleEdited, measured: Measured, table: SelectTable) -> Decision:
    floor = search.options.sweep.coverage
    if table.coverage < floor:
        reason = f"{table.n} of {len(table.cells)} select tasks were measured on both sides, below {floor:.0%}"
        return decision_of(table, gate=search.session.gate.name, verdict=Verdict.UNDECIDED, reason=reason)
    given = table_of(search, measured, number=edit.round, edited=edit.edited, attributed=edit.attributed)
    return search.session.decide(given)


def _record(search: SkillSearch, number: int, parent: Scored, candidates: Sequence[Scored], decision: Decision) -> None:
    winner = decision.winner
    decided = Decided(
        generation=number,
        incumbent=parent.candidate.digest,
        candidates=tuple(one.candidate.digest for one in candidates),
        incumbent_score=parent.mean,
        scores=tuple(one.mean for one in candidates),
        winner=candidates[winner].candidate.digest if candidates and winner is not None else None,
        decision=decision,
    )
    search.session.recorder.record("decision", decided)


def _changed(table: SelectTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Select ids that rose, and those that fell."""
    repaired = tuple(task for task, what in table.cells.items() if what in ("repair", "better"))
    broken = tuple(task for task, what in table.cells.items() if what in ("regression", "worse"))
    return repaired, broken
