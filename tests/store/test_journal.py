from __future__ import annotations

import json
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heldout.errors import StoreError
from heldout.records import Decision, Outcome, OutcomeStatus, Verdict
from heldout.store import EventLog, Journal, read_events
from heldout.store.events import Decided
from heldout.testing import MemoryJournal
from heldout.testing.contracts import JournalContract

MakeOutcome = Callable[[int], Outcome]


class TestJournal(JournalContract):
    @pytest.fixture
    def make_journal(self, tmp_path: Path) -> Callable[[], EventLog]:
        return lambda: Journal.open(tmp_path / "events.jsonl")


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    def make_journal(self) -> Callable[[], EventLog]:
        return MemoryJournal


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_a_line_is_plain_json_with_a_chained_checksum(five: Path) -> None:
    first, second = lines_of(five)[:2]
    assert first.startswith(b'{"seq":0,"at":1000.0,"kind":"outcome","data":{"key":"key-0",')
    sum_0 = blake2b(b"0" * 16 + first[: first.index(b',"sum"')], digest_size=8).hexdigest()
    sum_1 = blake2b(sum_0.encode() + second[: second.index(b',"sum"')], digest_size=8).hexdigest()
    assert json.loads(first)["sum"] == sum_0
    assert json.loads(second)["sum"] == sum_1


def test_a_reopened_journal_goes_on_where_it_stopped(five: Path, outcome: MakeOutcome) -> None:
    with Journal.open(five) as journal:
        assert len(journal) == 5
        assert journal.dropped == ""
        assert journal.append("outcome", outcome(5)).seq == 5
    assert [event.data["key"] for event in read_events(five)] == [f"key-{i}" for i in range(6)]


@pytest.mark.parametrize("cut", [1, 2, 30, 200])
def test_a_torn_last_line_is_cut_off_and_told(five: Path, outcome: MakeOutcome, cut: int) -> None:
    whole = five.read_bytes()
    last = lines_of(five)[-1]
    five.write_bytes(whole[:-cut])
    with Journal.open(five) as journal:
        assert journal.dropped == last[:-cut].decode()
        assert len(journal) == 4
        assert five.read_bytes() == whole[: -len(last)]
        journal.append("outcome", outcome(9))
    assert [event.data["key"] for event in read_events(five)] == ["key-0", "key-1", "key-2", "key-3", "key-9"]


@pytest.mark.parametrize("tail", [b"\0" * 64, b"\xff\xfe\n", b'{"seq":5,"at":1.0,"kind":"outcome"}\n'])
def test_rubbish_after_the_last_line_is_cut_off(five: Path, tail: bytes) -> None:
    whole = five.read_bytes()
    five.write_bytes(whole + tail)
    with Journal.open(five) as journal:
        assert len(journal) == 5
        assert journal.dropped == tail.decode(errors="replace")
    assert five.read_bytes() == whole


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_flipped_bit_in_a_middle_line_stops_with_its_number(five: Path, number: int) -> None:
    lines = lines_of(five)
    for place in range(0, len(lines[number - 1]), 37):
        damaged = bytearray(lines[number - 1])
        damaged[place] ^= 1
        content = b"".join([*lines[: number - 1], bytes(damaged), *lines[number:]])
        five.write_bytes(content)
        with pytest.raises(StoreError, match=rf"line {number} of .*damaged"):
            Journal.open(five)
        with pytest.raises(StoreError, match=rf"line {number} of .*damaged"):
            list(read_events(five))
        assert five.read_bytes() == content


def test_a_flipped_bit_in_the_last_line_drops_it(five: Path) -> None:
    damaged = bytearray(five.read_bytes())
    damaged[-60] ^= 1
    five.write_bytes(damaged)
    with Journal.open(five) as journal:
        assert len(journal) == 4
        assert "key-4" in journal.dropped


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_swapped_lines_are_found(five: Path, place: int) -> None:
    lines = lines_of(five)
    lines[place], lines[place + 1] = lines[place + 1], lines[place]
    five.write_bytes(b"".join(lines))
    with pytest.raises(StoreError, match=rf"line {place + 1} of .*event {place + 1} where event {place} belongs"):
        Journal.open(five)


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_missing_line_is_found_even_before_the_last_one(five: Path, place: int) -> None:
    lines = lines_of(five)
    del lines[place]
    five.write_bytes(b"".join(lines))
    with pytest.raises(StoreError, match=rf"line {place + 1} of .*missing or moved"):
        Journal.open(five)


def test_a_line_of_another_journal_is_found(five: Path, tmp_path: Path, outcome: MakeOutcome) -> None:
    with Journal.open(tmp_path / "other.jsonl") as other:
        for number in range(5):
            other.append("outcome", outcome(number))
    lines = lines_of(five)
    lines[2] = lines_of(tmp_path / "other.jsonl")[2]
    five.write_bytes(b"".join(lines))
    with pytest.raises(StoreError, match=r"line 3 of .*checksum"):
        Journal.open(five)


@pytest.mark.parametrize("content", [b'{"task": "a", "score": 1}\n', b"hello", b"\n"])
def test_a_file_of_somebody_else_is_never_cut(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="not written by Heldout"):
        Journal.open(path)
    assert path.read_bytes() == content


def test_a_torn_first_line_is_cut_off(five: Path) -> None:
    five.write_bytes(lines_of(five)[0][:20])
    with Journal.open(five) as journal:
        assert len(journal) == 0
        assert journal.dropped == '{"seq":0,"at":1000.0'


def test_what_cannot_hold_a_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a regular file"):
        Journal.open(tmp_path)
    with pytest.raises(StoreError, match="not a regular file"):
        Journal.open(Path("/dev/full"))
    with pytest.raises(StoreError, match="cannot create"):
        Journal.open(tmp_path / "no" / "events.jsonl")
    with pytest.raises(StoreError, match="cannot read"):
        list(read_events(tmp_path / "events.jsonl"))


def test_a_reader_stops_before_a_line_in_the_making_and_writes_nothing(five: Path) -> None:
    torn = five.read_bytes()[:-40]
    five.write_bytes(torn)
    assert [event.seq for event in read_events(five)] == [0, 1, 2, 3]
    assert five.read_bytes() == torn


def test_reading_while_writing_sees_every_event_so_far(five: Path, outcome: MakeOutcome) -> None:
    with Journal.open(five) as journal:
        for number in range(5, 50):
            journal.append("outcome", outcome(number))
            assert sum(1 for _ in read_events(five)) == number + 1
        running = journal.read_from(48)
        assert next(running).seq == 48
        journal.append("outcome", outcome(50))
        assert [event.seq for event in running] == [49]


def test_infinite_evidence_comes_back(tmp_path: Path) -> None:
    decision = Decision(gate="bayes_pilot", verdict=Verdict.REJECT, evidence={"threshold": float("inf")})
    decided = Decided(
        generation=1, incumbent="a", candidates=(), incumbent_score=None, scores=(), winner=None, decision=decision
    )
    with Journal.open(tmp_path / "events.jsonl") as journal:
        journal.append("decision", decided)
        (event,) = journal.read_from(0)
    assert Decided.model_validate(event.data) == decided


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.text(),
            st.none() | st.floats(0, 1),
            st.none() | st.text(),
            st.floats(0, 4e9),
            st.integers(-(2**70), 2**70),
        ),
        max_size=8,
    )
)
def test_any_outcome_comes_back_exactly(
    tmp_path: Path, rows: list[tuple[str, float | None, str | None, float, int]]
) -> None:
    path = tmp_path / "events.jsonl"
    path.unlink(missing_ok=True)
    clock = iter([at for *_, at, _ in rows])
    outcomes = [
        Outcome(
            key=text,
            purpose="select",
            candidate="c",
            task=text,
            seed=seed,
            score=score,
            status=OutcomeStatus.NOT_MEASURED if score is None else OutcomeStatus.PASSED,
            answer=answer,
        )
        for text, score, answer, _, seed in rows
    ]
    with Journal.open(path, clock=lambda: next(clock)) as journal:
        appended = [journal.append("outcome", outcome) for outcome in outcomes]
    with Journal.open(path) as journal:
        events = list(journal.read_from(0))
    assert events == appended == list(read_events(path))
    assert [Outcome.model_validate(event.data) for event in events] == outcomes
    assert [event.at for event in events] == [at for *_, at, _ in rows]
    assert path.read_bytes().count(b"\n") == len(rows)


@pytest.mark.slow
def test_a_hundred_thousand_outcomes_are_quick(tmp_path: Path, outcome: MakeOutcome) -> None:
    """The bars of the issue, with room for a busy machine; `bench/` measures them."""
    payload = outcome(1)
    path = tmp_path / "events.jsonl"
    with Journal.open(path) as journal:
        began = time.perf_counter()
        for _ in range(100_000):
            journal.append("outcome", payload)
        assert (time.perf_counter() - began) / 100_000 < 75e-6
    began = time.perf_counter()
    with Journal.open(path) as journal:
        assert sum(1 for _ in journal.read_from(0)) == 100_000
    assert time.perf_counter() - began < 3.6
