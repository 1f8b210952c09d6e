"""Everything that a loop over skills recorded: rounds, retention, the final selection, skill calls, judge."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from heldout.records import Verdict
from heldout.report.judge_agreement import judge_agreement
from heldout.report.numbers import percent
from heldout.report.queries import SELECT, Mean, Means, noise, payloads
from heldout.report.skill_rounds import SkillRound, skill_rounds
from heldout.report.skill_use import SkillUse, skill_use
from heldout.store.agent_events import FinalSelected
from heldout.store.events import CandidateAdded, NoiseMeasured
from heldout.store.skill_events import SKILL_PAYLOADS, ArmRetention, Judged, Retention

__all__ = ["Chance", "SkillHistory", "skill_history"]

Target = Literal["guide", "skill"]


@dataclass(frozen=True, slots=True)
class Chance:
    """The gate's false accepts by this run's own noise, beside what it accepted."""

    rate: float
    """How often the gate takes an edit without any effect."""
    standard_error: float
    decided: int
    """Rounds in which the gate accepted or rejected a measured edit."""
    accepted: int

    @property
    def expected(self) -> float:
        """Acceptances, if none of the decided edits had any effect."""
        return self.rate * self.decided

    @property
    def sentence(self) -> str:
        """The same in words, for every view."""
        return (
            f"Accepted: {self.accepted} of {self.decided} decided rounds. If none of these edits had any effect, the "
            f"gate would accept about {self.expected:.1f} of them by chance: its false-accept rate at this run's noise "
            f"is {percent(self.rate)}."
        )


@dataclass(frozen=True, slots=True)
class SkillHistory:
    """Everything that a loop over skills recorded."""

    target: Target
    """What is evolved: a guide for writing skills, or one skill for all tasks."""
    rounds: tuple[SkillRound, ...]
    selected: FinalSelected | None
    retentions: tuple[Retention, ...]
    """One of each role: the newest."""
    judged: tuple[Judged, ...]
    judge_agreement: str
    """Whether the judge orders the texts as test scores do, in words; empty where fewer than two have both."""
    use: tuple[SkillUse, ...]
    """By purpose."""
    chance: Chance | None
    """None before the noise was measured, or where this gate was not calibrated."""

    @property
    def retention(self) -> Retention | None:
        """Of the audit; None before it is measured."""
        return next((one for one in self.retentions if one.role == "audit"), None)

    @property
    def none(self) -> str | None:
        """Digest of the candidate without a skill, once it is known."""
        return self.retentions[0].none if self.retentions else None

    def arms(self, found: Retention) -> tuple[ArmRetention, ...]:
        """Its arms; no skill itself, where that is the start, gains nothing over no skill and says nothing."""
        return tuple(one for one in found.arms if one.candidate != found.none)

    def name_of_start(self, start: str) -> str:
        """What the start is called: `start guide`, `start`, or `no skill` where it has none."""
        if self.target == "guide":
            return "start guide"
        return "no skill" if start == self.none else "start"

    def recorded_gain(self, start: str, final: str) -> float | None:
        """The final's select score as it was recorded when it was kept, minus the start's; None without both."""
        scores = {one.digest: one.journaled for one in (self.selected.finalists if self.selected else ())}
        before, after = scores.get(start), scores.get(final)
        return None if before is None or after is None else after - before

    def with_decided(self, known: Means) -> Means:
        """The means with the select scores that decisions rested on, unconfirmed flips taken back."""
        nothing = Mean(n=0, missing=0, value=None)
        found = dict(known)
        for decided in (one.decided for one in self.rounds if one.decided is not None):
            for digest, score in zip(decided.candidates, decided.scores, strict=True):
                if score is not None:
                    row = known.get((SELECT, digest), nothing)
                    found[SELECT, digest] = replace(row, value=score, standard_error=None)
        return found


def skill_history(connection: sqlite3.Connection) -> SkillHistory | None:
    """What the run recorded of skills, or None where its loop does not evolve any."""
    added = payloads(connection, CandidateAdded)
    track = added[0].track if added else ""
    if track not in ("guide", "skill") and not _has_skill_events(connection):
        return None
    selections = payloads(connection, FinalSelected)
    rounds = skill_rounds(connection, ended=bool(selections))
    return SkillHistory(
        target=_target(rounds, track),
        rounds=rounds,
        selected=selections[-1] if selections else None,
        retentions=tuple({one.role: one for one in payloads(connection, Retention)}.values()),
        judged=_judged(connection),
        judge_agreement=judge_agreement(connection),
        use=skill_use(connection),
        chance=_chance(noise(connection), rounds),
    )


def _judged(connection: sqlite3.Connection) -> tuple[Judged, ...]:
    """The newest of each text and judge: one that did not answer is asked again."""
    return tuple({(one.candidate, one.judge): one for one in payloads(connection, Judged)}.values())


def _has_skill_events(connection: sqlite3.Connection) -> bool:
    kinds = tuple(SKILL_PAYLOADS)
    query = f"SELECT 1 FROM events WHERE kind IN ({', '.join('?' * len(kinds))}) LIMIT 1"
    return connection.execute(query, kinds).fetchone() is not None


def _target(rounds: Sequence[SkillRound], track: str) -> Target:
    found = (edit.edited.target for one in rounds for edit in one.edits if edit.edited is not None)
    return next(found, "guide" if track == "guide" else "skill")


def _chance(measured: NoiseMeasured | None, rounds: Sequence[SkillRound]) -> Chance | None:
    """Of the gate that decided last; a draft, which no gate weighs, is not among its rounds."""
    decisions = [one.decided.decision for one in rounds if one.decided is not None and one.decided.candidates]
    gate = decisions[-1].gate if decisions else ""
    found = next((one for one in (measured.gates if measured else ()) if one.gate == gate), None)
    verdicts = [one.verdict for one in decisions if one.gate == gate]
    accepted = verdicts.count(Verdict.ACCEPT)
    decided = accepted + verdicts.count(Verdict.REJECT)
    return (
        None
        if found is None or not decided
        else Chance(found.false_accept_rate, found.standard_error, decided, accepted)
    )
