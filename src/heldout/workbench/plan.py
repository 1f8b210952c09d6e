"""What a run will do at most, and what a budget buys of it, before anything is spent."""

from __future__ import annotations

from heldout.config import RunConfig
from heldout.loops import SKILL_LOOPS
from heldout.loops.agents.options import VerseOptions
from heldout.loops.weights.options import ImproveOptions
from heldout.options import read_options
from heldout.records import Record
from heldout.workbench.skill_plan import skill_bounds

__all__ = ["Plan", "plan"]

RUNS_PER_UNIT = 3
"""A draft on a failing task, its confirmation, and a share of the canary."""

REPLAYS_PER_TRACE = 6
"""Two suggestions, three suffixes, the whole list."""


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
    train_sweeps: int = 0
    """Loops over agents and weights: the train role under the start and every kept candidate."""
    attribution: int = 0
    """Replays of the trace minimiser; most traces take fewer."""
    probes: int = 0
    """Units of the pools, with their second runs and canaries."""
    screens: int = 0
    """Loops over agents: train tasks for the choice among drafts; over weights: answers of short trainings."""
    trials: int = 0
    """Short episodes of the mechanical checks."""
    final: int = 0
    """Fresh sweeps of the finalists."""
    method_audit: int = 0
    """One more round under the start method, and one under the final method."""
    retention: int = 0
    """Loops over skills: no skill, the start and the final on train, and no skill on audit."""
    proposals: int
    total: int
    affordable_proposals: int | None
    """Proposals that `budget.evaluations` buys, with one pass over train; None without that limit."""


def plan(config: RunConfig) -> Plan:
    """Count the evaluations of a run from its config alone."""
    if config.loop == "verse":
        return _agent_plan(config)
    if config.loop == "improve_any_task":
        return _training_plan(config)
    return _skill_plan(config) if config.loop in SKILL_LOOPS else _candidate_plan(config)


def _training_plan(config: RunConfig) -> Plan:
    """At most: every round trains, and its child is the next round's head; the first recipe is trained twice."""
    options = read_options(ImproveOptions, config.options, where=f"the loop {config.loop!r}")
    tasks, rounds = config.tasks, config.search.generations
    repeats = config.gate.repeats if config.gate.kind == "repeats" else 1
    per_proposal = (tasks.select if options.decide_on == "select" else tasks.train) * repeats
    children = rounds + options.training_noise
    floor = 0 if options.retain.floor is None else tasks.reports.get(options.retain.role, 0) * (children + 1)
    answers = options.preflight.answers * (1 + options.preflight.repairs) if options.preflight.enabled else 0
    parts = {
        "start": tasks.select * repeats,
        "noise": min(config.noise.tasks, tasks.select),
        "audit": 2 * tasks.audit * config.audit.repeats,
        "reports": _reports(config, rounds) + floor,
        "train_sweeps": tasks.train * rounds,
        "screens": answers * rounds,
        "final": 3 * tasks.select,
    }
    return Plan(
        **parts,
        per_proposal=per_proposal,
        feedback_per_generation=tasks.train,
        pilot=0,
        confirmation=0,
        proposals=rounds,
        total=sum(parts.values()) + children * per_proposal,
        affordable_proposals=None,
    )


def _skill_plan(config: RunConfig) -> Plan:
    """The bounds of the loop's own search, and what every loop over skills does around it."""
    bounds, tasks = skill_bounds(config), config.tasks
    audited = tasks.audit * config.audit.repeats
    parts = {
        "start": tasks.select,
        "noise": min(config.noise.tasks, tasks.select),
        "audit": 2 * audited,
        "reports": _reports(config, bounds.proposals),
        "final": 2 * tasks.select,
        "retention": 3 * tasks.train + audited if bounds.retention else 0,
    }
    fixed = sum(parts.values())
    limit = config.budget.evaluations
    affordable = None if limit is None else max(0, min(bounds.proposals, (limit - fixed) // bounds.per_round))
    return Plan(
        **parts,
        per_proposal=bounds.per_proposal,
        feedback_per_generation=bounds.batch,
        pilot=0,
        confirmation=bounds.confirmation,
        proposals=bounds.proposals,
        total=fixed + bounds.search,
        affordable_proposals=affordable,
    )


def _agent_plan(config: RunConfig) -> Plan:
    """At most: every round kept, every unit spent on a draft that is confirmed, every select task a flip."""
    options = read_options(VerseOptions, config.options, where=f"the loop {config.loop!r}")
    search, tasks, probe, attribute = config.search, config.tasks, options.probe, options.attribute
    rounds, full = search.generations, probe.verify == "full"
    units = probe.units * search.candidates if probe.verify != "none" else 0
    screens = (search.candidates + options.screen.rerun_base) * options.screen.tasks
    trials = options.smoke.attempts
    one_round = units * RUNS_PER_UNIT + screens + trials + 2 * tasks.select
    audited = options.method.audit and options.method.self_edit
    parts = {
        "start": tasks.select,
        "noise": min(config.noise.tasks, tasks.select),
        "per_proposal": options.screen.tasks,
        "feedback_per_generation": 0,
        "pilot": 0,
        "confirmation": 2 * tasks.select * rounds,
        "audit": 2 * tasks.audit * config.audit.repeats,
        "reports": _reports(config, rounds * search.candidates),
        "train_sweeps": tasks.train * (1 + rounds),
        "attribution": (attribute.failures + attribute.successes) * REPLAYS_PER_TRACE * rounds if full else 0,
        "probes": units * RUNS_PER_UNIT * rounds,
        "screens": screens * rounds,
        "trials": trials * rounds,
        "final": tasks.select * (options.final.top + 1),
        "method_audit": 2 * one_round if audited else 0,
    }
    total = sum(value for name, value in parts.items() if name != "per_proposal")
    return Plan(**parts, proposals=rounds * search.candidates, total=total, affordable_proposals=None)


def _candidate_plan(config: RunConfig) -> Plan:
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
