"""What became of every candidate: a view of the journal, rebuilt by replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from heldout.errors import StoreError
from heldout.records import Verdict
from heldout.store.agent_events import RoundStarted, Screened, Smoked
from heldout.store.events import CandidateAdded, Decided, Event, GenerationStarted, Proposed, TrackMoved

__all__ = ["Lineage", "Node", "NodeStatus"]


class NodeStatus(StrEnum):
    """What became of a candidate."""

    START = "start"
    """A track began with it (it may still be the head)."""
    OPEN = "open"
    """No gate has decided yet."""
    HEAD = "head"
    """Accepted, and its track's head now."""
    ACCEPTED = "accepted"
    """Was a head until another one followed."""
    REJECTED = "rejected"
    UNDECIDED = "undecided"
    INVALID = "invalid"
    DUPLICATE = "duplicate"
    """Proposed again: the content was known already."""


@dataclass(frozen=True, slots=True)
class Node:
    """One proposal, or the start of a track."""

    digest: str | None
    """None where the improver returned no folder."""
    parent: str | None
    track: str
    generation: int
    """0 for the start."""
    index: int
    note: str
    status: NodeStatus
    reason: str = ""


@dataclass(slots=True)
class Lineage:
    """All tracks of a run. `apply` events in their order, or `replay` them all."""

    candidates: dict[str, Node] = field(default_factory=dict)
    """Each distinct content by its digest, in order of arrival."""
    wasted: list[Node] = field(default_factory=list)
    """Invalid and duplicate proposals."""
    _heads: dict[str, list[str]] = field(default_factory=dict)
    _incumbent: str | None = None
    _round: int = 0
    """The newest round of a loop over agents; what comes after the last one belongs to its method audit."""

    @classmethod
    def replay(cls, events: Iterable[Event]) -> Lineage:
        """The lineage that these events tell; kinds that do not concern it are skipped."""
        lineage = cls()
        for event in events:
            lineage.apply(event)
        return lineage

    def apply(self, event: Event) -> None:
        """Take one more event into account."""
        match event.kind:
            case "candidate":
                self._add(CandidateAdded.model_validate(event.data))
            case "generation.started":
                self._incumbent = GenerationStarted.model_validate(event.data).incumbent
            case "proposal":
                self._propose(Proposed.model_validate(event.data))
            case "decision":
                self._decide(Decided.model_validate(event.data))
            case "track.moved":
                self._move(TrackMoved.model_validate(event.data))
            case "round.started":
                started = RoundStarted.model_validate(event.data)
                self._incumbent, self._round = started.head, started.round
            case "screen":
                self._screen(Screened.model_validate(event.data))
            case "smoke":
                self._smoke(Smoked.model_validate(event.data))
            case "meta_audit":
                self._close_audit()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Everything that was ever proposed, by generation and index."""
        return tuple(sorted([*self.candidates.values(), *self.wasted], key=lambda node: (node.generation, node.index)))

    @property
    def heads(self) -> Mapping[str, str]:
        """Track to the digest of its head."""
        return {track: digests[-1] for track, digests in self._heads.items()}

    def head(self, track: str) -> Node:
        """The track's head; `KeyError` for a track that never began."""
        return self.candidates[self._heads[track][-1]]

    def start(self, track: str) -> Node:
        """What the track began with."""
        return self.candidates[self._heads[track][0]]

    def past_heads(self, track: str) -> tuple[Node, ...]:
        """Every head that the track had, first to last; the last one is the head now."""
        return tuple(self.candidates[digest] for digest in self._heads[track])

    def path(self, track: str) -> tuple[Node, ...]:
        """Ancestors of the head, from the oldest to the head itself."""
        path = [self.head(track)]
        while (parent := path[-1].parent) in self.candidates:
            path.append(self.candidates[parent])
        return tuple(reversed(path))

    def _add(self, added: CandidateAdded) -> None:
        begins = added.track not in self._heads
        if begins:
            self._heads[added.track] = [added.digest]
        self.candidates[added.digest] = Node(
            digest=added.digest,
            parent=added.parent,
            track=added.track,
            generation=added.generation,
            index=added.index,
            note=added.note,
            status=NodeStatus.START if begins else NodeStatus.OPEN,
        )

    def _propose(self, proposed: Proposed) -> None:
        invalid = proposed.error is not None or proposed.digest is None
        if not invalid and proposed.duplicate_of is None:
            return
        incumbent = self.candidates.get(self._incumbent or "")
        reason = proposed.error or "nothing was proposed"
        self.wasted.append(
            Node(
                digest=proposed.digest,
                parent=self._incumbent,
                track="" if incumbent is None else incumbent.track,
                generation=proposed.generation,
                index=proposed.index,
                note=proposed.note,
                status=NodeStatus.INVALID if invalid else NodeStatus.DUPLICATE,
                reason=reason if invalid else f"the same content as {proposed.duplicate_of}",
            )
        )

    def _decide(self, decided: Decided) -> None:
        verdict, why = decided.decision.verdict, decided.decision.reason
        for digest in decided.candidates:
            won = digest == decided.winner
            status = NodeStatus.ACCEPTED if won and verdict is Verdict.ACCEPT else _AFTER[verdict]
            passed_over = decided.winner is not None and not won and status is NodeStatus.REJECTED
            self._set(digest, status, "another candidate of its generation was better" if passed_over else why)

    def _screen(self, screened: Screened) -> None:
        """Only the winner of a screen goes on; the others, if no gate ever decided on them, end here."""
        won = None if screened.winner is None else screened.candidates[screened.winner]
        for place, digest in enumerate(screened.candidates):
            if digest is not None and digest != won and self._is_open(digest):
                why = screened.disqualified[place] or "another candidate of its round was better on the screen"
                self._set(digest, NodeStatus.REJECTED, why)

    def _smoke(self, smoked: Smoked) -> None:
        if smoked.check and smoked.candidate is not None and self._is_open(smoked.candidate):
            self._set(smoked.candidate, NodeStatus.INVALID, f"{smoked.check}: {smoked.fault}")

    def _close_audit(self) -> None:
        """Nothing is kept of the rounds that a method audit ran."""
        for digest, node in list(self.candidates.items()):
            if node.status is NodeStatus.OPEN and node.generation > self._round:
                self._set(digest, NodeStatus.REJECTED, "measured for the method audit, of which nothing is kept")

    def _is_open(self, digest: str) -> bool:
        node = self.candidates.get(digest)
        return node is not None and node.status is NodeStatus.OPEN

    def _move(self, moved: TrackMoved) -> None:
        if moved.track not in self._heads or moved.target not in self.candidates:
            raise StoreError(f"track {moved.track!r} moved to {moved.target!r}, but the journal never added that")
        before = self.head(moved.track)
        if before.status is NodeStatus.HEAD and before.digest is not None:
            self._set(before.digest, NodeStatus.ACCEPTED, before.reason)
        self._heads[moved.track].append(moved.target)
        self._set(moved.target, NodeStatus.HEAD, moved.why)

    def _set(self, digest: str, status: NodeStatus, reason: str) -> None:
        node = self.candidates.get(digest)
        if node is not None and node.status is not NodeStatus.START:
            self.candidates[digest] = replace(node, status=status, reason=reason)


_AFTER: Mapping[Verdict, NodeStatus] = {
    Verdict.ACCEPT: NodeStatus.REJECTED,
    Verdict.REJECT: NodeStatus.REJECTED,
    Verdict.UNDECIDED: NodeStatus.UNDECIDED,
    Verdict.CONFIRM: NodeStatus.OPEN,
}
"""What a verdict makes of the candidates that did not win it."""
