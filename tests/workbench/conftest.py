"""Small whole runs on the simulated solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from run_events import rows_file

from heldout.config import RunConfig, load_config
from heldout.store import RunFolder
from heldout.workbench import Opening, run

TINY: Mapping[str, Any] = {
    "tasks": {
        "source": "jsonl",
        "options": {"labels": "references"},
        "stratify": False,
        "duplicates": "drop",
        "train": 24,
        "select": 12,
        "audit": 20,
    },
    "solver": {"model": {"name": "simulated"}, "answer": "choose"},
    "search": {"generations": 2, "candidates": 2},
    "gate": {"kind": "greedy"},
    "noise": {"tasks": 4, "simulations": 100},
}

Config = Callable[..., RunConfig]
Finish = Callable[[RunConfig], RunFolder]


@pytest.fixture
def tiny(tmp_path: Path) -> Config:
    """A config of a run of about a hundred events, with further layers on top."""
    source = {"tasks": {"path": str(rows_file(tmp_path / "rows.jsonl"))}}
    return lambda *layers: load_config([TINY, source, *layers])


@pytest.fixture
def finish(tmp_path: Path) -> Finish:
    """Run a config in a new folder."""
    count = iter(range(1000))
    return lambda config: run(config, Opening(tmp_path / f"run-{next(count)}", command="heldout run test"))
