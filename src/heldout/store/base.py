"""The seam to event records: append, read back, close."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Protocol

from heldout.records import Record
from heldout.store.events import Event

__all__ = ["FULL", "EventLog"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a full disk, a quota and a limit on file sizes answer."""


class EventLog(Protocol):
    """An append-only record of a run. Safe to share between threads.

    What `append` returned for is kept, and `read_from` gives equal events back, in the order of `seq`.
    """

    def append(self, kind: str, payload: Record) -> Event:
        """Record one event; `payload` is an instance of `PAYLOADS[kind]`, else `StoreError`.

        `Event.data` leaves out the payload's fields that have their default value.
        """

    def read_from(self, seq: int) -> Iterator[Event]:
        """Events from `seq` on that were recorded before the iteration began; nothing at or past the end."""

    def close(self) -> None:
        """Make everything durable. Safe to call twice; `append` raises `StoreError` afterwards."""
