"""From a paired table to a result in numbers and in plain words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heldout.records import Candidate, Comparison
from heldout.stats import PairedDifference, mcnemar_exact, paired_counts, paired_difference, tasks_to_decide
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
    notes: Sequence[str] = (),
) -> AuditResult:
    """The audit of `final` (side b) against `start` (side a); `table` is None where both are the same candidate."""
    if table is None:
        return _unchanged(role, start, final, confidence)
    counts = paired_counts(table.a, table.b)
    difference = paired_difference(table.a, table.b, confidence=confidence)
    p_value = mcnemar_exact(int(counts.fixed), int(counts.broken)) if _is_pass_or_fail(table) and counts.n else None
    verdict, doubt = _verdict(table, difference, p_value, coverage=coverage)
    needed = None
    if verdict == "undecided" and difference.mean is not None and difference.standard_error is not None:
        needed = tasks_to_decide(difference.standard_error**2 * counts.n, difference.mean, confidence=confidence)
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
        p_value=p_value,
        verdict=verdict,
        sentence=_sentence(verdict, difference, doubt=doubt, needed=needed),
        notes=tuple(notes),
        tasks_to_decide=needed,
    )


def _verdict(
    table: Comparison, difference: PairedDifference, p_value: float | None, *, coverage: float
) -> tuple[str, str]:
    """The verdict, and what stands in the way of a clearer one.

    An interval that leaves out zero is not enough: too few tasks may be measured, the missing ones may be what the
    gain is made of, and for rare one-sided changes the exact test is the stricter one.
    """
    if difference.interval is None:
        return "undecided", f"only {difference.n} tasks were measured on both sides"
    covered = difference.n / len(table.tasks)
    if covered < coverage:
        return "undecided", f"{covered:.0%} of the tasks were measured, and {coverage:.0%} are needed"
    low, high = difference.interval
    if low <= 0.0 <= high:
        return "undecided", "the interval includes zero"
    if p_value is not None and p_value > 1.0 - difference.confidence:
        return "undecided", f"the interval leaves out zero, but the exact test does not (p = {p_value:.3f})"
    if not _survives_missing(table, better=low > 0.0, confidence=difference.confidence):
        return "undecided", "the interval leaves out zero, but not if the tasks that one side lacks were failures"
    return ("improved" if low > 0.0 else "worse"), "the interval excludes zero"


def _survives_missing(table: Comparison, *, better: bool, confidence: float) -> bool:
    """Whether the sign holds when every score that only the favoured side lacks is counted as a failure."""
    a, b = table.a, table.b
    if better:
        b = np.where(np.isnan(b) & ~np.isnan(a), 0.0, b)
    else:
        a = np.where(np.isnan(a) & ~np.isnan(b), 0.0, a)
    worst = paired_difference(a, b, confidence=confidence).interval
    return worst is not None and (worst[0] > 0.0 if better else worst[1] < 0.0)


def _is_pass_or_fail(table: Comparison) -> bool:
    """One repeat of 0 or 1 on both sides, so that McNemar's test applies."""
    scores = np.concatenate([table.a.ravel(), table.b.ravel()])
    return table.a.shape[1] == table.b.shape[1] == 1 and bool(np.isin(scores[~np.isnan(scores)], (0.0, 1.0)).all())


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


def _sentence(verdict: str, difference: PairedDifference, *, doubt: str, needed: int | None) -> str:
    if difference.mean is None or difference.interval is None:
        return f"Undecided: {doubt}."
    low, high = difference.interval
    figures = f"{in_points(difference.mean)} points on {difference.n} tasks, "
    figures += f"interval {in_points(low)} to {in_points(high)}"
    if verdict == "improved":
        return f"The gain is real: {figures}; {doubt}."
    if verdict == "worse":
        return f"The final candidate is worse than the start: {figures}; {doubt}."
    more = (
        "" if needed is None else f" About {needed} tasks would decide a difference of this size, four times in five."
    )
    return f"Undecided: {figures}; {doubt}.{more}"
