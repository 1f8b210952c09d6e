"""Retention: no skill, the start and the final on train and on the opened audit role, after the last decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from heldout.audit.opening import last_result
from heldout.loops import Session, score_column
from heldout.records import Candidate, Task
from heldout.rollouts import Sweep
from heldout.rollouts.engine import Grade
from heldout.skills import NO_SKILL as NO_SKILL_FILES
from heldout.stats import RetentionEstimate, RoleScores, retention_of, retention_refusal, robust_label
from heldout.store.skill_events import ArmRetention, Retention

__all__ = ["measure_retention"]

NO_SKILL = Candidate(files=NO_SKILL_FILES)
"""The arm that gains are counted from."""

TRAIN_REPEAT = 2_000_000
"""Repeat, and so the seeds, of the train sweeps: no round used them, and scores that drove a search overstate."""

ROLE = "audit"

KIND = "retention"
"""Of the event, and the purpose of the train sweeps."""


def measure_retention(session: Session, start: Candidate, final: Candidate, *, again: bool = False) -> Retention | None:
    """Gains over no skill of the start and the final on train and on audit, paired over tasks, with what is kept.

    Recorded once; `again` measures what was missing anew, and records what that changes. Refused with the reason where
    audit stayed sealed, or an arm is missing or hardly measured (`audit.coverage`). `BudgetExhausted` passes through:
    what is paid for is kept, and a later call goes on. None where nothing can be said yet, since audit was not opened.
    """
    known = session.recorder.find(KIND, ROLE, Retention)
    if known is not None and not again:
        return known
    if start.digest == final.digest:
        return _kept(session, _refusal("the final is the start, so that audit stays sealed"), known)
    if last_result(session, ROLE) is None:
        return None
    if again:
        session.recorder.forget(_missing(session))
    session.store.save(NO_SKILL)
    opened = session.tasks.open_role(ROLE)
    arms = {"none": NO_SKILL, "start": start, "final": final}
    train = session.tasks.train
    on_train = {
        name: _scores(session, one, train, session.tasks.grade, purpose=KIND, first=TRAIN_REPEAT)
        for name, one in arms.items()
    }
    on_audit = {
        name: _scores(session, one, opened.tasks, opened.grade, purpose=ROLE, repeats=session.config.audit.repeats)
        for name, one in arms.items()
    }
    families = [task.family for task in train], [task.family for task in opened.tasks]
    return _kept(session, _retention(session, arms, on_train, on_audit, families), known)


def _missing(session: Session) -> list[str]:
    """Outcome keys; those of audit itself are the business of who opens it."""
    return [key for key, one in session.engine.recorded.items() if one.purpose == KIND and one.score is None]


def _kept(session: Session, found: Retention, known: Retention | None) -> Retention:
    """On record, in place of what was recorded before, if that is another."""
    if found == known:
        return found
    if known is not None:
        session.recorder.reopen(KIND, ROLE)
    return session.recorder.record(KIND, found)


def _scores(
    session: Session,
    candidate: Candidate,
    tasks: Sequence[Task],
    grade: Grade,
    *,
    purpose: str,
    first: int = 0,
    repeats: int = 1,
) -> NDArray[np.float64]:
    """Shape (tasks, repeats), NaN where not measured."""
    sweeps = [Sweep(candidate, tasks, purpose, repeat) for repeat in range(first, first + repeats)]
    return np.stack([score_column(session.engine.evaluate(sweep, grade=grade)) for sweep in sweeps], axis=1)


def _retention(
    session: Session,
    arms: dict[str, Candidate],
    on_train: dict[str, NDArray[np.float64]],
    on_audit: dict[str, NDArray[np.float64]],
    families: tuple[list[str], list[str]],
) -> Retention:
    found: dict[str, RetentionEstimate] = {}
    confidence, coverage = session.config.audit.confidence, session.config.audit.coverage
    seed = session.config.seed
    for name in ("start", "final"):
        train = RoleScores(on_train["none"], on_train[name], families[0])
        audit = RoleScores(on_audit["none"], on_audit[name], families[1])
        refusal = retention_refusal(train, audit, coverage=coverage)
        if refusal:
            return _refusal(refusal)
        one = retention_of(train, audit, confidence=confidence, seed=seed)
        found[name] = replace(one, label=robust_label(one, train, audit, seed=seed))
    final = found["final"]
    return Retention(
        none=NO_SKILL.digest,
        n_train=final.n_train,
        n_audit=final.n_audit,
        none_train=final.none_train,
        none_audit=final.none_audit,
        arms=tuple(_arm(name, arms[name], one) for name, one in found.items()),
        confidence=confidence,
    )


def _arm(name: str, candidate: Candidate, found: RetentionEstimate) -> ArmRetention:
    return ArmRetention(
        arm=name,
        candidate=candidate.digest,
        train_gain=found.train_gain,
        train_interval=found.train_interval,
        audit_gain=found.audit_gain,
        audit_interval=found.audit_interval,
        retention=found.retention,
        retention_interval=found.retention_interval,
        verdict=found.label.value,
    )


def _refusal(why: str) -> Retention:
    return Retention(none=NO_SKILL.digest, n_train=0, n_audit=0, none_train=None, none_audit=None, arms=(), refused=why)
