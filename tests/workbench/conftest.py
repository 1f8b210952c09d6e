"""Small whole runs on the simulated solver."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from run_events import rows_file
from scripted_solver import SECRET

from heldout.cli import main
from heldout.config import RunConfig, load_config
from heldout.store import RunFolder
from heldout.store.toml import toml_text
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
Command = Callable[..., tuple[int, str, str]]


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


@pytest.fixture
def heldout(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command in the temporary folder, where plug-ins are found; exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def command(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(words)
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return command


@pytest.fixture
def launch(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`heldout run` of a config, with further words; gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEST_MODEL_KEY", SECRET)

    def command(config: RunConfig, *words: str) -> tuple[int, str, str]:
        (tmp_path / "run.toml").write_text(toml_text(config.model_dump(mode="json")))
        with pytest.raises(SystemExit) as stopped:
            main(("run", "run.toml", "--out", "r", *words))
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return command


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"
