"""The outcome of a run in plain words: one headline, and a sentence on what the loop believed."""

from __future__ import annotations

from dataclasses import dataclass

from heldout.report.numbers import count, interval, points, signed
from heldout.report.summary import RUNNING, Gains, RunSummary
from heldout.report.untrusted import one_line
from heldout.store.events import AuditResult

__all__ = ["Verdict", "lost_abilities", "verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person reads first."""

    tone: str
    """`better`, `worse`, `unclear`, `same` or `open`; views choose sign and colour by it."""
    headline: str
    detail: str


def verdict(summary: RunSummary) -> Verdict:
    """Never praises a gain that was not audited."""
    if summary.audit is not None:
        found = _audited(summary.audit, summary.gains)
        parts = (*lost_abilities(summary), found.detail, _nothing_to_compare(summary), _stopped(summary))
        return Verdict(found.tone, found.headline, " ".join(part for part in parts if part))
    if summary.status == RUNNING:
        return Verdict("open", "This run has not finished.", _believed_only(summary.gains))
    if summary.start.digest == summary.final.digest:
        parts = (_nothing_to_compare(summary), _stopped(summary))
        return Verdict("same", _UNCHANGED, " ".join(part for part in parts if part))
    check = f"Check it with: heldout audit RUN (this one is {summary.started.run})"
    detail = " ".join(part for part in (_believed_only(summary.gains), _stopped(summary), check) if part)
    return Verdict("open", "The loop reports a gain that nobody has checked.", detail)


def lost_abilities(summary: RunSummary) -> tuple[str, ...]:
    """A sentence for each report role whose own verdict is that trained weights are worse."""
    if summary.training is None:
        return ()
    return tuple(
        f"Abilities were lost on {one_line(one.role, 40)}: {points(one.gain)} ({interval(one.interval)})."
        for one in summary.reports
        if one.verdict == "worse"
    )


def _nothing_to_compare(summary: RunSummary) -> str:
    """Where no training gave a model, the start is the best of one."""
    if summary.training is None or len(summary.training.models) > 1:
        return ""
    return "No training came to a model that could be compared with it."


_UNCHANGED = "Nothing improved: the start is still the best that was found."


def _audited(audit: AuditResult, gains: Gains) -> Verdict:
    if audit.verdict == "unchanged" or audit.start == audit.final:
        return Verdict("same", _UNCHANGED, "")
    if audit.gain is None or audit.interval is None:
        return Verdict("unclear", "The audit cannot tell: too few of its tasks were measured.", _against(gains))
    tasks = f"{count(audit.n_tasks)} tasks that no decision ever saw"
    if audit.verdict == "improved":
        return Verdict("better", f"It got better: {points(audit.gain)} on {tasks}.", _against(gains))
    if audit.verdict == "worse":
        return Verdict("worse", f"It got worse: {points(audit.gain)} on {tasks}.", _against(gains))
    more = (
        f" About {count(audit.tasks_to_decide)} audit tasks would decide it, four times in five."
        if audit.tasks_to_decide
        else ""
    )
    if audit.interval[0] > 0 or audit.interval[1] < 0:
        # The interval alone would decide; what holds the verdict back stands in the audit's own sentence.
        return Verdict("unclear", "The audit cannot tell.", f"{audit.sentence} {_against(gains)}")
    headline = f"The audit cannot tell: the true gain may be anywhere from {interval(audit.interval)}."
    return Verdict("unclear", headline, f"On {tasks} it is {points(audit.gain)}. {_against(gains)}{more}")


def _against(gains: Gains) -> str:
    """What the loop believed, against what the audit found."""
    gap = gains.overstatement
    if gap is None:
        return _believed_only(gains)
    if signed(gap) == "0.0":
        return f"The loop believed in {points(gains.believed)}, which is what the audit found."
    more = "more" if gap > 0 else "less"
    return f"The loop believed in {points(gains.believed)}, {signed(gap)[1:]} {more} than the audit found."


def _believed_only(gains: Gains) -> str:
    if gains.believed is None:
        return "The gain on the select tasks is not measured."
    return f"The loop believes in {points(gains.believed)}, on the same tasks that it chose by."


def _stopped(summary: RunSummary) -> str:
    return f"The search was stopped by its budget: {summary.stop_reason}." if summary.status == "stopped" else ""
