"""The rubric by which finished texts are judged after the end: criteria with their weights, and the seam to judges.

Specification: `systems/gso.md`, section 8. A judge never selects: no loop and no gate reads its scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from heldout.records import Candidate, Spend
from heldout.skills.modules import MODULES, NO_SKILL_FILE, SKILL_FILE
from heldout.store.skill_events import Judged

__all__ = ["CAP", "CRITERIA", "HIGHEST", "LOWEST", "Finding", "Judge", "judged_text", "nothing_judged", "verdict_of"]

LOWEST, HIGHEST = 1.0, 5.0

CAP = 2.0
"""Highest generalizability of a text that holds ids, literals, fixed layouts or grader tricks as rules."""

CRITERIA: Mapping[str, tuple[float, str]] = MappingProxyType(
    {
        "generalizability": (
            0.30,
            "holds for tasks with other names, files and layouts than those it was written after",
        ),
        "applicability": (
            0.20,
            "says when it applies and what to look at first, and leaves open what a task must decide",
        ),
        "executability": (0.20, "can be carried out step by step, with checks of the result that can fail"),
        "robustness": (
            0.20,
            "names faults, bounds repair, keeps what is right, and says when to stop without a result",
        ),
        "clarity": (0.10, "is ordered, short enough to follow, and says each thing once"),
    }
)
"""Criterion to its weight and to what a text with the highest score does."""


class Finding(NamedTuple):
    """The score of one criterion."""

    score: float
    """1 to 5."""
    excerpt: str
    """From the text; empty where nothing in it bears on the criterion."""
    reason: str
    """One sentence."""


class Judge(Protocol):
    """Scores one finished text on its own, without any other text or any test score."""

    @property
    def name(self) -> str:
        """`rules`, or the model's name."""

    def bound(self, candidate: Candidate) -> Spend:
        """The most that one verdict may cost, `wall_s` aside."""

    def judge(self, candidate: Candidate) -> Judged:
        """The verdict; one without scores, with its `error`, where none can be given. `ModelError` where a model did
        not answer."""


def judged_text(candidate: Candidate) -> str:
    """The whole text that is judged: the modules of a guide in their order, or `SKILL.md` and what lies beside it.

    Empty for the candidate without a skill.
    """
    names = [name for name in (SKILL_FILE, *MODULES) if name in candidate.files]
    names += sorted(candidate.files.keys() - set(names) - {NO_SKILL_FILE})
    if len(names) == 1:
        return candidate.files[names[0]].strip()
    return "\n\n".join(f"# {name}\n\n{candidate.files[name].strip()}" for name in names)


def verdict_of(
    candidate: Candidate, judge: str, findings: Mapping[str, Finding], *, capped: str = "", spend: Spend | None = None
) -> Judged:
    """The record of findings on every criterion. Where `capped` says why, generalizability is at most `CAP`."""
    scores = {name: min(HIGHEST, max(LOWEST, findings[name].score)) for name in CRITERIA}
    if capped:
        scores["generalizability"] = min(CAP, scores["generalizability"])
    return Judged(
        candidate=candidate.digest,
        judge=judge,
        scores=scores,
        total=round(sum(weight * scores[name] for name, (weight, _) in CRITERIA.items()), 4),
        excerpts={name: findings[name].excerpt for name in CRITERIA},
        reasons={name: findings[name].reason for name in CRITERIA},
        capped=capped,
        spend=spend or Spend(),
    )


def nothing_judged(candidate: Candidate, judge: str, error: str, *, spend: Spend | None = None) -> Judged:
    """The record of a verdict that could not be given: no score, and never a low one."""
    return Judged(candidate=candidate.digest, judge=judge, scores={}, total=None, error=error, spend=spend or Spend())
