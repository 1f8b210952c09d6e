"""Audits: start against final on sealed tasks, and other tools' outcome files."""

from heldout.audit.compare import CompareResult, compare_outcomes
from heldout.audit.opening import Opener, last_result, open_sealed_role, score_every_candidate
from heldout.audit.outcome_files import OutcomeFile, OutcomeFormat, pair, read_outcomes
from heldout.audit.retention import measure_retention
from heldout.audit.verdict import audit_result, in_points

__all__ = [
    "CompareResult",
    "Opener",
    "OutcomeFile",
    "OutcomeFormat",
    "audit_result",
    "compare_outcomes",
    "in_points",
    "last_result",
    "measure_retention",
    "open_sealed_role",
    "pair",
    "read_outcomes",
    "score_every_candidate",
]
