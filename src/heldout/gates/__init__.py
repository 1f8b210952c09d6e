"""Acceptance rules: pure functions of one generation's paired scores that return their evidence."""

from __future__ import annotations

from heldout.gates.base import Gate, GenerationTable
from heldout.gates.calibration import FalseAcceptRate, false_accept_rate, smallest_tables
from heldout.gates.catalog import GATES, make_gate
from heldout.gates.evidence import COVERAGE_FLOOR, Judgement, PairedGains, Winner, conclude
from heldout.gates.missing import decide, weigh_missing
from heldout.gates.rule import BestGainRule, Rule

__all__ = [
    "COVERAGE_FLOOR",
    "GATES",
    "BestGainRule",
    "FalseAcceptRate",
    "Gate",
    "GenerationTable",
    "Judgement",
    "PairedGains",
    "Rule",
    "Winner",
    "conclude",
    "decide",
    "false_accept_rate",
    "make_gate",
    "smallest_tables",
    "weigh_missing",
]
