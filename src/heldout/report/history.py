"""How the run got where it is: every generation and every proposal, with what became of it and why."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from heldout.records import Decision, Verdict
from heldout.report.fates import Fate, fates_of_attempts, fates_of_edits, fates_of_rounds
from heldout.report.queries import SELECT, Mean, Means, means, payloads, role_scores
from heldout.report.rounds import AgentHistory
from heldout.report.skill_history import SkillHistory
from heldout.report.training_history import TrainingHistory
from heldout.store.events import CandidateAdded, Decided, Proposed, RoleScored

__all__ = ["CandidateRow", "GenerationRow", "candidates", "generations", "oracle_role"]


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One proposal. Scores are fractions of one."""

    generation: int
    index: int
    digest: str | None
    """None for a proposal that could not be used."""
    parent: str | None
    note: str
    fate: Fate
    reason: str
    select: Mean
    gain: float | None
    """Select score minus the incumbent's of that generation."""
    gold: Mean
    """On the oracle role, scored after the last decision."""


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """One decision; generation 0 is the start before any."""

    generation: int
    incumbent: str
    incumbent_select: Mean
    best: str | None
    """The candidate that the gate was shown."""
    best_select: Mean
    decision: Decision | None
    head: str
    """The head after the decision."""
    head_select: Mean
    head_gold: Mean
    candidates: int


_NOTHING = Mean(n=0, missing=0, value=None)


def oracle_role(connection: sqlite3.Connection) -> str | None:
    """The report role on which most candidates were scored, or None."""
    scored = [score.role for score in role_scores(connection)]
    return max(sorted(set(scored)), key=scored.count, default=None)


def generations(
    connection: sqlite3.Connection, *, known: Means | None = None, skills: SkillHistory | None = None
) -> tuple[GenerationRow, ...]:
    """The selection curve, from the start on. Of a loop over skills, `skills` is its history: it measures parents anew
    in each round, and accepts what need not become the head."""
    found = means(connection) if known is None else known
    gold = _gold(connection, found)
    decided = _decisions(connection)
    origin = _start(connection)
    rows = []
    if origin is not None:
        mean, truth = found.get((SELECT, origin), _NOTHING), gold.get(origin, _NOTHING)
        rows.append(GenerationRow(0, origin, mean, None, _NOTHING, None, origin, mean, truth, 0))
    rows += [_generation(one, found, gold=gold) for one in decided]
    return tuple(rows if skills is None else _with_heads(rows, skills, found=found, gold=gold))


def _with_heads(
    rows: Sequence[GenerationRow], skills: SkillHistory, *, found: Means, gold: Mapping[str, Mean]
) -> Iterator[GenerationRow]:
    """The rows with the head that the run recorded, and with the parent's score of that round."""
    rounds = {one.number: one for one in skills.rounds}
    for row in rows:
        decided = None if row.decision is None else rounds[row.generation].decided
        if decided is None:
            yield row
            continue
        head = rounds[row.generation].head_after or rows[0].head
        parent = replace(row.incumbent_select, value=decided.incumbent_score, standard_error=None)
        select = found.get((SELECT, head), parent if head == row.incumbent else row.head_select)
        truth = gold.get(head, _NOTHING)
        yield replace(row, head=head, head_select=select, head_gold=truth, incumbent_select=parent)


def _start(connection: sqlite3.Connection) -> str | None:
    added = payloads(connection, CandidateAdded)
    return next((candidate.digest for candidate in added if candidate.parent is None), None)


def _decisions(connection: sqlite3.Connection) -> tuple[Decided, ...]:
    """The last word on each generation: a gate that asked for a confirmation decides twice."""
    return tuple({one.generation: one for one in payloads(connection, Decided)}.values())


def _generation(decided: Decided, found: Means, *, gold: Mapping[str, Mean]) -> GenerationRow:
    recorded = dict(zip(decided.candidates, decided.scores, strict=True))
    recorded[decided.incumbent] = decided.incumbent_score

    def select(digest: str) -> Mean:
        return found.get((SELECT, digest), Mean(n=0, missing=0, value=recorded.get(digest)))

    accepted = decided.decision.verdict is Verdict.ACCEPT and decided.winner is not None
    head = decided.winner if accepted and decided.winner is not None else decided.incumbent
    return GenerationRow(
        generation=decided.generation,
        incumbent=decided.incumbent,
        incumbent_select=select(decided.incumbent),
        best=decided.winner,
        best_select=select(decided.winner) if decided.winner is not None else _NOTHING,
        decision=decided.decision,
        head=head,
        head_select=select(head),
        head_gold=gold.get(head, _NOTHING),
        candidates=len(decided.candidates),
    )


def _gold(connection: sqlite3.Connection, found: Means) -> Mapping[str, Mean]:
    """Candidate to its mean on the oracle role: of its outcome rows, or as recorded where another process kept them."""
    role = oracle_role(connection)
    return {
        score.candidate: found.get((score.role, score.candidate), _recorded(score))
        for score in role_scores(connection)
        if score.role == role
    }


def _recorded(score: RoleScored) -> Mean:
    return Mean(n=score.n_tasks, missing=score.missing, value=score.mean)


def candidates(
    connection: sqlite3.Connection,
    *,
    known: Means | None = None,
    agents: AgentHistory | None = None,
    skills: SkillHistory | None = None,
    training: TrainingHistory | None = None,
) -> tuple[CandidateRow, ...]:
    """Every proposal in the order in which it was made, the start first.

    Of a loop over agents, `agents` is its history; what a method audit proposed is then left out. Of one over skills,
    `skills` is, and of one over model weights `training`.
    """
    found = means(connection) if known is None else known
    gold = _gold(connection, found)
    decided = _decisions(connection)
    origin = _start(connection)
    parents = {one.digest: one.parent for one in reversed(payloads(connection, CandidateAdded))}
    told = {} if agents is None else fates_of_rounds(agents.rounds)
    told = told if skills is None else fates_of_edits(skills.rounds)
    told = told if training is None else fates_of_attempts(training.rounds)
    apart = frozenset() if agents is None else frozenset(one.number for one in agents.audited)
    seen: set[tuple[int, str | None]] = set()
    rows = []
    for proposed in _proposals(connection):
        if proposed.generation in apart:
            continue
        decision = _decision_on(proposed, decided)
        twin = (proposed.generation, proposed.digest) in seen
        seen.add((proposed.generation, proposed.digest))
        # The start lies in the same place as a first draft.
        place = (proposed.generation, proposed.index)
        own = None if proposed.digest == origin else told.get(place)
        fate, reason = own or _fate(proposed, decision, twin=twin, origin=origin)
        digest = proposed.digest or ""
        select = found.get((SELECT, digest), _NOTHING)
        incumbent = found.get((SELECT, decision.incumbent), _NOTHING).value if decision else None
        if skills is not None and decision is not None:
            incumbent = decision.incumbent_score
        rows.append(
            CandidateRow(
                generation=proposed.generation,
                index=proposed.index,
                digest=proposed.digest,
                parent=parents.get(digest),
                note=proposed.note,
                fate=fate,
                reason=reason,
                select=select,
                gain=None if select.value is None or incumbent is None else select.value - incumbent,
                gold=gold.get(digest, _NOTHING),
            )
        )
    return tuple(rows)


def _proposals(connection: sqlite3.Connection) -> list[Proposed]:
    """What improvers returned, and what entered the lineage without being proposed (the start)."""
    proposed = {(one.generation, one.index): one for one in payloads(connection, Proposed)}
    known = {proposal.digest for proposal in proposed.values()}
    entries = payloads(connection, CandidateAdded)
    added = [
        Proposed(generation=one.generation, index=one.index, digest=one.digest, note=one.note)
        for one in entries
        if one.digest not in known and one.track == entries[0].track
    ]
    # The start first, also before a pilot's candidates, which are of generation 0 too.
    return [*added[:1], *sorted([*proposed.values(), *added[1:]], key=lambda one: (one.generation, one.index))]


def _decision_on(proposed: Proposed, decided: Sequence[Decided]) -> Decided | None:
    """The decision that weighed it: its own generation's, or a later one where all are decided together."""
    weighed = [one for one in decided if proposed.digest in one.candidates and one.generation >= proposed.generation]
    return weighed[0] if weighed else None


def _fate(proposed: Proposed, decided: Decided | None, *, twin: bool, origin: str | None) -> tuple[Fate, str]:
    """`twin`: the same files were already proposed in this generation."""
    if proposed.digest is None:
        return Fate.INVALID, proposed.error or "the improver returned nothing that can be used"
    if proposed.digest == origin:
        return Fate.START, "where the run began; it stays in the final pool"
    if proposed.generation == 0:
        return Fate.PENDING, "a pilot candidate: measured for the gate's prior, and never up for acceptance"
    chosen = decided is not None and decided.winner == proposed.digest
    if twin or (proposed.duplicate_of is not None and not chosen):
        return Fate.DUPLICATE, "the same files were proposed before"
    if decided is None:
        return Fate.PENDING, "no decision was made on it"
    if decided.decision.verdict is Verdict.UNDECIDED:
        return Fate.UNDECIDED, decided.decision.reason
    if not chosen:
        return Fate.OUTSCORED, "another candidate of its generation was taken to the gate"
    return (Fate.ACCEPTED if decided.decision.verdict is Verdict.ACCEPT else Fate.REJECTED), decided.decision.reason
