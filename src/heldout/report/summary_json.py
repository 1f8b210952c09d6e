"""What `heldout run --json` puts on standard output; rates and gains are fractions of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from heldout.records import Record, Spend
from heldout.report.summary import End, RunSummary
from heldout.store.events import AuditResult

__all__ = ["AuditJson", "EndJson", "RunJson", "SpendJson", "run_json"]


class EndJson(Record):
    """The start or the final candidate."""

    digest: str
    select: float | None


class AuditJson(Record):
    """The audited gain."""

    n: int
    gain: float | None
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
    spend: SpendJson
    report: str | None
    """Path of the HTML report."""


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
        audit=_audit(summary.audit),
        overstatement=summary.gains.overstatement,
        spend=SpendJson(**dict(summary.total), by_purpose={row.purpose: row.spend for row in summary.ledger}),
        report=None if report is None else str(report),
    )


def _end(end: End) -> EndJson:
    return EndJson(digest=end.digest, select=end.select.value)


def _audit(audit: AuditResult | None) -> AuditJson | None:
    if audit is None:
        return None
    return AuditJson(n=audit.n_tasks, gain=audit.gain, standard_error=audit.standard_error, interval=audit.interval)
