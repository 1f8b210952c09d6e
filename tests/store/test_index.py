from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.errors import StoreError
from heldout.records import Outcome, OutcomeStatus
from heldout.store import Index, Journal, RunFolder
from heldout.store.events import CandidateAdded

MakeOutcome = Callable[[int], Outcome]


@pytest.fixture
def run(tmp_path: Path, outcome: MakeOutcome) -> RunFolder:
    """A run with one candidate event, then eleven outcomes of which the last is not measured."""
    folder = RunFolder.create(tmp_path / "run")
    with Journal.open(folder.events, clock=lambda: 1.5) as journal:
        journal.append("candidate", CandidateAdded(digest="d", parent=None, generation=0, index=0, note="ü"))
        for number in range(10):
            journal.append("outcome", outcome(number))
        missing = Outcome(
            key="m",
            purpose="audit",
            candidate="d",
            task="t",
            repeat=2,
            seed=2**64 - 1,
            status=OutcomeStatus.NOT_MEASURED,
            error="timeout",
        )
        journal.append("outcome", missing)
    return folder


def content(index: Index) -> list[list[tuple[object, ...]]]:
    return [
        [tuple(row) for row in index.connection.execute(f"SELECT * FROM {table}")] for table in ("events", "outcomes")
    ]


def grow(run: RunFolder, outcome: MakeOutcome, numbers: range) -> None:
    with Journal.open(run.events) as journal:
        for number in numbers:
            journal.append("outcome", outcome(number))


def identity(run: RunFolder) -> tuple[int, int]:
    return run.index.stat().st_ino, run.index.stat().st_mtime_ns


def test_rows_hold_what_the_journal_holds(run: RunFolder) -> None:
    with Index.open(run) as index:
        (event,) = index.connection.execute("SELECT * FROM events").fetchall()
        assert (event["seq"], event["at"], event["kind"]) == (0, 1.5, "candidate")
        assert json.loads(event["data"]) == {"digest": "d", "parent": None, "generation": 0, "index": 0, "note": "ü"}
        first, *_, last = index.connection.execute("SELECT * FROM outcomes ORDER BY seq").fetchall()
        assert dict(first) == {
            "seq": 1,
            "key": "key-0",
            "purpose": "select",
            "candidate": "c" * 64,
            "task": "task-0",
            "repeat": 0,
            "seed": 0,
            "score": 0.0,
            "status": "failed",
            "answer": "location",
            "error": None,
            "evaluations": 1,
            "calls": 1,
            "tokens_in": 120,
            "tokens_out": 4,
            "cost_usd": 0.0,
            "wall_s": 0.0123,
            "cpu_s": 0.01,
            "gpu_s": 0.0,
            "measures": None,
            "artifacts": None,
        }
        assert (last["score"], last["status"], last["error"], last["repeat"]) == (None, "not_measured", "timeout", 2)
        assert (last["seed"], last["evaluations"], last["answer"]) == (str(2**64 - 1), 0, None)
        mean = "SELECT avg(score) FROM outcomes WHERE purpose = 'select' AND candidate = ?"
        assert index.connection.execute(mean, ("c" * 64,)).fetchone()[0] == 0.5


def test_what_an_episode_counted_and_made_is_kept_as_json(run: RunFolder, outcome: MakeOutcome) -> None:
    told = {"measures": {"recoveries": 1.0}, "artifacts": {"SKILL.md": "5c"}}
    with Journal.open(run.events) as journal:
        journal.append("outcome", outcome(20).model_copy(update=told))
    with Index.open(run) as index:
        row = index.connection.execute("SELECT * FROM outcomes ORDER BY seq DESC").fetchone()
        place = "SELECT json_extract(artifacts, '$.\"SKILL.md\"') FROM outcomes WHERE artifacts IS NOT NULL"
        assert index.connection.execute(place).fetchall()[0][0] == "5c"
    assert (json.loads(row["measures"]), json.loads(row["artifacts"])) == ({"recoveries": 1.0}, {"SKILL.md": "5c"})


def test_the_query_by_purpose_and_candidate_uses_its_index(run: RunFolder) -> None:
    with Index.open(run) as index:
        for query in (
            "SELECT * FROM outcomes WHERE purpose = 'select' AND candidate = 'c'",
            "SELECT * FROM events WHERE kind = 'decision'",
        ):
            plan = index.connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchone()["detail"]
            assert "USING INDEX" in plan


def test_a_current_index_is_opened_as_it_is(run: RunFolder) -> None:
    Index.open(run).close()
    before = identity(run)
    Index.open(run.path).close()
    assert identity(run) == before


def test_a_grown_journal_is_indexed_on_from_where_it_was(run: RunFolder, outcome: MakeOutcome) -> None:
    Index.open(run).close()
    inode = run.index.stat().st_ino
    grow(run, outcome, range(10, 30))
    with Index.open(run) as index:
        extended = content(index)
    assert run.index.stat().st_ino == inode
    run.index.unlink()
    with Index.open(run) as index:
        assert content(index) == extended
    assert len(extended[1]) == 31


def test_growing_verifies_only_what_is_new_but_that_it_does(run: RunFolder, outcome: MakeOutcome) -> None:
    Index.open(run).close()
    grow(run, outcome, range(10, 13))
    data = bytearray(run.events.read_bytes())
    data[-400] ^= 1
    run.events.write_bytes(data)
    with pytest.raises(StoreError, match=r"line 14 of .*damaged"):
        Index.open(run)


@pytest.mark.parametrize("damage", ["empty", "rubbish", "cut", "header", "other tables", "no row", "other version"])
def test_a_damaged_index_is_rebuilt(run: RunFolder, damage: str) -> None:
    with Index.open(run) as index:
        expected = content(index)
    whole = run.index.read_bytes()
    if damage == "empty":
        run.index.write_bytes(b"")
    elif damage == "rubbish":
        run.index.write_bytes(b"rubbish" * 1000)
    elif damage == "cut":
        run.index.write_bytes(whole[:-4096])
    elif damage == "header":
        run.index.write_bytes(b"x" * 100 + whole[100:])
    else:
        change = {
            "other tables": "DROP TABLE meta",
            "no row": "DELETE FROM meta",
            "other version": "UPDATE meta SET version = 0",
        }[damage]
        connection = sqlite3.connect(run.index)
        connection.execute(change)
        connection.commit()
        connection.close()
    with Index.open(run) as index:
        assert content(index) == expected


def test_the_index_of_another_journal_is_rebuilt(run: RunFolder, outcome: MakeOutcome) -> None:
    Index.open(run).close()
    run.events.unlink()
    grow(run, outcome, range(100, 140))
    with Index.open(run) as index:
        assert len(content(index)[0]) == 0
        assert [row[0] for row in content(index)[1]] == list(range(40))


def test_an_empty_journal_and_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no journal"):
        Index.open(tmp_path)
    (tmp_path / "events.jsonl").touch()
    with Index.open(tmp_path) as index:
        assert content(index) == [[], []]
    with Index.open(tmp_path) as index:
        assert content(index) == [[], []]


def test_a_torn_line_is_not_indexed(run: RunFolder, outcome: MakeOutcome) -> None:
    run.events.write_bytes(run.events.read_bytes()[:-10])
    for _ in range(2):
        with Index.open(run) as index:
            assert len(content(index)[1]) == 10
    grow(run, outcome, range(50, 51))
    with Index.open(run) as index:
        assert [row[1] for row in content(index)[1]][-2:] == ["key-9", "key-50"]


def test_an_open_index_is_a_snapshot_and_cannot_be_written(run: RunFolder, outcome: MakeOutcome) -> None:
    with Index.open(run) as old:
        grow(run, outcome, range(10, 20))
        with Index.open(run) as new:
            assert len(content(new)[1]) == 21
        assert len(content(old)[1]) == 11
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            old.connection.execute("DELETE FROM outcomes")


def test_a_folder_that_cannot_be_written_is_indexed_in_memory(run: RunFolder) -> None:
    with Index.open(run) as index:
        expected = content(index)
    run.index.unlink()
    run.index.mkdir()
    with Index.open(run) as index:
        assert content(index) == expected
        assert index.connection.execute("PRAGMA database_list").fetchone()["file"] == ""


def test_a_read_only_mount_is_indexed_in_memory(run: RunFolder) -> None:
    mount = f"mount --bind {run.path} {run.path} && mount -o remount,ro,bind {run.path}"
    unshare = ["unshare", "-rm", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    try:
        allowed = subprocess.run([*unshare, "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("this machine lets nobody mount a file system")
    script = (
        "import sys; from heldout.store import Index\n"
        "print(Index.open(sys.argv[1]).connection.execute('SELECT count(*) FROM outcomes').fetchone()[0])"
    )
    for prepare in (lambda: None, Index.open(run).close):
        prepare()
        done = subprocess.run(
            [*unshare, sys.executable, "-c", script, os.fspath(run)], check=False, capture_output=True, text=True
        )
        assert (done.stdout, done.stderr) == ("11\n", "")


def test_many_readers_beside_a_writer_never_meet_a_locked_database(run: RunFolder, outcome: MakeOutcome) -> None:
    """Each open brings the index up to date, so that every reader is an updater too."""
    faults: list[BaseException] = []
    counts: list[list[int]] = [[], [], [], []]
    done = threading.Event()

    def read(mine: list[int]) -> None:
        while not done.is_set():
            try:
                with Index.open(run) as index:
                    assert index.connection.execute("PRAGMA database_list").fetchone()["file"] == str(run.index)
                    mine.append(index.connection.execute("SELECT count(*) FROM outcomes").fetchone()[0])
            except (sqlite3.Error, AssertionError) as fault:
                faults.append(fault)

    readers = [threading.Thread(target=read, args=(mine,)) for mine in counts]
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + 1.5
    with Journal.open(run.events) as journal:
        number = 10
        while time.monotonic() < deadline:
            journal.append("outcome", outcome(number))
            number += 1
            time.sleep(0.001)
    done.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert all(mine == sorted(mine) and len(set(mine)) > 3 for mine in counts)
    with Index.open(run) as index:
        assert len(content(index)[1]) == number + 1


@pytest.mark.slow
def test_a_hundred_thousand_outcomes_are_indexed_quickly(tmp_path: Path, outcome: MakeOutcome) -> None:
    """The bars of the issue, with room for a busy machine; `bench/` measures them."""
    folder = RunFolder.create(tmp_path / "run")
    grow(folder, outcome, range(100_000))
    began = time.perf_counter()
    Index.open(folder).close()
    built = time.perf_counter()
    Index.open(folder).close()
    assert built - began < 4.5
    assert time.perf_counter() - built < 0.15
