"""What a run says to a person: one set of queries, a terminal summary, a JSON object and one HTML file."""

from heldout.report.correction import modelled_overstatement
from heldout.report.diffs import DiffLine, FileDiff, LineKind, Span, diff_files
from heldout.report.history import CandidateRow, Fate, GenerationRow, candidates, generations, oracle_role
from heldout.report.html import render_page, write_report
from heldout.report.page import Page, gather
from heldout.report.queries import (
    Flicker,
    Flips,
    LedgerRow,
    Mean,
    Means,
    MissingReason,
    audits,
    flickering,
    flips,
    ledger_rows,
    means,
    missing_reasons,
    noise,
    payloads,
    role_scores,
)
from heldout.report.summary import RUNNING, End, Gains, RunSummary, summary
from heldout.report.summary_json import RunJson, run_json
from heldout.report.terminal import audit_view, gains_view, ledger_view, noise_view, print_summary, run_view, show
from heldout.report.verdict import Verdict, verdict

__all__ = [
    "RUNNING",
    "CandidateRow",
    "DiffLine",
    "End",
    "Fate",
    "FileDiff",
    "Flicker",
    "Flips",
    "Gains",
    "GenerationRow",
    "LedgerRow",
    "LineKind",
    "Mean",
    "Means",
    "MissingReason",
    "Page",
    "RunJson",
    "RunSummary",
    "Span",
    "Verdict",
    "audit_view",
    "audits",
    "candidates",
    "diff_files",
    "flickering",
    "flips",
    "gains_view",
    "gather",
    "generations",
    "ledger_rows",
    "ledger_view",
    "means",
    "missing_reasons",
    "modelled_overstatement",
    "noise",
    "noise_view",
    "oracle_role",
    "payloads",
    "print_summary",
    "render_page",
    "role_scores",
    "run_json",
    "run_view",
    "show",
    "summary",
    "verdict",
    "write_report",
]
