"""A SQLite view of the journal for queries: rebuilt when absent, damaged or of another journal, else only extended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic_core import from_json

from heldout.errors import StoreError
from heldout.records import Outcome, Spend
from heldout.store.lines import SEAL_BYTES, START, LineReader, Position

__all__ = ["Index"]

_VERSION = 3
"""Raised whenever the tables change; another version is rebuilt."""

_TABLES = """
CREATE TABLE meta (version INTEGER, events INTEGER, offset INTEGER, sum BLOB);
CREATE TABLE events (seq INTEGER PRIMARY KEY, at REAL, kind TEXT, data TEXT);
CREATE TABLE outcomes (
    seq INTEGER PRIMARY KEY, key TEXT, purpose TEXT, candidate TEXT, task TEXT, repeat INTEGER, seed, score REAL,
    status TEXT, answer TEXT, error TEXT, evaluations INTEGER, calls INTEGER, tokens_in INTEGER, tokens_out INTEGER,
    cost_usd REAL, wall_s REAL, cpu_s REAL, gpu_s REAL, measures TEXT, artifacts TEXT
);
"""

_INDEXES = """
CREATE INDEX events_kind ON events (kind);
CREATE INDEX outcomes_purpose_candidate ON outcomes (purpose, candidate);
"""

_BATCH = 5000

_WAIT_S = 10.0
"""How long a reader waits for the moment in which an updater holds the file."""


class Index:
    """An open, read-only index of one run's journal, as it was when the index was opened.

    `events` holds every kind but outcomes, with `data` as JSON without default values; `outcomes` has
    one row for each, with `measures` and `artifacts` as JSON, NULL where there are none. Any number of
    readers may be open while the run goes on.
    """

    connection: sqlite3.Connection
    """Rows are `sqlite3.Row`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use `Index.open`."""
        connection.row_factory = sqlite3.Row
        self.connection = connection

    @classmethod
    def open(cls, run: str | os.PathLike[str]) -> Self:
        """Open the index of a run's folder, bringing it up to date first.

        In a folder that cannot be written it is built in memory. A damaged journal raises `StoreError`.
        """
        journal, path = Path(run) / "events.jsonl", Path(run) / "index.sqlite"
        if not journal.is_file():
            raise StoreError(f"no journal {str(journal)!r} to index")
        try:
            if not _is_current(path, journal):
                with _sole_updater(journal):
                    _update(path, journal)
            connection = _read_only(path)
            # One snapshot for every query, whatever is indexed meanwhile.
            connection.execute("BEGIN")
            connection.execute("SELECT * FROM meta").fetchall()
        except (sqlite3.DatabaseError, OSError):
            connection = sqlite3.connect(":memory:")
            _build(connection, journal)
        return cls(connection)

    def close(self) -> None:
        """Give the file back."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextlib.contextmanager
def _sole_updater(journal: Path) -> Iterator[None]:
    """One process at a time updates. The journal's own file carries the lock: its writer takes another one."""
    with journal.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read_only(path: Path) -> sqlite3.Connection:
    """Connect for reading, and retry while an updater has the file to itself."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_S)
        try:
            connection.execute("SELECT * FROM meta").fetchall()
            return connection
        except sqlite3.OperationalError as cause:
            connection.close()
            if "locked" not in str(cause) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        except sqlite3.DatabaseError:
            connection.close()
            raise


def _indexed(path: Path) -> Position | None:
    """Up to where in the journal the index goes; None where there is no usable one."""
    try:
        if not _is_whole(path):
            return None
        with contextlib.closing(_read_only(path)) as connection:
            version, *fields = connection.execute("SELECT version, events, offset, sum FROM meta").fetchone()
    except (sqlite3.DatabaseError, OSError, TypeError, ValueError):
        return None
    return Position(*fields) if version == _VERSION else None


def _is_whole(path: Path) -> bool:
    """Whether the file is as long as its header says: SQLite itself would notice only at the missing page."""
    with path.open("rb") as file:
        header = file.read(100)
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    return len(header) == 100 and path.stat().st_size >= (65536 if page == 1 else page) * pages


def _is_current(path: Path, journal: Path) -> bool:
    position = _indexed(path)
    return position is not None and position.offset == journal.stat().st_size and _continues(journal, position)


def _continues(journal: Path, position: Position) -> bool:
    """Whether this journal has the indexed events at its beginning (its checksums are chained)."""
    if position == START:
        return True
    with journal.open("rb") as file:
        file.seek(max(position.offset - SEAL_BYTES, 0))
        return file.read(SEAL_BYTES) == b',"sum":"%b"}\n' % position.sum


def _update(path: Path, journal: Path) -> None:
    position = _indexed(path)
    if position is not None and _continues(journal, position):
        with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(_writable(path)) as connection:
            with connection:
                _fill(connection, journal, start=position)
            return
    _rebuild(path, journal)


def _writable(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT_S)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _rebuild(path: Path, journal: Path) -> None:
    """A whole new file, put in place when it is complete."""
    fresh = path.with_name(f".{path.name}.part")
    for leftover in (fresh, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))):
        leftover.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(fresh)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        _build(connection, journal)
        connection.execute("PRAGMA journal_mode = WAL")
    fresh.replace(path)


def _build(connection: sqlite3.Connection, journal: Path) -> None:
    connection.executescript(_TABLES)
    connection.execute("INSERT INTO meta VALUES (?, ?, ?, ?)", (_VERSION, START.events, START.offset, START.sum))
    _fill(connection, journal, start=START)
    connection.executescript(_INDEXES)
    connection.commit()


def _fill(connection: sqlite3.Connection, journal: Path, *, start: Position) -> None:
    """Add the journal's events from `start` on, and note how far it went."""
    with journal.open("rb") as file:
        reader = LineReader(file, start)
        lines = iter(reader)
        while batch := list(islice(lines, _BATCH)):
            events: list[tuple[Any, ...]] = []
            outcomes: list[tuple[Any, ...]] = []
            for line in batch:
                event = from_json(line)
                if event["kind"] == "outcome":
                    outcomes.append(_outcome_row(event["seq"], event["data"]))
                else:
                    text = line[:-SEAL_BYTES].partition(b',"data":')[2].decode()
                    events.append((event["seq"], event["at"], event["kind"], text))
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", events)
            connection.executemany(f"INSERT INTO outcomes VALUES ({', '.join('?' * 21)})", outcomes)
        end = reader.position
    connection.execute("UPDATE meta SET events = ?, offset = ?, sum = ?", (end.events, end.offset, end.sum))


_OUTCOME: Mapping[str, Any] = {
    name: field.default for name, field in Outcome.model_fields.items() if not field.is_required()
}
_SPEND: Mapping[str, Any] = Spend().model_dump()


def _outcome_row(seq: int, data: dict[str, Any]) -> tuple[Any, ...]:
    row = {**_OUTCOME, **data}
    spend = {**_SPEND, **data.get("spend", {})}
    seed = row["seed"]
    return (
        seq,
        row["key"],
        row["purpose"],
        row["candidate"],
        row["task"],
        row["repeat"],
        seed if -(1 << 63) <= seed < 1 << 63 else str(seed),
        row["score"],
        row["status"],
        row["answer"],
        row["error"],
        *spend.values(),
        _json(data.get("measures")),
        _json(data.get("artifacts")),
    )


def _json(named: Mapping[str, Any] | None) -> str | None:
    return json.dumps(named) if named else None
