"""What a run says to a person: one set of queries, a terminal summary, a JSON object and one HTML file."""

from heldout.report.agent_json import AgentsJson
from heldout.report.agent_page import AgentPage, MethodStep, gather_agents
from heldout.report.agent_terminal import agents_view
from heldout.report.candidate_files import CandidateFiles
from heldout.report.correction import modelled_overstatement
from heldout.report.diffs import DiffLine, FileDiff, LineKind, Span, diff_files
from heldout.report.failures import FailureRow, Failures, PredictionRow, failures, predictions
from heldout.report.fates import Fate
from heldout.report.history import CandidateRow, GenerationRow, candidates, generations, oracle_role
from heldout.report.html import render_page, write_report
from heldout.report.no_effect import NoEffect, no_effect
from heldout.report.page import Page, gather
from heldout.report.probe_use import ProbeUse, Refusal, probe_use, probes_by_kind, probes_by_round, refusals
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
from heldout.report.rounds import AgentHistory, AgentRound, agent_history
from heldout.report.skill_history import Chance, SkillHistory, skill_history
from heldout.report.skill_json import SkillsJson
from heldout.report.skill_page import SkillPage, gather_skills
from heldout.report.skill_rounds import SkillEdit, SkillRound
from heldout.report.skill_terminal import learning_view, skills_view
from heldout.report.skill_use import SkillUse, skill_use
from heldout.report.summary import RUNNING, End, Gains, RunSummary, summary
from heldout.report.summary_json import RunJson, run_json
from heldout.report.terminal import audit_view, gains_view, ledger_view, noise_view, print_summary, run_view, show
from heldout.report.training_budget import TrainingBudget, budget_of
from heldout.report.training_history import TrainingHistory, training_history
from heldout.report.training_json import TrainingJson
from heldout.report.training_page import TrainingPage, gather_training
from heldout.report.training_rounds import TrainingRound
from heldout.report.training_terminal import training_view
from heldout.report.untrusted import legible, one_line
from heldout.report.verdict import Verdict, verdict

__all__ = [
    "RUNNING",
    "AgentHistory",
    "AgentPage",
    "AgentRound",
    "AgentsJson",
    "CandidateFiles",
    "CandidateRow",
    "Chance",
    "DiffLine",
    "End",
    "FailureRow",
    "Failures",
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
    "MethodStep",
    "MissingReason",
    "NoEffect",
    "Page",
    "PredictionRow",
    "ProbeUse",
    "Refusal",
    "RunJson",
    "RunSummary",
    "SkillEdit",
    "SkillHistory",
    "SkillPage",
    "SkillRound",
    "SkillUse",
    "SkillsJson",
    "Span",
    "TrainingBudget",
    "TrainingHistory",
    "TrainingJson",
    "TrainingPage",
    "TrainingRound",
    "Verdict",
    "agent_history",
    "agents_view",
    "audit_view",
    "audits",
    "budget_of",
    "candidates",
    "diff_files",
    "failures",
    "flickering",
    "flips",
    "gains_view",
    "gather",
    "gather_agents",
    "gather_skills",
    "gather_training",
    "generations",
    "learning_view",
    "ledger_rows",
    "ledger_view",
    "legible",
    "means",
    "missing_reasons",
    "modelled_overstatement",
    "no_effect",
    "noise",
    "noise_view",
    "one_line",
    "oracle_role",
    "payloads",
    "predictions",
    "print_summary",
    "probe_use",
    "probes_by_kind",
    "probes_by_round",
    "refusals",
    "render_page",
    "role_scores",
    "run_json",
    "run_view",
    "show",
    "skill_history",
    "skill_use",
    "skills_view",
    "summary",
    "training_history",
    "training_view",
    "verdict",
    "write_report",
]
