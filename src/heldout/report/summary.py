"""The whole run in one object: where it started, where it ended, and what of the gain is real."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from heldout.errors import StoreError
from heldout.records import Spend
from heldout.report.correction import modelled_overstatement
from heldout.report.queries import (
    SELECT,
    LedgerRow,
    Mean,
    Means,
    audits,
    finished,
    ledger_rows,
    means,
    noise,
    payloads,
)
from heldout.report.rounds import AgentHistory, agent_history
from heldout.report.skill_history import SkillHistory, skill_history
from heldout.report.training_history import TrainingHistory, training_history
from heldout.store.agent_events import FinalSelected
from heldout.store.events import (
    AuditOpened,
    AuditResult,
    CandidateAdded,
    Decided,
    NoiseEstimated,
    NoiseMeasured,
    RunFinished,
    RunResumed,
    RunStarted,
    SplitMade,
    TrackMoved,
)

__all__ = ["AUDIT", "RUNNING", "End", "Gains", "RunSummary", "summary"]

AUDIT = "audit"
"""The role that is opened once."""

FRESH = "final"
"""Purpose of the fresh sweeps that finalists are compared by, in loops that have them."""

RUNNING = "unfinished"
"""Status of a run that has not finished, or was killed."""


@dataclass(frozen=True, slots=True)
class End:
    """The start or the final candidate, with its select score."""

    digest: str
    select: Mean


@dataclass(frozen=True, slots=True)
class Gains:
    """Final minus start, in fractions of one; None where it was not measured."""

    believed: float | None
    """On the select role: what the loop itself saw."""
    modelled_overstatement: float | None
    """What the noise model expects the accepted steps to overstate (a model, not a measurement)."""
    audited: float | None
    """On tasks that no decision saw."""
    recorded: float | None = None
    """Loops that measure their finalists anew: what the final's select score had been when it was kept."""

    @property
    def corrected(self) -> float | None:
        """Believed minus modelled overstatement; label it *model*."""
        return _minus(self.believed, self.modelled_overstatement)

    @property
    def overstatement(self) -> float | None:
        """Believed minus audited."""
        return _minus(self.believed, self.audited)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a terminal, a page, `show` and `runs` say about a run."""

    started: RunStarted
    """Name, loop, solver, improver, source, command, version, config digest, and whether it is a simulation."""
    finished: RunFinished | None
    """The end of the search; None while it goes on, or where it was killed."""
    start: End
    final: End
    gains: Gains
    audit: AuditResult | None
    """The first result for this start and final, which is the only one that was one-shot."""
    reports: tuple[AuditResult, ...]
    """The same comparison on each report role (`gold`, `test`, `ood`, …), in the order of their names."""
    audit_openings: int
    gate: str
    """Name of the acceptance rule; empty before the first decision."""
    split: SplitMade | None
    noise: NoiseMeasured | None
    ledger: tuple[LedgerRow, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know of the run: lines that were lost, models without a price, an audit opened elsewhere."""
    agents: AgentHistory | None = None
    """Rounds, probes and the final selection of a loop over agents; None for other loops."""
    skills: SkillHistory | None = None
    """Rounds, retention and the final selection of a loop over skills; None for other loops."""
    training: TrainingHistory | None = None
    """Rounds, models and the final selection of a loop over model weights; None for other loops."""

    @property
    def status(self) -> str:
        """`improved`, `unchanged`, `stopped` or `unfinished`."""
        return self.finished.status if self.finished else RUNNING

    @property
    def stop_reason(self) -> str:
        """Why the search ended; empty while it goes on."""
        return self.finished.stop_reason if self.finished else ""

    @property
    def elapsed_s(self) -> float | None:
        """How long the search took."""
        return self.finished.elapsed_s if self.finished else None

    @property
    def total(self) -> Spend:
        """Everything that was paid for."""
        return sum((row.spend for row in self.ledger), start=Spend())


def summary(connection: sqlite3.Connection, *, known: Means | None = None) -> RunSummary:
    """Sum a run up at any moment of its life; `known` saves reading the means again."""
    started = payloads(connection, RunStarted)
    if not started:
        raise StoreError("this run has no `run.started` event: nothing was recorded before it stopped")
    agents = agent_history(connection)
    found = means(connection) if known is None else known
    training = None if agents is not None else training_history(connection, known=found)
    skills = None if agents is not None or training is not None else skill_history(connection)
    told = agents or training or skills
    if agents is not None:
        found = agents.with_confirmed(found)
    elif training is not None:
        found = training.with_decided(found)
    elif skills is not None:
        found = skills.with_decided(found)
    if told is not None:
        found = _as_compared(found, told.selected)
    ended = finished(connection)
    start, final = _ends(connection, ended, found=found)
    results = _results(connection, start=start.digest, final=final.digest)
    audit = results.pop(AUDIT, None)
    decisions = payloads(connection, Decided)
    believed = _minus(final.select.value, start.select.value)
    if ended is not None and ended.select_gain is not None:
        believed = ended.select_gain  # paired; it differs from the means only where tasks are missing
    # The model is of heads that were chosen for their score; loops with rounds measure their finalists anew.
    estimates = payloads(connection, NoiseEstimated)
    modelled = modelled_overstatement(decisions, estimates) if told is None else None
    recorded = None if told is None else told.recorded_gain(start.digest, final.digest)
    splits = payloads(connection, SplitMade)
    return RunSummary(
        started=started[0],
        finished=ended,
        start=start,
        final=final,
        gains=Gains(believed, modelled, audit.gain if audit else None, recorded),
        audit=audit,
        reports=tuple(results[role] for role in sorted(results)),
        audit_openings=sum(opened.role == AUDIT for opened in payloads(connection, AuditOpened)),
        gate=decisions[-1].decision.gate if decisions else "",
        split=splits[-1] if splits else None,
        noise=noise(connection),
        ledger=ledger_rows(connection),
        notes=_notes(connection, started[0], audit, training),
        agents=agents,
        skills=skills,
        training=training,
    )


def _as_compared(found: Means, selected: FinalSelected | None) -> Means:
    """The means with the scores that the final selection compared in place of the finalists' select scores."""
    compared = dict(found)
    for one in selected.finalists if selected else ():
        fresh = found.get((FRESH, one.digest), found.get((SELECT, one.digest)))
        if fresh is not None and one.score is not None:
            compared[SELECT, one.digest] = replace(fresh, value=one.score, standard_error=None)
    return compared


def _notes(
    connection: sqlite3.Connection, started: RunStarted, audit: AuditResult | None, training: TrainingHistory | None
) -> tuple[str, ...]:
    notes = list(audit.notes) if audit else []
    if training is not None and training.floor is not None:
        notes.append(training.floor.sentence)
    if training is not None and training.decides_on != "select":
        notes.append("The tasks that are diagnosed decide too (options.decide_on): believed gains are of those tasks.")
    if training is not None and training.trusted is not None and training.trusted.changed:
        notes.append(training.trusted.sentence)
    if started.simulated_improver and not started.simulated:
        notes.append(
            f"SIMULATION: the improver {started.improver} simulates one; its edits were drawn, and written by no model."
        )
    notes += [f"{name} has no price in budget.prices: its dollars are counted as 0." for name in started.unpriced]
    torn = sum(bool(resumed.dropped) for resumed in payloads(connection, RunResumed))
    if torn:
        lines = "line was" if torn == 1 else "lines were"
        notes.append(f"{torn} torn last {lines} dropped from the journal on resume; that work was done again.")
    return tuple(notes)


def _ends(connection: sqlite3.Connection, ended: RunFinished | None, *, found: Means) -> tuple[End, End]:
    if ended:
        return (
            _end(ended.start, found, recorded=ended.start_select),
            _end(ended.final, found, recorded=ended.final_select),
        )
    added = payloads(connection, CandidateAdded)
    first = next((candidate for candidate in added if candidate.parent is None), None)
    start, track = ("", "") if first is None else (first.digest, first.track)
    moves = [moved for moved in payloads(connection, TrackMoved) if moved.track == track]
    return _end(start, found), _end(moves[-1].target if moves else start, found)


def _results(connection: sqlite3.Connection, *, start: str, final: str) -> dict[str, AuditResult]:
    """The first result of each role for these ends.

    A run that stopped at its start has a result of no gain; once it was resumed, that says nothing of its final.
    """
    found: dict[str, AuditResult] = {}
    for one in audits(connection):
        if (one.start, one.final) == (start, final):
            found.setdefault(one.role, one)
    return found


def _end(digest: str, found: Means, *, recorded: float | None = None) -> End:
    # A loop without a select role has no rows to average: then what it recorded is all there is.
    return End(digest, found.get((SELECT, digest), Mean(n=0, missing=0, value=recorded)))


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
