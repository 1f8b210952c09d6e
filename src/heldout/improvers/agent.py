"""The seam to improvers that are agents: they read traces, experiment, edit a harness, and edit their own method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from heldout.probes.base import Attribution, Laboratory, ProbeNoise, SignatureEntry, Suggestion, Trace
from heldout.records import Candidate, EditProposal, Evidence, Record, Spend

__all__ = ["AgentImprover", "MetaView", "ProbeNoise", "RoundNote", "RoundView", "TraceReader"]


class RoundNote(Record):
    """What became of an earlier round, as the improver is told it: facts, no advice."""

    round: int
    verdict: str
    """The gate's verdict, or `invalid`, `void`, `error`."""
    label: str = ""
    """EFFECTIVE, HARMFUL, MIXED, INERT."""
    note: str = ""
    edits: str = ""
    """Edits digest."""
    edited: tuple[str, ...] = ()
    """Paths."""
    select_before: float | None = None
    select_after: float | None = None
    fixed: tuple[str, ...] = ()
    """Select ids that the round fixed, confirmed."""
    broken: tuple[str, ...] = ()
    predictions: Mapping[str, str] = {}
    """Train id to flipped, still_T, still_F, regressed, absent."""


@dataclass(frozen=True, slots=True)
class RoundView:
    """Everything that an improver may know when it proposes. No select, audit or test body is reachable from it."""

    round: int
    """From 1."""
    episode: int
    """Which of the round's proposals this is, from 0."""
    seed: int
    """Differs for every (round, episode); the improver's only source of randomness."""
    head: Candidate
    """A copy of the harness to improve."""
    bases: Mapping[int, Candidate]
    """Kept rounds (0 is the start) to the harness after them, which `base_round` may name."""
    method: Candidate
    """A copy of the improver's own folder."""
    guidance: str
    """The block of guidance of this episode."""
    description: str
    report: str
    """The evidence source's text."""
    traces: Mapping[str, Trace]
    """Train id to the newest trace under the head."""
    attributions: tuple[Attribution, ...]
    ledger: tuple[SignatureEntry, ...]
    """Empty in arms without the ledger."""
    history: tuple[RoundNote, ...]
    """The last eight rounds."""
    noise: ProbeNoise
    dead_edits: frozenset[str] = frozenset()
    """Edits digests that were reverted or found INERT."""
    run_seed: int | None = None
    """The run's own seed, the same in every round."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What the evidence source offers to browse, by path."""


@dataclass(frozen=True, slots=True)
class MetaView:
    """What an improver may know when it edits its own method, after a round."""

    round: int
    seed: int
    method: Candidate
    """A copy of its own folder."""
    card: str
    """The round's report card, as text."""
    note: RoundNote
    proposals: tuple[EditProposal, ...]
    """All of the round, the winner first."""
    evidence: tuple[Evidence, ...]
    """Every probe of the round."""
    traces: Mapping[str, Trace]
    ledger: tuple[SignatureEntry, ...]
    faults: tuple[str, ...] = ()
    """What was wrong with the edits that were submitted before in this meta-episode."""
    noise: ProbeNoise | None = None
    """As in the round's own view, where it is known."""
    run_seed: int | None = None
    """The run's own seed, the same in every round."""


class TraceReader(Protocol):
    """Something that says which commands of a trace matter; the trace minimiser begins with its guess."""

    def suggestion(self, trace: Trace, fault: str) -> Suggestion:
        """The commands that suffice for the trace's outcome, as far as it can tell. `fault` says what was wrong with
        the suggestion before, where there was one."""


class AgentImprover(TraceReader, Protocol):
    """Something that edits harness folders and, where the method track is on, its own. Same view, same answer,
    where it can. Errors: `ModelError` where its model did not answer; any other exception is an improver fault.
    """

    uses_model: bool
    bound: Spend
    """The most that one episode may cost, `wall_s` aside; what is reserved before it begins."""
    start_method: Mapping[str, str]
    """The files that its method folder begins with."""

    def propose(self, view: RoundView, laboratory: Laboratory) -> EditProposal:
        """One proposal; one without edits when there is nothing left to try."""

    def repair(self, view: RoundView, proposal: EditProposal, fault: str, laboratory: Laboratory) -> EditProposal:
        """The proposal with its fault mended, or another one."""

    def reflect(self, view: MetaView, laboratory: Laboratory) -> EditProposal:
        """Edits of its own method folder (`predicted_fixes` and the like stay empty)."""
