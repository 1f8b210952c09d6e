"""What is true of the simulated worker, for graders of improvers and for studies; an improver only reads `wrong_parts`.

With r the probability that a part is right, D that its fault is found and M that a found fault is mended, an episode
with at most one recovery passes with

    P = Π r + Σ_i (1 − r_i) · Π_{j≠i} r_j · D_i · M_i

since a repair mends the one fault that it is aimed at. The writer leaves out each line on its own. No line moves two
factors of one term: a part's own rule moves r_i, a check D_i, and the rules of attribution and repair M_i, by how many
there are. So the mean over what the writer leaves out is the formula of the means, and it is exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import comb, prod
from typing import Literal, Protocol

from heldout.worlds.tables.job import Job
from heldout.worlds.tables.levels import ASSUMED, SLIP
from heldout.worlds.tables.odds import CHECK_OF, MENDING, RULE_OF, PartOdds
from heldout.worlds.tables.parts import RULES, Part
from heldout.worlds.tables.symbolic import outlook

__all__ = ["PART_MODULE", "PART_STAGE", "disagreement", "mean_rate", "pass_rate", "wrong_parts"]

PART_MODULE: Mapping[Part, str] = {rule.part: rule.module for rule in RULES if rule.part is not None} | {
    Part.STEPS: "m4_validation.md"
}
"""The module that should have prevented a part's fault."""

_STAGES: Mapping[str, str] = {
    "m1_task.md": "contract parsing",
    "m2_sources.md": "source selection",
    "m3_skill.md": "skill compilation",
    "m4_validation.md": "execution",
}

PART_STAGE: Mapping[Part, str] = {part: _STAGES[module] for part, module in PART_MODULE.items()}
"""Where a part's fault lies, in the words of `skills.modules.Stage`."""

_DECISIONS = re.compile(r"^# simulated decisions: (.+)$", re.MULTILINE)


class Commanded(Protocol):
    """A step of a trace."""

    @property
    def command(self) -> str | None: ...


def pass_rate(files: Mapping[str, str], job: Job, *, slip: float = SLIP, recovery: bool = True) -> float:
    """The exact expectation of the score over seeds; the luck that is fixed for the task is part of it."""
    seen = outlook(files, job, slip=slip)
    omission = ASSUMED.omission if seen.writes else 0.0
    share = dict.fromkeys(seen.held, 1.0 - omission)
    right = [_mixed(one.right, share.get(RULE_OF[one.part], 0.0)) for one in seen.odds]
    rate = prod(right)
    if not recovery:
        return rate
    count = sum(name in MENDING for name in seen.held)
    for at, one in enumerate(seen.odds):
        others = prod(right[:at]) * prod(right[at + 1 :])
        found = _mixed(one.found, share.get(CHECK_OF[one.part], 0.0))
        rate += (1.0 - right[at]) * others * found * _mended(one, count, omission)
    return rate


def mean_rate(files: Mapping[str, str], jobs: Iterable[Job], *, slip: float = SLIP, recovery: bool = True) -> float:
    """The mean of `pass_rate`: the true score of a guide, or a skill, on these tasks."""
    found = [pass_rate(files, job, slip=slip, recovery=recovery) for job in jobs]
    return sum(found) / len(found)


def disagreement(files: Mapping[str, str], jobs: Iterable[Job], *, slip: float = SLIP, recovery: bool = True) -> float:
    """Expected share of these tasks on which two independent runs differ: the mean of 2 P (1 − P).

    It holds for two seeds, and for an edit without effect, which redraws everything.
    """
    found = [pass_rate(files, job, slip=slip, recovery=recovery) for job in jobs]
    return sum(2.0 * rate * (1.0 - rate) for rate in found) / len(found)


def wrong_parts(steps: Sequence[Commanded], *, which: Literal["first", "last"] = "last") -> frozenset[Part]:
    """What the first, or the last, program of a trace decided wrongly, as it says itself; empty without a program."""
    said = [found[1] for step in steps if (found := _DECISIONS.search(step.command or ""))]
    if not said:
        return frozenset()
    words = [one.split() for one in said[0 if which == "first" else -1].split(",")]
    known = {part.value: part for part in Part}
    return frozenset(known[word[0]] for word in words if len(word) == 2 and word[1] == "wrong" and word[0] in known)


def _mixed(odds: tuple[float, float], share: float) -> float:
    return (1.0 - share) * odds[0] + share * odds[1]


def _mended(one: PartOdds, count: int, omission: float) -> float:
    """Over how many of `count` lines the writer leaves out."""
    terms = [comb(count, k) * (1.0 - omission) ** k * omission ** (count - k) for k in range(count + 1)]
    return sum(term * one.mended[k] for k, term in enumerate(terms))
