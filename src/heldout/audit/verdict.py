"""From a paired table to a result in numbers and in plain words."""

from __future__ import annotations

import numpy as np

from heldout.records import Candidate, Comparison
from heldout.stats import mcnemar_exact, paired_counts, paired_difference, tasks_to_decide
from heldout.store.events import AuditResult

__all__ = ["audit_result", "in_points"]


def audit_result(
    role: str,
    start: Candidate,
    final: Candidate,
    table: Comparison | None,
    *,
    confidence: float,
    coverage: float = 0.0,
) -> AuditResult:
    """The audit of `final` (side b) against `start` (side a); `table` is None where both are the same candidate."""
    if table is None:
        return _unchanged(role, start, final, confidence)
    counts = paired_counts(table.a, table.b)
    difference = paired_difference(table.a, table.b, confidence=confidence)
    covered = counts.n / len(table.tasks)
    verdict = "undecided"
    if difference.interval is not None and covered >= coverage:
        low, high = difference.interval
        verdict = "improved" if low > 0 else "worse" if high < 0 else "undecided"
    disagreement = (counts.fixed + counts.broken) / counts.n if counts.n else 0.0
    needed = None
    if verdict == "undecided" and difference.mean is not None and difference.mean != 0 and disagreement > 0:
        needed = tasks_to_decide(disagreement, difference.mean, confidence=confidence)
    binary = bool(np.isin(table.a[~np.isnan(table.a)], (0.0, 1.0)).all())
    return AuditResult(
        role=role,
        start=start.digest,
        final=final.digest,
        n_tasks=counts.n,
        missing=counts.missing,
        start_mean=difference.a_mean,
        final_mean=difference.b_mean,
        gain=difference.mean,
        standard_error=difference.standard_error,
        interval=difference.interval,
        confidence=confidence,
        fixed=counts.fixed,
        broken=counts.broken,
        both=counts.both,
        neither=counts.neither,
        p_value=mcnemar_exact(int(counts.fixed), int(counts.broken)) if binary and counts.n else None,
        verdict=verdict,
        sentence=_sentence(verdict, difference.mean, difference.interval, counts.n, covered, coverage, needed),
        tasks_to_decide=needed,
    )


def in_points(fraction: float) -> str:
    """A signed fraction of one as points, for example `+12.5`."""
    return f"{100 * fraction:+.1f}"


def _unchanged(role: str, start: Candidate, final: Candidate, confidence: float) -> AuditResult:
    return AuditResult(
        role=role,
        start=start.digest,
        final=final.digest,
        n_tasks=0,
        missing=0,
        start_mean=None,
        final_mean=None,
        gain=0.0,
        standard_error=0.0,
        interval=(0.0, 0.0),
        confidence=confidence,
        fixed=0,
        broken=0,
        both=0,
        neither=0,
        p_value=None,
        verdict="unchanged",
        sentence="Nothing improved: the final candidate is the start, so the gain is zero and the role stays sealed.",
    )


def _sentence(
    verdict: str,
    gain: float | None,
    interval: tuple[float, float] | None,
    n: int,
    covered: float,
    coverage: float,
    needed: int | None,
) -> str:
    if gain is None or interval is None:
        return f"Undecided: only {n} tasks were measured on both sides."
    low, high = interval
    figures = f"{in_points(gain)} points on {n} tasks, interval {in_points(low)} to {in_points(high)}"
    if covered < coverage:
        return f"Undecided: {covered:.0%} of the tasks were measured, and {coverage:.0%} are needed ({figures})."
    if verdict == "improved":
        return f"The gain is real: {figures}, which excludes zero."
    if verdict == "worse":
        return f"The final candidate is worse than the start: {figures}, which excludes zero."
    more = "" if needed is None else f"; about {needed} tasks would decide a difference of this size"
    return f"Undecided: {figures}, which includes zero{more}."
