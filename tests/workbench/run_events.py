"""Small tasks on disk, and reading a finished run's journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heldout.config import RunConfig
from heldout.store import RunFolder, read_events
from heldout.store.toml import toml_text

__all__ = ["of_kind", "paid", "rows_file", "written"]

NOUNS = ("river", "engine", "violin", "desert", "captain", "ladder", "pepper", "window", "garden", "bridge")


def rows_file(path: Path, *, labels: Mapping[str, str] | None = None) -> Path:
    """A file of 120 two-class tasks; `labels` replaces some answers."""
    lines = []
    for number in range(120):
        noun, other = NOUNS[number % 10], NOUNS[(number // 10 + 3) % 10]
        text = f"{number * 7919 % 1000} {noun} {other} {number * 104729 % 997} and {NOUNS[number * 3 % 10]}?"
        answer = (labels or {}).get(f"task-{number}", "big" if number % 2 else "small")
        lines.append(json.dumps({"id": f"task-{number}", "input": text, "reference": answer}) + "\n")
    path.write_text("".join(lines))
    return path


def of_kind(folder: RunFolder, kind: str) -> list[Mapping[str, Any]]:
    """Data of every event of a kind, in order."""
    return [event.data for event in read_events(folder.events) if event.kind == kind]


def paid(folder: RunFolder, purpose: str | None = None) -> int:
    """Evaluations that were paid for."""
    return sum(purpose is None or data["purpose"] == purpose for data in of_kind(folder, "outcome"))


def written(config: RunConfig, path: Path) -> str:
    """Write a config as TOML; its path."""
    path.write_text(toml_text(config.model_dump(mode="json")))
    return str(path)
