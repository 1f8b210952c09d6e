"""A task file in the test's own folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def write_tasks(tmp_path: Path) -> Callable[..., str]:
    """Write rows to a JSONL file, return its path."""

    def write(rows: Sequence[dict[str, Any]], *, name: str = "tasks.jsonl") -> str:
        path = tmp_path / name
        path.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
        return str(path)

    return write
