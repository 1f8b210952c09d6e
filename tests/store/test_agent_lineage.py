"""The lineage of a loop over agents: two tracks, screens, mechanical checks, a method audit."""

from __future__ import annotations

import pytest

from heldout.records import Decision, Verdict
from heldout.store import Lineage, NodeStatus
from heldout.store.agent_events import MethodAudited, RoundStarted, Screened, Smoked
from heldout.store.events import CandidateAdded, Decided, Proposed, TrackMoved
from heldout.testing import MemoryJournal


def add(journal: MemoryJournal, digest: str, parent: str | None, place: tuple[int, int], track: str) -> None:
    generation, index = place
    added = CandidateAdded(digest=digest, parent=parent, track=track, generation=generation, index=index)
    journal.append("candidate", added)


def screen(journal: MemoryJournal, number: int, candidates: tuple[str | None, ...], winner: int | None) -> None:
    zeros = (0,) * len(candidates)
    journal.append(
        "screen",
        Screened(
            round=number, tasks=("t",), canaries=(), candidates=candidates, fixed=zeros, broken=zeros, missing=zeros,
            confirmed=zeros, disqualified=("",) * len(candidates), winner=winner,
        ),
    )  # fmt: skip


@pytest.fixture
def lineage() -> Lineage:
    """Round 1 keeps b over a; round 2's only candidate c fails a check; the audit proposes d and e."""
    journal = MemoryJournal()
    add(journal, "s", None, (0, 0), "harness")
    add(journal, "m", None, (0, 0), "method")
    journal.append("round.started", RoundStarted(round=1, head="s", method="m", swept=False))
    add(journal, "a", "s", (1, 0), "harness")
    add(journal, "b", "s", (1, 1), "harness")
    journal.append("proposal", Proposed(generation=1, index=2, digest=None, error="not an edit"))
    screen(journal, 1, ("a", "b", None), 1)
    journal.append("smoke", Smoked(round=1, attempt=0, candidate="b", check=""))
    decision = Decision(gate="keep_all", verdict=Verdict.ACCEPT, winner=0, reason="kept")
    decided = Decided(
        generation=1, incumbent="s", candidates=("b",), incumbent_score=0.5, scores=(0.6,), winner="b",
        decision=decision,
    )  # fmt: skip
    journal.append("decision", decided)
    journal.append("track.moved", TrackMoved(track="harness", origin="s", target="b", generation=1, why="kept"))
    add(journal, "n", "m", (1, 0), "method")
    journal.append("track.moved", TrackMoved(track="method", origin="m", target="n", generation=1, why="edited"))
    journal.append("round.started", RoundStarted(round=2, head="b", method="n", swept=True))
    add(journal, "c", "b", (2, 0), "harness")
    screen(journal, 2, ("c",), 0)
    journal.append("smoke", Smoked(round=2, attempt=0, candidate="c", check="hooks", fault="it raised"))
    add(journal, "d", "b", (3, 0), "harness")
    add(journal, "e", "b", (3, 1), "harness")
    screen(journal, 3, ("d", "e"), 0)
    audited = MethodAudited(
        head="b", start_method="m", final_method="n", start_gain=0.0, final_gain=0.0, n=4, difference=0.0,
        interval=None, sentence="",
    )  # fmt: skip
    journal.append("meta_audit", audited)
    return Lineage.replay(journal.events)


def test_each_track_has_its_own_head(lineage: Lineage) -> None:
    assert lineage.heads == {"harness": "b", "method": "n"}
    assert lineage.start("harness").digest == "s"


def test_a_candidate_that_lost_the_screen_does_not_stay_open(lineage: Lineage) -> None:
    assert lineage.candidates["a"].status is NodeStatus.REJECTED
    assert lineage.candidates["a"].reason == "another candidate of its round was better on the screen"
    assert lineage.candidates["b"].status is NodeStatus.HEAD


def test_a_refusal_of_the_mechanical_checks_is_the_reason(lineage: Lineage) -> None:
    assert (lineage.candidates["c"].status, lineage.candidates["c"].reason) == (NodeStatus.INVALID, "hooks: it raised")


def test_nothing_of_a_method_audit_stays_open(lineage: Lineage) -> None:
    assert lineage.candidates["d"].status is lineage.candidates["e"].status is NodeStatus.REJECTED
    assert "method audit" in lineage.candidates["d"].reason


def test_an_invalid_proposal_names_the_head_of_its_round(lineage: Lineage) -> None:
    (wasted,) = lineage.wasted
    assert (wasted.parent, wasted.track, wasted.reason) == ("s", "harness", "not an edit")
