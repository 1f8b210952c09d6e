from __future__ import annotations

import pytest

from heldout.errors import StoreError
from heldout.records import Decision, Verdict
from heldout.store import Lineage, NodeStatus
from heldout.store.events import CandidateAdded, Decided, GenerationStarted, Proposed, TrackMoved
from heldout.testing import MemoryJournal


def add(journal: MemoryJournal, digest: str, parent: str | None, place: tuple[int, int], track: str = "t") -> None:
    added = CandidateAdded(
        digest=digest, parent=parent, track=track, generation=place[0], index=place[1], note=f"note {digest}"
    )
    journal.append("candidate", added)


def decide(journal: MemoryJournal, verdict: Verdict, *digests: str, winner: int | None, reason: str) -> None:
    journal.append(
        "decision",
        Decided(
            generation=1,
            incumbent="s",
            candidates=digests,
            incumbent_score=0.5,
            scores=tuple(0.5 for _ in digests),
            winner=None if winner is None else digests[winner],
            decision=Decision(gate="greedy", verdict=verdict, winner=winner, reason=reason),
        ),
    )


def move(journal: MemoryJournal, origin: str, target: str, generation: int, track: str = "t") -> None:
    moved = TrackMoved(track=track, origin=origin, target=target, generation=generation, why=f"{target} won")
    journal.append("track.moved", moved)


@pytest.fixture
def journal() -> MemoryJournal:
    """Start s; then a beats b; then c fails, with a duplicate and two invalid ones; then d wins and e stays open."""
    journal = MemoryJournal()
    add(journal, "s", None, (0, 0))
    journal.append("generation.started", GenerationStarted(generation=1, incumbent="s"))
    journal.append("proposal", Proposed(generation=1, index=0, digest="a"))
    add(journal, "a", "s", (1, 0))
    add(journal, "b", "s", (1, 1))
    decide(journal, Verdict.ACCEPT, "b", "a", winner=1, reason="+10 points")
    move(journal, "s", "a", 1)
    journal.append("generation.started", GenerationStarted(generation=2, incumbent="a"))
    add(journal, "c", "a", (2, 0))
    journal.append("proposal", Proposed(generation=2, index=1, digest="b", duplicate_of="b", note="again"))
    journal.append("proposal", Proposed(generation=2, index=2, digest=None, error="no JSON"))
    journal.append("proposal", Proposed(generation=2, index=3, digest="x", error="leak"))
    decide(journal, Verdict.REJECT, "c", winner=0, reason="not above 0")
    journal.append("generation.started", GenerationStarted(generation=3, incumbent="a"))
    add(journal, "d", "a", (3, 0))
    add(journal, "e", "a", (3, 1))
    decide(journal, Verdict.ACCEPT, "d", winner=0, reason="+5 points")
    move(journal, "a", "d", 3)
    return journal


def test_every_candidate_has_its_status_and_reason(journal: MemoryJournal) -> None:
    lineage = Lineage.replay(journal.read_from(0))
    told = [(node.digest, node.generation, node.index, node.status, node.reason) for node in lineage.nodes]
    assert told == [
        ("s", 0, 0, NodeStatus.START, ""),
        ("a", 1, 0, NodeStatus.ACCEPTED, "a won"),
        ("b", 1, 1, NodeStatus.REJECTED, "another candidate of its generation was better"),
        ("c", 2, 0, NodeStatus.REJECTED, "not above 0"),
        ("b", 2, 1, NodeStatus.DUPLICATE, "the same content as b"),
        (None, 2, 2, NodeStatus.INVALID, "no JSON"),
        ("x", 2, 3, NodeStatus.INVALID, "leak"),
        ("d", 3, 0, NodeStatus.HEAD, "d won"),
        ("e", 3, 1, NodeStatus.OPEN, ""),
    ]
    assert [node.track for node in lineage.wasted] == ["t", "t", "t"]
    assert [node.parent for node in lineage.wasted] == ["a", "a", "a"]
    assert lineage.candidates["c"].note == "note c"


def test_heads_paths_and_the_start_follow_the_moves(journal: MemoryJournal) -> None:
    lineage = Lineage.replay(journal.read_from(0))
    assert lineage.heads == {"t": "d"}
    assert lineage.head("t").digest == "d"
    assert lineage.start("t").digest == "s"
    assert [node.digest for node in lineage.past_heads("t")] == ["s", "a", "d"]
    assert [node.digest for node in lineage.path("t")] == ["s", "a", "d"]
    with pytest.raises(KeyError):
        lineage.head("another")


def test_the_path_is_ancestry_where_heads_do_not_descend_from_each_other() -> None:
    """Best of N: every candidate is made from the start."""
    journal = MemoryJournal()
    add(journal, "s", None, (0, 0))
    for index, digest in enumerate("ab"):
        add(journal, digest, "s", (1, index))
    move(journal, "s", "a", 1)
    move(journal, "a", "b", 2)
    lineage = Lineage.replay(journal.read_from(0))
    assert [node.digest for node in lineage.path("t")] == ["s", "b"]
    assert [node.digest for node in lineage.past_heads("t")] == ["s", "a", "b"]


@pytest.mark.parametrize(
    ("verdict", "status"), [(Verdict.UNDECIDED, NodeStatus.UNDECIDED), (Verdict.CONFIRM, NodeStatus.OPEN)]
)
def test_undecided_and_confirm_reject_nobody(verdict: Verdict, status: NodeStatus) -> None:
    journal = MemoryJournal()
    add(journal, "s", None, (0, 0))
    add(journal, "a", "s", (1, 0))
    add(journal, "b", "s", (1, 1))
    decide(journal, verdict, "a", "b", winner=0, reason="too few")
    nodes = Lineage.replay(journal.read_from(0)).candidates
    assert [(nodes[digest].status, nodes[digest].reason) for digest in "ab"] == [(status, "too few")] * 2


def test_nothing_improved_leaves_the_start_as_head() -> None:
    journal = MemoryJournal()
    add(journal, "s", None, (0, 0))
    add(journal, "a", "s", (1, 0))
    decide(journal, Verdict.REJECT, "a", winner=None, reason="nothing measured")
    lineage = Lineage.replay(journal.read_from(0))
    assert (lineage.head("t").digest, lineage.head("t").status) == ("s", NodeStatus.START)
    assert lineage.candidates["a"].reason == "nothing measured"


def test_tracks_are_kept_apart() -> None:
    journal = MemoryJournal()
    add(journal, "s", None, (0, 0), track="harness")
    add(journal, "w", None, (0, 0), track="weights")
    add(journal, "v", "w", (1, 0), track="weights")
    move(journal, "w", "v", 1, track="weights")
    assert Lineage.replay(journal.read_from(0)).heads == {"harness": "s", "weights": "v"}


def test_a_head_can_go_back_to_the_start() -> None:
    journal = MemoryJournal()
    add(journal, "s", None, (0, 0))
    add(journal, "a", "s", (1, 0))
    move(journal, "s", "a", 1)
    move(journal, "a", "s", 2)
    lineage = Lineage.replay(journal.read_from(0))
    assert lineage.heads == {"t": "s"}
    assert lineage.candidates["a"].status is NodeStatus.ACCEPTED


def test_a_move_to_what_was_never_added_is_a_store_error() -> None:
    journal = MemoryJournal()
    add(journal, "s", None, (0, 0))
    move(journal, "s", "ghost", 1)
    with pytest.raises(StoreError, match="'ghost'"):
        Lineage.replay(journal.read_from(0))


def test_applying_event_by_event_equals_replaying_all(journal: MemoryJournal) -> None:
    lineage = Lineage()
    for event in journal.read_from(0):
        lineage.apply(event)
    assert lineage == Lineage.replay(journal.read_from(0))
