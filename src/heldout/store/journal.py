"""The journal: one append-only file of checksummed events, the truth of a run."""

from __future__ import annotations

import errno
import os
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from pydantic_core import PydanticSerializationError, from_json

from heldout.errors import StoreError
from heldout.records import Record
from heldout.store.base import FULL
from heldout.store.events import PAYLOADS, Event
from heldout.store.lines import LineReader, event_of, seal_after, seal_line

__all__ = ["Journal", "payload_json", "read_events"]

_DURABLE = frozenset({"track.moved", "decision", "audit.opened", "audit", "run.finished"})
"""Kinds that are forced to the disk at once, with everything before them: they must survive a power cut.

A killed process loses nothing either way, since every line goes to the operating system in one write.
"""


def payload_json(kind: str, payload: Record) -> str:
    """The payload as JSON, without its defaults; `StoreError` where the kind does not carry such a payload."""
    record = PAYLOADS.get(kind)
    if record is None:
        raise StoreError(f"no kind of event {kind!r}; there is {', '.join(sorted(PAYLOADS))}")
    if not isinstance(payload, record):
        raise StoreError(f"{kind!r} carries {record.__name__}, not {type(payload).__name__}")
    try:
        return payload.model_dump_json(exclude_defaults=True)
    except PydanticSerializationError as cause:
        raise StoreError(f"{kind!r} cannot be written as JSON: {cause}") from cause


def read_events(path: Path) -> Iterator[Event]:
    """Every event of a journal, verified. It never writes, and stops before a line that is being written."""
    with _open_to_read(path) as file:
        yield from map(event_of, LineReader(file))


class Journal:
    """The writer's side of an `EventLog` on disk. One process at a time may hold it (see `RunLock`).

    Events are not kept in memory; `read_from` goes back to the file.
    """

    dropped: str
    """What a torn last line held, when opening cut one off; else empty."""

    def __init__(
        self, path: Path, descriptor: int, *, reader: LineReader, starts: array[int], clock: Callable[[], float]
    ) -> None:
        """Use `Journal.open`."""
        self.path = path
        self.dropped = reader.torn.decode(errors="replace")
        self._descriptor = descriptor
        self._end = reader.position.offset
        self._sum = reader.position.sum
        self._starts = starts
        self._clock = clock
        self._lock = threading.Lock()
        self._refusal = ""

    @classmethod
    def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open or create; verify every line, and cut off a torn last one. `clock` gives Unix seconds.

        Damage before the last line raises `StoreError` with its line number, and changes nothing.
        """
        if not path.exists():
            _create(path)
        starts = array("Q")
        with _open_to_read(path) as file:
            reader = LineReader(file)
            starts.extend(reader.position.offset - len(line) for line in reader)
        try:
            if reader.torn:
                os.truncate(path, reader.position.offset)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as cause:
            raise StoreError(f"cannot write {str(path)!r}: {cause.strerror}") from cause
        return cls(path, descriptor, reader=reader, starts=starts, clock=clock)

    def __len__(self) -> int:
        return len(self._starts)

    def append(self, kind: str, payload: Record) -> Event:
        """Record one event. On `StoreError` it was not recorded, and everything before it still is."""
        data = payload_json(kind, payload)
        with self._lock:
            seq, at = len(self._starts), float(self._clock())
            body = f'{{"seq":{seq},"at":{at!r},"kind":"{kind}","data":{data}'.encode()
            checksum = seal_after(self._sum, body)
            line = seal_line(body, checksum)
            self._write(line)
            self._starts.append(self._end)
            self._end += len(line)
            self._sum = checksum
            if kind in _DURABLE:
                self._sync()
        return Event.model_construct(seq=seq, at=at, kind=kind, data=from_json(data))

    def read_from(self, seq: int) -> Iterator[Event]:
        """Events from `seq` on that were recorded before the iteration began."""
        with self._lock:
            count = len(self._starts)
            begin = self._starts[max(seq, 0)] if seq < count else self._end
        with _open_to_read(self.path) as file:
            file.seek(begin)
            for _ in range(max(seq, 0), count):
                yield event_of(file.readline())

    def close(self) -> None:
        """Make everything durable and give the file back."""
        with self._lock:
            if self._descriptor < 0:
                return
            try:
                self._sync()
            finally:
                os.close(self._descriptor)
                self._descriptor = -1
                self._refusal = f"{str(self.path)!r} is closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        if self._refusal:
            raise StoreError(self._refusal)
        try:
            written = os.write(self._descriptor, line)
        except OSError as cause:
            self._cut_back()
            raise StoreError(self._why(cause)) from cause
        if written < len(line):
            self._cut_back()
            raise StoreError(self._why(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self._end)
        except OSError as cause:
            self._refusal = f"{self._why(cause)} (its half-written last line could not be cut off)"

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as cause:
            # The kernel may have given up the unwritten pages, so that a second fsync would lie.
            self._refusal = self._why(cause)
            raise StoreError(self._refusal) from cause

    def _why(self, cause: OSError) -> str:
        reason = "the disk is full" if cause.errno in FULL else f"the disk refused a write ({cause.strerror})"
        return (
            f"{reason}: cannot add event {len(self._starts)} to {str(self.path)!r}. "
            "Nothing recorded before is lost: mend that, then go on with heldout run … --resume"
        )


def _open_to_read(path: Path) -> BinaryIO:
    if path.exists() and not path.is_file():
        raise StoreError(f"{str(path)!r} is not a regular file, so it cannot hold a journal")
    try:
        return path.open("rb")
    except OSError as cause:
        raise StoreError(f"cannot read {str(path)!r}: {cause.strerror}") from cause


def _create(path: Path) -> None:
    """An empty file whose name is on the disk too."""
    try:
        path.touch()
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as cause:
        raise StoreError(f"cannot create {str(path)!r}: {cause.strerror}") from cause
