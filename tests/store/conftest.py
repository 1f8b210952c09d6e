"""Payloads and a small journal that the store's tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.records import Outcome, OutcomeStatus, Spend
from heldout.store import Journal


def _outcome(number: int) -> Outcome:
    return Outcome(
        key=f"key-{number}",
        purpose="select",
        candidate="c" * 64,
        task=f"task-{number}",
        score=float(number % 2),
        status=OutcomeStatus.PASSED if number % 2 else OutcomeStatus.FAILED,
        answer="location",
        spend=Spend(evaluations=1, calls=1, tokens_in=120, tokens_out=4, wall_s=0.0123, cpu_s=0.01),
    )


@pytest.fixture
def outcome() -> Callable[[int], Outcome]:
    """Makes the n-th of many different outcomes."""
    return _outcome


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """A closed journal of five outcomes, at seconds 1000 to 1004."""
    path = tmp_path / "events.jsonl"
    ticks = iter(range(1000, 2000))
    with Journal.open(path, clock=lambda: next(ticks)) as journal:
        for number in range(5):
            journal.append("outcome", _outcome(number))
    return path
