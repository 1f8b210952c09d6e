"""Whether a judge of texts puts them in the order in which test scores do."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from heldout.report.queries import means, payloads, role_scores
from heldout.stats import pair_agreement, spearman
from heldout.store.skill_events import Judged

__all__ = ["judge_agreement"]

_AUDIT = "audit"


def judge_agreement(connection: sqlite3.Connection) -> str:
    """In words; empty where fewer than two texts have both. The scores are those of the role that every candidate was
    scored on (`audit.oracle`), else of audit, which measures the start and the final alone."""
    totals = {one.candidate: one.total for one in payloads(connection, Judged) if one.total is not None}
    role, scores = _test_scores(connection)
    both = [digest for digest in totals if digest in scores]
    if len(both) < 2:
        return ""
    first, second = [totals[one] for one in both], [scores[one] for one in both]
    found, rank = pair_agreement(first, second), spearman(first, second) if len(both) > 2 else None
    pairs = "1 pair" if found.pairs == 1 else f"{found.pairs} pairs"
    words = (
        f"Of {pairs} of texts the judge puts {found.agree} in the order of the scores on {role}, {found.disagree} the "
        f"other way round, and {found.ties} are ties"
    )
    return f"{words}." if rank is None else f"{words}; rank correlation {rank:+.2f}."


def _test_scores(connection: sqlite3.Connection) -> tuple[str, Mapping[str, float]]:
    scored = [one for one in role_scores(connection) if one.mean is not None]
    roles = [one.role for one in scored]
    role = max(sorted(set(roles)), key=roles.count, default=None)
    if role is not None:
        return role, {one.candidate: one.mean for one in scored if one.role == role and one.mean is not None}
    known = means(connection).items()
    return _AUDIT, {digest: one.value for (name, digest), one in known if name == _AUDIT and one.value is not None}
