"""The journal's line format: a JSON object with a checksum over itself and, by chaining, every line before it.

    {"seq":0,"at":1760000000.25,"kind":"outcome","data":{…},"sum":"0123456789abcdef"}

`sum` is blake2b (8 bytes) of the previous line's sum and of this line up to `,"sum"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import BinaryIO

from pydantic_core import from_json

from heldout.errors import StoreError
from heldout.store.events import Event

__all__ = ["SEAL_BYTES", "START", "LineReader", "Position", "event_of", "seal_after", "seal_line"]

SEAL_BYTES = len(b',"sum":"0123456789abcdef"}\n')
"""Length of what follows a line's own content."""

_SEQ = re.compile(rb'\{"seq":(\d+),')


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two lines of a journal."""

    events: int
    """Lines before it."""
    offset: int
    """Bytes before it."""
    sum: bytes
    """Checksum of the line before it."""


START = Position(events=0, offset=0, sum=b"0" * 16)


def seal_after(previous: bytes, body: bytes) -> bytes:
    """The checksum, 16 hex digits, of a line with this content after a line with that checksum."""
    return blake2b(previous + body, digest_size=8).hexdigest().encode()


def seal_line(body: bytes, checksum: bytes) -> bytes:
    """The whole line, with its newline."""
    return b'%b,"sum":"%b"}\n' % (body, checksum)


def event_of(line: bytes) -> Event:
    """The event of a line that was verified; fields are not validated again."""
    fields = from_json(line)
    del fields["sum"]
    return Event.model_construct(**fields)


class LineReader:
    """Iterates over the verified lines of a journal from a position on.

    A line that a killed writer left half written can only be the last one: the iteration ends before it,
    and `torn` holds it. Any other damage raises `StoreError` with the line's number, counted from 1.
    """

    def __init__(self, file: BinaryIO, start: Position = START) -> None:
        self._file = file
        self._events = start.events
        self._offset = start.offset
        self._sum = start.sum
        self.torn = b""

    @property
    def position(self) -> Position:
        """Behind the last verified line."""
        return Position(self._events, self._offset, self._sum)

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(self._offset)
        for line in self._file:
            body = line[:-SEAL_BYTES]
            checksum = seal_after(self._sum, body)
            if line != seal_line(body, checksum):
                self._refuse_unless_torn(line)
                self.torn = line
                return
            self._sum = checksum
            self._events += 1
            self._offset += len(line)
            yield line

    def _refuse_unless_torn(self, line: bytes) -> None:
        fault = "its checksum does not match its content"
        found = _SEQ.match(line)
        moved = found is not None and int(found[1]) != self._events
        if found is not None and moved:
            fault = f"it holds event {int(found[1])} where event {self._events} belongs: lines are missing or moved"
        is_foreign = self._events == 0 and not line.startswith(b'{"seq":'[: len(line)])
        if is_foreign:
            fault = "it was not written by Heldout"
        is_whole = line.endswith(b"\n")
        if is_foreign or (is_whole and (moved or self._file.read(1))):
            raise StoreError(
                f"line {self._events + 1} of {str(self._file.name)!r} is damaged: {fault}; "
                "put back a copy of the file, or start a new run"
            )
