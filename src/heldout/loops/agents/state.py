"""What a loop over agents knows between its steps; all of it follows from the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from heldout.improvers.agent import AgentImprover, ProbeNoise, RoundNote
from heldout.loops.agents.options import VerseOptions
from heldout.loops.session import Session
from heldout.probes import Attribution, SignatureEntry, Trace
from heldout.records import Candidate, EditProposal, Outcome
from heldout.store.agent_events import Submitted

__all__ = ["HARNESS", "METHOD", "Agents", "Kept", "Round", "Shown", "Swept"]

HARNESS = "harness"
METHOD = "method"


@dataclass(frozen=True, slots=True)
class Round:
    """Which round it is, for the record and for what is drawn by chance."""

    number: int
    """From 1."""
    draw: int
    """Seeds the round's draws; the two rounds of a method audit share theirs."""


@dataclass(frozen=True, slots=True)
class Swept:
    """The train role under one harness."""

    candidate: Candidate
    repeat: int
    outcomes: Mapping[str, Outcome]
    """By train id, in the order of the role."""

    def passed(self, task: str) -> bool | None:
        """Whether a task passed; None where it was not measured."""
        score = self.outcomes[task].score
        return None if score is None else score >= 0.5

    @property
    def failing(self) -> tuple[str, ...]:
        return tuple(task for task in self.outcomes if self.passed(task) is False)

    @property
    def passing(self) -> tuple[str, ...]:
        return tuple(task for task in self.outcomes if self.passed(task))


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A harness that was the head: after round `round`, 0 for the start."""

    round: int
    candidate: Candidate
    select: NDArray[np.float64]
    """Shape (n,): its recorded select outcomes, flips confirmed, NaN where not measured."""
    broken_hooks: bool = False

    @property
    def score(self) -> float | None:
        """Mean over measured tasks."""
        measured = self.select[~np.isnan(self.select)]
        return float(measured.mean()) if measured.size else None


@dataclass(frozen=True, slots=True)
class Shown:
    """The evidence that a round's improvers share."""

    report: str
    files: Mapping[str, str]
    """What may be browsed."""
    traces: Mapping[str, Trace]
    attributions: tuple[Attribution, ...]
    ledger: tuple[SignatureEntry, ...]


@dataclass(slots=True)
class Agents:
    """The state of one run of a loop over agents."""

    session: Session
    options: VerseOptions
    improver: AgentImprover
    noise: ProbeNoise
    start: Candidate
    method: Candidate
    kept: list[Kept] = field(default_factory=list)
    """In order; the last is the head."""
    competing: list[Kept] = field(default_factory=list)
    """What the final selection may choose from, besides the start."""
    attributions: tuple[Attribution, ...] = ()
    """Of the newest train sweep."""
    sweeps: list[Swept] = field(default_factory=list)
    """Of train, in order."""
    notes: list[RoundNote] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    """Edits digests that were reverted or found INERT."""
    winners: dict[int, Submitted] = field(default_factory=dict)
    """The submission that each measured round put to the gate."""
    solutions: tuple[str, ...] | None = None
    """Right answers of the open roles, for the leak check; read when they are first needed."""

    @property
    def head(self) -> Kept:
        return self.kept[-1]

    @property
    def bases(self) -> dict[int, Candidate]:
        """What `base_round` may name."""
        return {one.round: one.candidate for one in self.kept}

    def tried_on(self, proposal: EditProposal) -> Candidate:
        """What drafts of a proposal are probed on, and so the base of the evidence that is bound to it."""
        if proposal.base_round is None or self.options.probe.on == "head":
            return self.head.candidate
        return self.bases.get(proposal.base_round, self.head.candidate)
