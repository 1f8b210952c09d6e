"""What `heldout run --json` puts on standard output; rates and gains are fractions of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from heldout.records import Record, Spend
from heldout.report.agent_json import AgentsJson, agents_json
from heldout.report.skill_json import SkillsJson, skills_json
from heldout.report.summary import End, RunSummary
from heldout.report.training_json import TrainingJson, training_json
from heldout.store.events import AuditResult

__all__ = ["AuditJson", "EndJson", "RunJson", "SpendJson", "run_json"]


class EndJson(Record):
    """The start or the final candidate."""

    digest: str
    select: float | None


class AuditJson(Record):
    """The audited gain."""

    n: int
    """Tasks measured on both sides; 0 where the final is the start: then nothing was measured, and the other fields are
    0 by identity."""
    gain: float | None
    """Final minus start; null where it could not be measured."""
    standard_error: float | None
    interval: tuple[float, float] | None


class SpendJson(Spend):
    """The total, and the same by purpose."""

    by_purpose: Mapping[str, Spend]


class RunJson(Record):
    """One object, whose keys are an interface: programs read them."""

    run: str
    loop: str
    status: str
    """`improved`, `unchanged` or `stopped` (`unfinished` where a run is shown before its end)."""
    stop_reason: str
    simulated: bool
    start: EndJson
    final: EndJson
    select_gain: float | None
    audit: AuditJson | None
    """null until the audit was opened."""
    overstatement: float | None
    """Select gain minus audited gain."""
    reports: Mapping[str, AuditJson] = {}
    """The same comparison on each report role, such as `ood`."""
    spend: SpendJson
    report: str | None
    """Path of the HTML report."""
    agents: AgentsJson | None = None
    """Rounds and probes of a loop over agents; null for other loops."""
    skills: SkillsJson | None = None
    """Learning, retention and rounds of a loop over skills; null for other loops."""
    training: TrainingJson | None = None
    """Rounds, models and budget of a loop over model weights; null for other loops."""


def run_json(summary: RunSummary, *, report: Path | None = None) -> RunJson:
    """The object; print its `model_dump_json()`."""
    return RunJson(
        run=summary.started.run,
        loop=summary.started.loop,
        status=summary.status,
        stop_reason=summary.stop_reason,
        simulated=summary.started.simulated,
        start=_end(summary.start),
        final=_end(summary.final),
        select_gain=summary.gains.believed,
        audit=None if summary.audit is None else _audit(summary.audit),
        overstatement=summary.gains.overstatement,
        reports={one.role: _audit(one) for one in summary.reports},
        spend=SpendJson(**dict(summary.total), by_purpose={row.purpose: row.spend for row in summary.ledger}),
        report=None if report is None else str(report),
        agents=None if summary.agents is None else agents_json(summary.agents, recorded_gain=summary.gains.recorded),
        skills=None if summary.skills is None else skills_json(summary, summary.skills),
        training=None if summary.training is None else training_json(summary, summary.training),
    )


def _end(end: End) -> EndJson:
    return EndJson(digest=end.digest, select=end.select.value)


def _audit(audit: AuditResult) -> AuditJson:
    return AuditJson(n=audit.n_tasks, gain=audit.gain, standard_error=audit.standard_error, interval=audit.interval)
