"""The best few candidates by select score, which are parents of edits in turn."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from heldout.loops.agents.selecting import lead
from heldout.loops.session import Scored
from heldout.loops.skills.tabling import Scores
from heldout.records import Verdict
from heldout.stats import EQUAL_WITHIN

__all__ = ["Entry", "Frontier", "Member"]


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A candidate with its lead over the start, on the select tasks that both were measured on."""

    scored: Scored
    lead: float
    coverage: float
    """Share of the select tasks that both were measured on."""
    number: int
    """Round after which it was made."""

    @classmethod
    def of(cls, scored: Scored, *, start: Scores, number: int) -> Member:
        """`start`: select scores of the start, at the same seeds."""
        scores = scored.scores[:, 0]
        return cls(scored, lead(start, scores), float((~np.isnan(scores - start)).mean()), number)


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of an offered candidate."""

    verdict: Verdict
    reason: str


@dataclass(slots=True)
class Frontier:
    """At most `size` members, best first, of equals the earlier."""

    size: int
    start: Scores
    """Select scores of the start."""
    members: list[Member] = field(default_factory=list)

    @classmethod
    def from_start(cls, start: Scored, *, size: int) -> Frontier:
        """A frontier that holds the start alone."""
        scores = start.scores[:, 0]
        return cls(size, scores, [Member.of(start, start=scores, number=0)])

    @property
    def best(self) -> Scored:
        """What the search would end with."""
        return self.members[0].scored

    def parent(self, number: int) -> Scored:
        """Whose turn it is in this round (from 1)."""
        return self.members[(number - 1) % len(self.members)].scored

    def offer(self, scored: Scored, *, number: int, coverage: float) -> Entry:
        """Take a candidate in, if there is room or it beats the worst; one that was hardly measured decides nothing."""
        one = Member.of(scored, start=self.start, number=number)
        if one.coverage < coverage:
            reason = f"{one.coverage:.0%} of the select tasks were measured, below {coverage:.0%}"
            return Entry(Verdict.UNDECIDED, reason)
        led = f"{100 * one.lead:+.1f} points against the start"
        worst = self.members[-1] if len(self.members) >= self.size else None
        if worst is not None and one.lead <= worst.lead + EQUAL_WITHIN:
            return Entry(Verdict.REJECT, f"{led}, not above the worst of {self.size} ({100 * worst.lead:+.1f})")
        kept = self.members[: self.size - 1] if worst is not None else self.members
        self.members = sorted([*kept, one], key=lambda member: (-member.lead, member.number))
        instead = "" if worst is None else f", in place of the one of round {worst.number}"
        return Entry(Verdict.ACCEPT, f"{led}: it enters the frontier{instead}")
