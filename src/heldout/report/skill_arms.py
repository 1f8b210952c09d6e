"""The three arms on audit: no skill, start and final. Only final minus start is what the run learned."""

from __future__ import annotations

from dataclasses import dataclass

from heldout.report.skill_history import SkillHistory
from heldout.report.summary import RunSummary
from heldout.store.skill_events import ArmRetention

__all__ = ["Arm", "arms_of", "learning_name", "name_of"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One candidate on audit, in fractions of one."""

    name: str
    mean: float | None
    retention: ArmRetention | None
    """Its gains over no skill; None for no skill itself, and where they are refused or not measured."""


def learning_name(start_name: str, target: str) -> str:
    """What the audited gain is called."""
    return f"learning: final − {start_name}" if target == "guide" else f"gain: final − {start_name}"


def name_of(digest: str, whole: RunSummary, skills: SkillHistory) -> str:
    """A candidate's name on every view; the beginning of its digest where it has none."""
    names = {one.candidate: one.arm for retention in skills.retentions for one in retention.arms}
    names[skills.none or ""] = "no skill"
    names[whole.start.digest] = skills.name_of_start(whole.start.digest)
    names[whole.final.digest] = f"final {skills.target}"
    if whole.start.digest == whole.final.digest:
        names[whole.start.digest] = f"{skills.name_of_start(whole.start.digest)}, which is the final"
    return names.get(digest, digest[:12])


def arms_of(whole: RunSummary, skills: SkillHistory) -> tuple[Arm, ...]:
    """No skill first, then start and final; the means of the last two are the audit's own. Arms that are the same
    candidate stand once."""
    retention, audit = skills.retention, whole.audit
    known = {} if retention is None else {one.candidate: one for one in retention.arms}
    found = [Arm("no skill", None if retention is None else retention.none_audit, None)]
    start, final = whole.start.digest, whole.final.digest
    if start != skills.none:
        found.append(Arm(name_of(start, whole, skills), audit.start_mean if audit else None, known.get(start)))
    if final not in (start, skills.none):
        found.append(Arm(name_of(final, whole, skills), audit.final_mean if audit else None, known.get(final)))
    return tuple(found)
