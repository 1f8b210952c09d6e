"""Reading a finished run's journal in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heldout.store import RunFolder, read_events

__all__ = ["of_kind", "paid"]


def of_kind(folder: RunFolder, kind: str) -> list[Mapping[str, Any]]:
    """Data of every event of a kind, in order."""
    return [event.data for event in read_events(folder.events) if event.kind == kind]


def paid(folder: RunFolder, purpose: str | None = None) -> int:
    """Evaluations that were paid for."""
    return sum(purpose is None or data["purpose"] == purpose for data in of_kind(folder, "outcome"))
