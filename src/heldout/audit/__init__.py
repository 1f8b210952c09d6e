"""Audits: start against final on sealed tasks, and other tools' outcome files."""

from heldout.audit.compare import CompareResult, compare_outcomes
from heldout.audit.opening import last_result, open_sealed_role, score_every_candidate
from heldout.audit.verdict import audit_result, in_points

__all__ = [
    "CompareResult",
    "audit_result",
    "compare_outcomes",
    "in_points",
    "last_result",
    "open_sealed_role",
    "score_every_candidate",
]
