"""What a run will do at most, and what a budget buys of it, before anything is spent."""

from __future__ import annotations

from heldout.config import RunConfig
from heldout.records import Record

__all__ = ["Plan", "plan"]


class Plan(Record):
    """Upper bounds, in evaluations; rejected and repeated proposals cost less."""

    start: int
    noise: int
    per_proposal: int
    feedback_per_generation: int
    """Train tasks that may be needed to find failures."""
    pilot: int
    confirmation: int
    audit: int
    reports: int
    """Report roles under start and final, and the oracle over every candidate."""
    proposals: int
    total: int
    affordable_proposals: int | None
    """Proposals that `budget.evaluations` buys, with one pass over train; None without that limit."""


def plan(config: RunConfig) -> Plan:
    """Count the evaluations of a run from its config alone."""
    search, gate, tasks = config.search, config.gate, config.tasks
    repeats = gate.repeats if gate.kind == "repeats" else 1
    per_proposal = tasks.select * repeats
    incumbents = search.generations if search.rerun_incumbent else 0
    proposals = search.generations * search.candidates
    pilot = gate.kind == "bayes_pilot" and gate.prior is None
    parts = {
        "start": per_proposal * (1 + incumbents),
        "noise": min(config.noise.tasks, tasks.select),
        "per_proposal": per_proposal,
        "feedback_per_generation": tasks.train,
        "pilot": gate.pilot_tasks * (1 + gate.pilot_candidates) if pilot else 0,
        "confirmation": 2 * gate.fresh * search.generations if gate.kind == "fresh" else 0,
        "audit": 2 * tasks.audit * config.audit.repeats,
        "reports": _reports(config, proposals),
        "proposals": proposals,
    }
    fixed = sum(parts[name] for name in ("start", "noise", "pilot", "confirmation", "audit", "reports"))
    # An incumbent's train outcomes are cached: one pass is the common case, one for each generation the worst.
    limit = config.budget.evaluations
    affordable = None if limit is None else max(0, min(proposals, (limit - fixed - tasks.train) // per_proposal))
    total = fixed + tasks.train * search.generations + proposals * per_proposal
    return Plan(**parts, total=total, affordable_proposals=affordable)


def _reports(config: RunConfig, proposals: int) -> int:
    oracle = config.audit.oracle
    paired = sum(2 * config.audit.repeats * n for role, n in config.tasks.reports.items() if role != oracle)
    return paired + (config.tasks.reports.get(oracle, 0) * (1 + proposals) if oracle is not None else 0)
