"""The one opening of a sealed role: start against final, paired, after the last decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.audit.families import by_family
from heldout.audit.verdict import audit_result
from heldout.errors import BudgetExhausted, SetupError
from heldout.loops import Session, mean_score, score_column
from heldout.records import Candidate, Comparison, digest_of
from heldout.rollouts import Sweep
from heldout.store.events import AuditOpened, AuditResult, RoleScored
from heldout.tasks import OpenRole, normalise_text

__all__ = ["Opener", "last_result", "open_sealed_role", "score_every_candidate"]

SHORTEST_QUOTE = 20
"""Characters from which a task's text inside a candidate is a quotation and no accident."""

CHUNK = 64
"""Tasks measured under the start, then under the final, before the next: a stop leaves whole pairs."""


def last_result(session: Session, role: str) -> AuditResult | None:
    """The recorded result of a sealed role, if it was opened."""
    found = [data for data in session.recorder.trail.get("audit", []) if data["role"] == role]
    return AuditResult.model_validate(found[-1]) if found else None


@dataclass(frozen=True, slots=True)
class Opener:
    """Who opens a sealed role, and how often its tasks were opened elsewhere."""

    by: str
    """The command line."""
    again: bool = False
    """Open it although it was opened before; recorded as such."""
    elsewhere: Callable[[str], int] = lambda _tasks_digest: 0
    """Number of other runs that opened the tasks of this digest."""


def open_sealed_role(session: Session, role: str, start: Candidate, final: Candidate, *, opener: Opener) -> AuditResult:
    """Open the role, measure start and final on the same tasks and seeds, record and return the paired result.

    A second opening raises `SetupError` with the recorded result, unless `again`; then the opening is recorded
    as one, and what was missing is measured again. An opening that was interrupted is continued, not counted twice.
    Where the final is the start, the gain is zero by identity and the role stays sealed.
    """
    earlier = last_result(session, role) if _openings(session, role) else None
    if earlier is not None and not opener.again:
        raise SetupError(
            f"the role {role!r} was opened before, and opened once means once. The recorded result: {earlier.sentence} "
            "To open it again, and have that recorded, add --again."
        )
    sealed = session.tasks.sealed[role]
    if start.digest == final.digest:
        result = audit_result(role, start, final, None, confidence=session.config.audit.confidence)
    else:
        tasks_digest = digest_of(dict(zip(sealed.ids, sealed.text_digests, strict=True)))
        interrupted = _interrupted(session, role) if earlier is None else None
        elsewhere = opener.elsewhere(tasks_digest) if interrupted is None else interrupted.elsewhere
        if interrupted is None:
            opening = AuditOpened(
                role=role,
                by=opener.by,
                again=opener.again,
                start=start.digest,
                final=final.digest,
                tasks_digest=tasks_digest,
                elsewhere=elsewhere,
            )
            session.recorder.add("audit.opened", opening)
        if opener.again:
            missing = [key for key, one in session.engine.recorded.items() if one.purpose == role and one.score is None]
            session.recorder.forget(missing)
        opened = session.tasks.open_role(role)
        comparison = _measure(session, opened, start, final)
        result = audit_result(
            role,
            start,
            final,
            comparison,
            confidence=session.config.audit.confidence,
            coverage=session.config.audit.coverage,
            notes=_notes(opened, (start, final), elsewhere=elsewhere),
        )
        families = by_family(
            comparison, [task.family for task in opened.tasks], confidence=session.config.audit.confidence
        )
        result = result.model_copy(update={"families": families})
    session.recorder.add("audit", result)
    return result


def score_every_candidate(session: Session, role: str, digests: Sequence[str]) -> tuple[RoleScored, ...]:
    """The silent gold channel: every candidate on a report role, after the last decision, so that none could read it.

    A budget that runs out ends the channel early; the candidates that are left have no record.
    """
    opened = session.tasks.open_role(role)
    scored = []
    for digest in digests:
        known = session.recorder.find("role.scored", f"{role}/{digest}", RoleScored)
        if known is None:
            sweep = Sweep(session.store.load(digest), opened.tasks, opened.name)
            try:
                scores = score_column(session.engine.evaluate(sweep, grade=opened.grade))
            except BudgetExhausted:
                break
            known = session.recorder.record(
                "role.scored",
                RoleScored(
                    role=role,
                    candidate=digest,
                    n_tasks=int((~np.isnan(scores)).sum()),
                    missing=int(np.isnan(scores).sum()),
                    mean=mean_score(scores[:, None]),
                ),
            )
        scored.append(known)
    return tuple(scored)


def _notes(opened: OpenRole, candidates: Sequence[Candidate], *, elsewhere: int) -> tuple[str, ...]:
    """What weakens the claim that no decision saw these tasks."""
    notes = []
    texts = [normalise_text(text) for candidate in candidates for text in candidate.files.values()]
    inputs = [normalise_text(task.input) for task in opened.tasks]
    seen = sum(len(one) >= SHORTEST_QUOTE and any(one in text for text in texts) for one in inputs)
    if seen:
        notes.append(f"{seen} of the {len(inputs)} tasks stand word for word in the start or the final candidate.")
    if elsewhere:
        runs = "another run has" if elsewhere == 1 else f"{elsewhere} other runs have"
        notes.append(f"{runs.capitalize()} opened the same tasks before: what was learned there is not unseen here.")
    return tuple(notes)


def _interrupted(session: Session, role: str) -> AuditOpened | None:
    """The opening that was recorded and has no result."""
    found = [data for data in session.recorder.trail.get("audit.opened", []) if data.get("role", "audit") == role]
    return AuditOpened.model_validate(found[-1]) if found else None


def _openings(session: Session, role: str) -> int:
    return sum(data.get("role", "audit") == role for data in session.recorder.trail.get("audit.opened", []))


def _measure(session: Session, opened: OpenRole, start: Candidate, final: Candidate) -> Comparison:
    repeats = range(session.config.audit.repeats)
    columns = [_paired(session, opened, (start, final), repeat=repeat) for repeat in repeats]
    return Comparison(
        tasks=tuple(task.id for task in opened.tasks),
        a=np.stack([a for a, _ in columns], axis=1),
        b=np.stack([b for _, b in columns], axis=1),
    )


def _paired(
    session: Session, opened: OpenRole, pair: tuple[Candidate, Candidate], *, repeat: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of both candidates; a budget that runs out leaves the rest not measured."""
    try:
        for begin in range(0, len(opened.tasks), CHUNK):
            for candidate in pair:
                chunk = opened.tasks[begin : begin + CHUNK]
                session.engine.evaluate(Sweep(candidate, chunk, opened.name, repeat), grade=opened.grade)
    except BudgetExhausted:
        pass
    a, b = (_known(session, Sweep(candidate, opened.tasks, opened.name, repeat)) for candidate in pair)
    return a, b


def _known(session: Session, sweep: Sweep) -> NDArray[np.float64]:
    outcomes = session.engine.known(sweep)
    scores = [None if outcome is None else outcome.score for outcome in outcomes]
    return np.array([np.nan if score is None else score for score in scores], dtype=np.float64)
