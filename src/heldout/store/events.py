"""What the journal's events carry, one frozen record per kind. `Outcome`, `Proposal` and `Decision` are in records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from heldout.records import Decision, Outcome, Record, Spend
from heldout.store.agent_events import AGENT_PAYLOADS
from heldout.store.skill_events import SKILL_PAYLOADS
from heldout.store.training_events import TRAINING_PAYLOADS

__all__ = [
    "PAYLOADS",
    "AuditOpened",
    "AuditResult",
    "CandidateAdded",
    "Decided",
    "Event",
    "FamilyResult",
    "GateCalibration",
    "GenerationStarted",
    "NoiseEstimated",
    "NoiseMeasured",
    "Prepared",
    "Proposed",
    "RoleScored",
    "RunFinished",
    "RunResumed",
    "RunStarted",
    "SplitMade",
    "TrackMoved",
]


class Event(Record):
    """One line of the journal."""

    seq: int
    """From 0, without gaps."""
    at: float
    """Unix seconds."""
    kind: str
    data: Mapping[str, Any]


class RunStarted(Record):
    """kind `run.started`: the first event of every run."""

    run: str
    loop: str
    config_digest: str
    heldout: str
    """Version that wrote the run."""
    command: str
    """The command line that repeats it."""
    simulated: bool
    """Whether the solver is a simulation."""
    solver: str
    """Name of the solver's model."""
    improver: str
    description: str
    """What the tasks ask for."""
    source: str
    unpriced: tuple[str, ...] = ()
    """Served models without an entry in `budget.prices`: their dollars are counted as 0."""
    simulated_improver: bool = False
    """Whether proposals come from a simulation of an improver, whatever solves the tasks."""


class RunResumed(Record):
    """kind `run.resumed`."""

    events: int
    """Events that the journal held."""
    dropped: str = ""
    """What a torn last line held, if one was dropped."""


class SplitMade(Record):
    """kind `split`: how tasks were divided; bodies are not in it."""

    roles: Mapping[str, int]
    """Role to number of tasks."""
    digest: str
    """Digest of ids and text hashes of every role (the plan)."""
    dropped: int = 0
    """Duplicates that were dropped, exact and near."""


class GateCalibration(Record):
    """One gate at this n: how often it accepts a candidate that is no better."""

    gate: str
    false_accept_rate: float
    standard_error: float
    smallest_table: str = ""
    """Smallest wins-losses tables that commit, for example `5-0, 7-1`; empty where it depends on more."""


class NoiseMeasured(Record):
    """kind `noise.measured`: the start against itself."""

    n_tasks: int
    """Tasks evaluated twice."""
    missing: int = 0
    flip_rate: float | None
    expected_flips: float | None
    """At the size of the select role."""
    disagreement: float
    """Share of tasks on which an equally good candidate is taken to differ."""
    disagreement_source: str
    """`measured` or `assumed`."""
    select_tasks: int
    candidates: int
    gates: tuple[GateCalibration, ...] = ()
    audit_standard_error: float
    """Of the audit's gain at its size and this disagreement, for no true change."""


class CandidateAdded(Record):
    """kind `candidate`: a candidate entered the lineage; its files lie in `blobs/<digest>/`."""

    digest: str
    parent: str | None
    track: str = "instruction"
    generation: int
    index: int
    note: str = ""


class Proposed(Record):
    """kind `proposal`: what an improver returned."""

    generation: int
    index: int
    digest: str | None
    """None for an invalid proposal or none at all."""
    note: str = ""
    error: str | None = None
    duplicate_of: str | None = None
    """Digest that was already known."""
    unanswered: bool = False
    """The improver's model did not answer; asked again on resume where no decision has rested on it."""
    spend: Spend = Spend()


class Prepared(Record):
    """kind `prepared`: a harness's one-off measurement of a candidate, or (purpose `check`) the first request that
    each opening of a run sends to a model."""

    key: str
    purpose: str
    values: Mapping[str, float]
    spend: Spend


class GenerationStarted(Record):
    """kind `generation.started`."""

    generation: int
    incumbent: str
    failures: tuple[str, ...] = ()
    """Ids of the train failures shown to the improver."""


class NoiseEstimated(Record):
    """kind `noise.estimated`: variance components of a generation, in fractions of one."""

    generation: int
    n: int
    mu: float
    s: float
    """Standard deviation of true gains within the generation."""
    sigma: float
    """Standard deviation of each measured gain's own noise."""
    sigma0: float
    """Standard deviation of the noise that all candidates of a generation share."""
    lam: float
    """s² / (s² + sigma²): the share of the spread that is real."""
    s_cut: float = 0.0
    """What was cut from s² because it fell below zero; pooling adds it back (see `VarianceComponents`)."""
    sigma0_cut: float = 0.0
    expected_overstatement: float
    """P1: c_K sigma² / sqrt(s² + sigma²)."""


class Decided(Record):
    """kind `decision`."""

    generation: int
    incumbent: str
    candidates: tuple[str, ...]
    """Digests, in the order of the table."""
    incumbent_score: float | None
    scores: tuple[float | None, ...]
    """Mean select score of each candidate."""
    winner: str | None
    decision: Decision


class TrackMoved(Record):
    """kind `track.moved`: the only way in which a head changes."""

    track: str
    origin: str
    target: str
    generation: int
    why: str


class AuditOpened(Record):
    """kind `audit.opened`: written before the first audit task is read."""

    role: str = "audit"
    by: str
    """The command that opened it."""
    again: bool = False
    start: str
    final: str
    tasks_digest: str = ""
    """Identity of the opened tasks, by which other runs that opened the same ones are found."""
    elsewhere: int = 0
    """Runs beside this one that had opened the same tasks before."""


class FamilyResult(Record):
    """Start against final, paired, on the tasks of one family."""

    family: str
    n_tasks: int
    """Tasks measured on both sides."""
    missing: int = 0
    start_mean: float | None
    final_mean: float | None
    gain: float | None
    interval: tuple[float, float] | None


class AuditResult(Record):
    """kind `audit`: start against final, paired. Gains are fractions of one."""

    role: str
    start: str
    final: str
    n_tasks: int
    """Tasks measured on both sides."""
    missing: int
    start_mean: float | None
    final_mean: float | None
    gain: float | None
    standard_error: float | None
    interval: tuple[float, float] | None
    confidence: float
    fixed: float
    broken: float
    both: float
    neither: float
    p_value: float | None
    verdict: str
    """`improved`, `worse`, `undecided` or `unchanged`."""
    sentence: str
    """The verdict in plain words."""
    notes: tuple[str, ...] = ()
    """What else a reader must know: tasks that stand in a candidate, other runs that opened them."""
    tasks_to_decide: int | None = None
    """Audit tasks that would decide, at this gain and disagreement."""
    families: tuple[FamilyResult, ...] = ()
    """The same by family, in the order of their names; none where the tasks have fewer than two, or very many."""


class RoleScored(Record):
    """kind `role.scored`: one candidate's mean on a report role, scored after the last decision."""

    role: str
    candidate: str
    n_tasks: int
    missing: int
    mean: float | None


class RunFinished(Record):
    """kind `run.finished`: the search is over; the audit may follow."""

    status: str
    """`improved`, `unchanged` or `stopped`."""
    stop_reason: str
    start: str
    final: str
    start_select: float | None
    final_select: float | None
    select_gain: float | None = None
    """Mean paired difference on select, over the tasks that both were measured on."""
    elapsed_s: float = Field(ge=0.0)


PAYLOADS: Mapping[str, type[Record]] = {
    "run.started": RunStarted,
    "run.resumed": RunResumed,
    "split": SplitMade,
    "noise.measured": NoiseMeasured,
    "candidate": CandidateAdded,
    "proposal": Proposed,
    "prepared": Prepared,
    "outcome": Outcome,
    "generation.started": GenerationStarted,
    "noise.estimated": NoiseEstimated,
    "decision": Decided,
    "track.moved": TrackMoved,
    "audit.opened": AuditOpened,
    "audit": AuditResult,
    "role.scored": RoleScored,
    "run.finished": RunFinished,
    **AGENT_PAYLOADS,
    **SKILL_PAYLOADS,
    **TRAINING_PAYLOADS,
}
"""Kind of event to the record that its data validates against."""
