"""A run that is killed anywhere and resumed is the same run, and pays for nothing twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_events import of_kind, paid

from heldout.config import RunConfig
from heldout.store import RunFolder
from heldout.store.toml import toml_text
from heldout.workbench import Opening, resume

Config = Callable[..., RunConfig]
Finish = Callable[[RunConfig], RunFolder]

STEPS = ("candidate", "proposal", "generation.started", "noise.estimated", "decision", "track.moved", "audit")


def same_run(a: RunFolder, b: RunFolder) -> None:
    for kind in STEPS:
        assert _lasting(a, kind) == _lasting(b, kind), kind
    assert of_kind(a, "run.finished")[-1]["final"] == of_kind(b, "run.finished")[-1]["final"]
    assert paid(a) == paid(b)
    assert len({data["key"] for data in of_kind(b, "outcome")}) == paid(b), "an evaluation was paid twice"


def test_a_kill_after_any_event_and_a_resume_give_the_same_run(tiny: Config, finish: Finish, tmp_path: Path) -> None:
    whole = finish(tiny({"seed": 3, "tasks": {"train": 12, "select": 6, "audit": 8, "reports": {"gold": 5}},
                         "audit": {"oracle": "gold"}}))  # fmt: skip
    lines = whole.events.read_bytes().splitlines(keepends=True)
    ends = {0, 1, 2, len(lines) - 1, *range(3, len(lines), 6)}
    kinds = [line.partition(b'"kind":"')[2].partition(b'"')[0].decode() for line in lines]
    ends |= {at + 1 for at, kind in enumerate(kinds) if kind != "outcome"}
    for kept in sorted(ends):
        copy = RunFolder(tmp_path / f"killed-{kept}")
        shutil.copytree(whole.path, copy.path, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
        copy.events.write_bytes(b"".join(lines[:kept]))
        resume(Opening(copy.path, command="again", resume=True))
        same_run(whole, copy)


def test_a_torn_last_line_is_dropped_and_told(tiny: Config, finish: Finish, tmp_path: Path) -> None:
    whole = finish(tiny({"seed": 3}))
    torn = RunFolder(tmp_path / "torn")
    shutil.copytree(whole.path, torn.path)
    content = torn.events.read_bytes()
    cut = content[: int(len(content) * 0.6)]
    torn.events.write_bytes(cut[:-7] if cut.endswith(b"\n") else cut)
    resume(Opening(torn.path, command="again", resume=True))
    same_run(whole, torn)
    assert of_kind(torn, "run.resumed")[0]["dropped"]
    assert "torn last line was dropped" in torn.report.read_text()


@pytest.mark.slow
def test_kill_9_at_twenty_random_moments(tiny: Config, finish: Finish, tmp_path: Path) -> None:
    config = tiny({"seed": 3, "search": {"generations": 5, "candidates": 4}, "tasks": {"select": 40, "audit": 50}})
    whole = finish(config)
    path = tmp_path / "config.toml"
    path.write_text(toml_text(config.model_dump(mode="json")))
    killed = RunFolder(tmp_path / "killed")
    rng, kills = random.Random(7), 0
    total = len(whole.events.read_bytes().splitlines())
    # Twenty moments of the run itself, so that each kill lands where something was being written.
    for moment in sorted(rng.sample(range(1, total), 20)):
        process = _start(path, killed)
        while process.poll() is None and _lines(killed) < moment:
            time.sleep(0.0005)
        kills += process.poll() is None
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert kills >= 15, "the run ended before it could be killed"
    assert _start(path, killed).wait(timeout=120) == 0
    same_run(whole, killed)


def _lasting(folder: RunFolder, kind: str) -> list[dict[str, Any]]:
    """Events without what depends on the clock, or on which other runs lie beside this one."""
    return [{k: v for k, v in data.items() if k not in ("spend", "notes")} for data in of_kind(folder, kind)]


def _start(config: Path, folder: RunFolder) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "heldout", "run", str(config), "--out", str(folder.path), "--json"]
    command += ["--resume"] if folder.is_run else []
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _lines(folder: RunFolder) -> int:
    return folder.events.read_bytes().count(b"\n") if folder.events.exists() else 0
