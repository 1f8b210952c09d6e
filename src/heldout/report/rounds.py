"""The rounds of a loop over agents, each put together from its events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from heldout.records import Decision, Evidence, Verdict
from heldout.report.no_effect import NoEffect, no_effect
from heldout.report.queries import SELECT, Mean, Means, payloads
from heldout.store.agent_events import (
    CardWritten,
    FinalSelected,
    FlipsConfirmed,
    MethodAudited,
    MethodEdited,
    PredictionScored,
    RoundStarted,
    Screened,
    Smoked,
    Submitted,
)
from heldout.store.events import Decided

__all__ = ["AgentHistory", "AgentRound", "agent_history"]

_InRound = TypeVar("_InRound", Submitted, Evidence, Smoked)


@dataclass(frozen=True, slots=True)
class AgentRound:
    """One round; what did not happen in it is None or empty."""

    number: int
    started: RoundStarted | None
    """None for a round of the method audit, of which nothing is kept."""
    submissions: tuple[Submitted, ...]
    """By episode, then attempt."""
    evidence: tuple[Evidence, ...]
    """Every probe, refused ones and the meta-episode's too, by episode, then ordinal."""
    screened: Screened | None
    smoked: tuple[Smoked, ...]
    flips: FlipsConfirmed | None
    decision: Decision | None
    edited: MethodEdited | None
    """What the improver did to its own method after it."""
    predictions: Mapping[str, str] | None
    """Train id to what became of the predicted fix; None where it was not scored."""
    card: str

    @property
    def verdict(self) -> str:
        """`kept`, `reverted`, `undecided`, `void`, `invalid`, `error`; `measured` in a method audit; else `open`."""
        if self.started is None:
            return "measured" if self.flips else "nothing to measure" if self.screened else "open"
        if self.decision is None:
            return "open"
        if self.flips is None:
            return "error" if self.screened is None or self.screened.winner is None else "invalid"
        if self.flips.label == "void":
            return "void"
        return _VERDICTS.get(self.decision.verdict, "undecided")

    @property
    def label(self) -> str:
        """EFFECTIVE, HARMFUL, MIXED, INERT; empty where nothing was measured, or too little."""
        return "" if self.flips is None or self.flips.label == "void" else self.flips.label

    @property
    def last(self) -> Submitted | None:
        """The screen's winner as it was last submitted: after the repairs, if there were any."""
        winner = None if self.screened is None else self.screened.winner
        return next((one for one in reversed(self.submissions) if one.episode == winner), None)

    @property
    def paths(self) -> tuple[str, ...]:
        """Files that the winner writes or deletes."""
        return () if self.last is None else tuple(sorted({edit.path for edit in self.last.proposal.edits}))

    @property
    def note(self) -> str:
        """What was changed, in the improver's words."""
        return "" if self.last is None else self.last.proposal.note

    @property
    def nets(self) -> tuple[int | None, ...]:
        """Fixed minus broken on the screen, by episode; None for one that was not screened."""
        if self.screened is None:
            return ()
        columns = zip(self.screened.candidates, self.screened.fixed, self.screened.broken, strict=True)
        return tuple(None if digest is None else fixed - broken for digest, fixed, broken in columns)

    @property
    def smoke_faults(self) -> tuple[str, ...]:
        """What the mechanical checks refused, by attempt."""
        return tuple(f"{one.check}: {one.fault}" if one.fault else one.check for one in self.smoked if one.check)


_VERDICTS: Mapping[Verdict, str] = {Verdict.ACCEPT: "kept", Verdict.REJECT: "reverted"}


@dataclass(frozen=True, slots=True)
class AgentHistory:
    """Everything that a loop over agents recorded, by round."""

    rounds: tuple[AgentRound, ...]
    """From 1."""
    audited: tuple[AgentRound, ...]
    """The rounds of the method audit: first under the start method, then under the final one."""
    method_audit: MethodAudited | None
    selected: FinalSelected | None
    no_effect: NoEffect | None
    """What rounds without any effect would show; None before the noise was measured."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Every probe of the run, the method audit's too."""
        return tuple(probe for one in (*self.rounds, *self.audited) for probe in one.evidence)

    def recorded_gain(self, start: str, final: str) -> float | None:
        """The final's select score as it was recorded when it was kept, minus the start's; None without both."""
        scores = {one.digest: one.journaled for one in (self.selected.finalists if self.selected else ())}
        before, after = scores.get(start), scores.get(final)
        return None if before is None or after is None else after - before

    def with_confirmed(self, known: Means) -> Means:
        """The means with the select scores that decisions rested on: those of confirmed flips, where there are any."""
        rows = {(SELECT, one.flips.candidate): one.flips.score_after for one in self.rounds if one.flips is not None}
        nothing = Mean(n=0, missing=0, value=None)
        confirmed = {
            key: replace(known.get(key, nothing), value=score, standard_error=None) for key, score in rows.items()
        }
        return {**known, **confirmed}


def agent_history(connection: sqlite3.Connection) -> AgentHistory | None:
    """The rounds of the run, or None where the loop has none of this kind."""
    started = {one.round: one for one in payloads(connection, RoundStarted)}
    if not started:
        return None
    submissions = _by_round(payloads(connection, Submitted))
    screens = {one.round: one for one in payloads(connection, Screened)}
    numbers = sorted(({*started} | {*submissions} | {*screens}) - {0})
    read = _Reader(connection)
    rounds = [
        AgentRound(
            number=number,
            started=started.get(number),
            submissions=tuple(sorted(submissions.get(number, ()), key=lambda one: (one.episode, one.attempt))),
            evidence=tuple(sorted(read.evidence.get(number, ()), key=lambda one: (one.episode, one.ordinal))),
            screened=screens.get(number),
            smoked=tuple(sorted(read.smoked.get(number, ()), key=lambda one: one.attempt)),
            flips=read.flips.get(number),
            decision=read.decisions.get(number) if number in started else None,
            edited=read.edited.get(number),
            predictions=read.predictions.get(number),
            card=read.cards.get(number, ""),
        )
        for number in numbers
    ]
    audits, selections = payloads(connection, MethodAudited), payloads(connection, FinalSelected)
    return AgentHistory(
        rounds=tuple(one for one in rounds if one.started is not None),
        audited=tuple(one for one in rounds if one.started is None),
        method_audit=audits[-1] if audits else None,
        selected=selections[-1] if selections else None,
        no_effect=no_effect(connection),
    )


class _Reader:
    """The events of a run that belong to rounds, by round."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.evidence = _by_round(payloads(connection, Evidence))
        self.smoked = _by_round(payloads(connection, Smoked))
        self.flips = {one.round: one for one in payloads(connection, FlipsConfirmed)}
        self.decisions = {one.generation: one.decision for one in payloads(connection, Decided)}
        self.edited = {one.round: one for one in payloads(connection, MethodEdited)}
        self.predictions = {one.round: one.outcomes for one in payloads(connection, PredictionScored)}
        self.cards = {one.round: one.text for one in payloads(connection, CardWritten)}


def _by_round(records: Iterable[_InRound]) -> dict[int, list[_InRound]]:
    found: dict[int, list[_InRound]] = {}
    for one in records:
        found.setdefault(one.round, []).append(one)
    return found
