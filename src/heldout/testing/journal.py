"""A journal without a disk, for tests and simulations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from pydantic_core import from_json

from heldout.errors import StoreError
from heldout.records import Record
from heldout.store import payload_json
from heldout.store.events import Event

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """An `EventLog` in memory, as strict about kinds and payloads as the one on disk."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.events: list[Event] = []
        self._clock = clock
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self) -> int:
        return len(self.events)

    def append(self, kind: str, payload: Record) -> Event:
        """Record one event."""
        data = from_json(payload_json(kind, payload))
        with self._lock:
            if self._closed:
                raise StoreError("the journal is closed")
            event = Event(seq=len(self.events), at=self._clock(), kind=kind, data=data)
            self.events.append(event)
        return event

    def read_from(self, seq: int) -> Iterator[Event]:
        """Events from `seq` on that were recorded before the iteration began."""
        yield from self.events[max(seq, 0) :]

    def close(self) -> None:
        """Refuse further events."""
        self._closed = True
