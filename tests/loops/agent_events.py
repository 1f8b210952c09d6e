"""Reading a run's events in tests."""

from __future__ import annotations

import json
from typing import Any

from heldout.store import RunFolder


def of_kind(folder: RunFolder, kind: str) -> list[dict[str, Any]]:
    """The data of every event of a kind, in order."""
    events = map(json.loads, folder.events.read_text(encoding="utf-8").splitlines())
    return [event["data"] for event in events if event["kind"] == kind]
