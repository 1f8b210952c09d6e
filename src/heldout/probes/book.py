"""Where probes keep what was paid for, so that a resumed run reads it instead of paying again."""

from __future__ import annotations

from typing import Protocol, TypeVar

from heldout.records import Record

__all__ = ["Book"]

R = TypeVar("R", bound=Record)


class Book(Protocol):
    """Durable steps by kind of event and key; a run's recorder is one. Safe to use from several threads.

    Keys are `round/episode/ordinal` for `probe`, `round/key` for `replay`, `round/task` for `attribution`.
    """

    def find(self, kind: str, key: str, record: type[R]) -> R | None:
        """The recorded step, or None."""

    def record(self, kind: str, payload: R) -> R:
        """Append a step, and return it as it is on record."""
