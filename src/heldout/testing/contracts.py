"""One contract test class per seam: subclass it, give it the fixture that it names, and pytest does the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from heldout.errors import StoreError
from heldout.records import Outcome, OutcomeStatus, Spend
from heldout.store.base import EventLog
from heldout.store.events import CandidateAdded, GenerationStarted, TrackMoved

__all__ = ["JournalContract"]


class JournalContract:
    """What every `EventLog` keeps. Needs a fixture `make_journal` that makes a new, empty one at each call."""

    def test_appended_events_are_read_back_equal_and_in_order(self, make_journal: Callable[[], EventLog]) -> None:
        journal = make_journal()
        appended = [
            journal.append("candidate", CandidateAdded(digest="d0", parent=None, generation=0, index=0)),
            journal.append("outcome", _outcome(0)),
            journal.append(
                "track.moved", TrackMoved(track="t", origin="d0", target="d1", generation=1, why="ü\n\u2028")
            ),
        ]
        assert [event.seq for event in appended] == [0, 1, 2]
        assert [event.kind for event in appended] == ["candidate", "outcome", "track.moved"]
        assert list(journal.read_from(0)) == appended
        journal.close()

    def test_data_validates_back_to_the_payload(self, make_journal: Callable[[], EventLog]) -> None:
        journal = make_journal()
        payload = _outcome(3)
        journal.append("outcome", payload)
        (event,) = journal.read_from(0)
        assert Outcome.model_validate(event.data) == payload
        journal.close()

    def test_data_leaves_defaults_out(self, make_journal: Callable[[], EventLog]) -> None:
        journal = make_journal()
        event = journal.append("generation.started", GenerationStarted(generation=2, incumbent="d0", failures=()))
        assert event.data == {"generation": 2, "incumbent": "d0"}
        journal.close()

    def test_reading_starts_at_seq_and_past_the_end_gives_nothing(self, make_journal: Callable[[], EventLog]) -> None:
        journal = make_journal()
        appended = [journal.append("outcome", _outcome(i)) for i in range(5)]
        assert list(journal.read_from(3)) == appended[3:]
        assert list(journal.read_from(5)) == []
        assert list(journal.read_from(50)) == []
        journal.close()

    def test_an_unknown_kind_is_refused_and_named(self, make_journal: Callable[[], EventLog]) -> None:
        journal = make_journal()
        with pytest.raises(StoreError, match=r"outcom'.*outcome"):
            journal.append("outcom", _outcome(0))
        assert list(journal.read_from(0)) == []
        journal.close()

    def test_a_payload_of_another_kind_is_refused(self, make_journal: Callable[[], EventLog]) -> None:
        journal = make_journal()
        with pytest.raises(StoreError, match=r"'decision' carries Decided, not Outcome"):
            journal.append("decision", _outcome(0))
        assert list(journal.read_from(0)) == []
        journal.close()

    def test_threads_append_without_losing_or_mixing_events(self, make_journal: Callable[[], EventLog]) -> None:
        journal = make_journal()

        def work(worker: int) -> None:
            for i in range(50):
                journal.append("outcome", _outcome(worker * 50 + i))

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        events = list(journal.read_from(0))
        assert [event.seq for event in events] == list(range(200))
        assert sorted(event.data["task"] for event in events) == sorted(f"task-{i}" for i in range(200))
        journal.close()

    def test_a_closed_journal_refuses_events_and_closes_twice(self, make_journal: Callable[[], EventLog]) -> None:
        journal = make_journal()
        event = journal.append("outcome", _outcome(0))
        journal.close()
        journal.close()
        with pytest.raises(StoreError, match="closed"):
            journal.append("outcome", _outcome(1))
        assert list(journal.read_from(0)) == [event]


def _outcome(number: int) -> Outcome:
    return Outcome(
        key=f"key-{number}",
        purpose="select",
        candidate="d0",
        task=f"task-{number}",
        seed=(1 << 63) + number,
        score=0.1 * (number % 10),
        status=OutcomeStatus.PASSED if number % 10 else OutcomeStatus.FAILED,
        answer='a "quoted" answer\nof two lines',
        spend=Spend(evaluations=1, wall_s=1 / 3),
    )
