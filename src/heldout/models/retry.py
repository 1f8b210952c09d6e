"""Trying again: exponential back-off with seeded jitter, and the server's own Retry-After."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Generic, TypeVar

from heldout.errors import ModelError

__all__ = ["Answered", "Backoff", "Transient", "retry_after_s"]

T = TypeVar("T")


class Transient(Exception):
    """An attempt failed in a way that the next one may not. It never leaves this package."""

    def __init__(self, reason: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """What an attempt returned, and how many attempts were paid for to get it."""

    value: T
    calls: int


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait `first_s` · 2^(k-1), at most `longest_s`, scaled by a jitter in [0.5, 1), after the k-th failure.

    A Retry-After lengthens the wait and never shortens it; one above `patience_s` ends the attempts at once.
    """

    retries: int
    first_s: float = 0.5
    longest_s: float = 30.0
    patience_s: float = 120.0
    sleep: Callable[[float], None] = time.sleep

    def run(self, attempt: Callable[[], T], *, what: str, seed: str) -> Answered[T]:
        """The first value that `attempt` returns; `ModelError` once the retries are used up.

        Only `Transient` is retried. `seed` fixes the jitter: different requests spread, a repeat is the same.
        """
        jitter = random.Random(seed)
        number = 1
        while True:
            try:
                return Answered(attempt(), number)
            except ModelError as refusal:
                refusal.calls = number
                raise
            except Transient as failure:
                asked_s = failure.retry_after_s or 0.0
                reason = f"{what}: {failure}"
            if number > self.retries:
                raise ModelError(f"{reason} (attempt {number} of {self.retries + 1}, no more)", calls=number)
            if asked_s > self.patience_s:
                wait = f"the server asks to wait {asked_s:.0f} s"
                raise ModelError(f"{reason} (attempt {number}; {wait})", calls=number)
            self.sleep(max(asked_s, self._wait_s(number, jitter.random())))
            number += 1

    def _wait_s(self, number: int, fraction: float) -> float:
        return min(self.longest_s, self.first_s * 2.0 ** (number - 1)) * (0.5 + 0.5 * fraction)


def retry_after_s(value: str | None, *, date: str | None = None) -> float | None:
    """Seconds that a Retry-After header asks for; None where absent or not understood.

    A date is taken relative to the reply's own Date header, so that no clock of ours is needed.
    """
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(date or "")).total_seconds())
    except (ValueError, TypeError):
        return None
