"""Reading a run's events in tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from heldout.store import RunFolder


def of_kind(folder: RunFolder, kind: str) -> list[dict[str, Any]]:
    """The data of every event of a kind, in order."""
    events = map(json.loads, folder.events.read_text(encoding="utf-8").splitlines())
    return [event["data"] for event in events if event["kind"] == kind]


def only(folder: RunFolder, kind: str) -> dict[str, Any]:
    """The data of the one event of a kind."""
    (found,) = of_kind(folder, kind)
    return found


def verdicts(folder: RunFolder) -> list[str]:
    """What was decided, in order."""
    return [data["decision"]["verdict"] for data in of_kind(folder, "decision")]


def whys(folder: RunFolder) -> list[str]:
    """The reasons of the decisions, in order."""
    return [data["decision"].get("reason", "") for data in of_kind(folder, "decision")]


def killed_after(whole: RunFolder, folder: Path, *, kind: str, count: int = 1) -> RunFolder:
    """A copy of the run as it was when so many events of this kind had been written."""
    copy = RunFolder(folder)
    shutil.copytree(whole.path, copy.path, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
    lines = whole.events.read_bytes().splitlines(keepends=True)
    ends = [at for at, line in enumerate(lines) if f'"kind":"{kind}"'.encode() in line]
    copy.events.write_bytes(b"".join(lines[: ends[count - 1] + 1]))
    return copy
