"""A run of `verse` that is killed in any phase and resumed keeps its heads, decisions and probe budget."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from run_events import of_kind

from heldout.config import RunConfig, load_config
from heldout.loops import preset
from heldout.store import RunFolder
from heldout.store.toml import toml_text
from heldout.workbench import Opening, resume, run

SHADOW: Mapping[str, Any] = {
    "loop": "verse",
    "tasks": {
        "grader": "heldout.studies.verse.shadow:shadow_grade",
        "train": 10,
        "select": 8,
        "audit": 8,
        "reports": {"ood": 4},
    },
    "solver": {"harness": "heldout.studies.verse.shadow:ShadowHarness", "options": {}},
    "executor": {"kind": "inline"},
}

STEPS = (
    "candidate",
    "proposal",
    "round.started",
    "submission",
    "probe",
    "screen",
    "smoke",
    "flips",
    "prediction.scored",
    "attribution",
    "ledger.signature",
    "method.edited",
    "card",
    "decision",
    "track.moved",
    "selected",
    "meta_audit",
    "audit",
)
"""Every kind of step, so that no phase is left out."""


def shadow_config(*layers: Mapping[str, Any]) -> RunConfig:
    config = load_config([preset("verse", "small"), SHADOW, *layers])
    return config.model_copy(update={"solver": config.solver.model_copy(update={"options": {}})})


def same_run(a: RunFolder, b: RunFolder) -> None:
    for kind in STEPS:
        assert _lasting(a, kind) == _lasting(b, kind), kind
    assert of_kind(a, "run.finished")[-1]["final"] == of_kind(b, "run.finished")[-1]["final"]
    assert _paid(a) == _paid(b), "work was paid twice, or left out"


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_invariant_10_a_kill_after_any_event_keeps_heads_decisions_and_spend(tmp_path: Path, every: bool) -> None:
    whole = run(shadow_config({"seed": 4}), Opening(tmp_path / "whole", command="heldout run test"))
    lines = whole.events.read_bytes().splitlines(keepends=True)
    kinds = [line.partition(b'"kind":"')[2].partition(b'"')[0].decode() for line in lines]
    missing = set(STEPS) - set(kinds) - {"prediction.scored", "meta_audit"}
    assert not missing, f"the run has no {missing}, so killing it shows nothing of them"
    steps = [(at + 1, kind) for at, kind in enumerate(kinds)]
    ends = set(dict(reversed([(kind, at) for at, kind in steps])).values()) | {at for at, _ in steps[1::80]}
    if every:
        ends |= {at for at, kind in steps if kind not in ("outcome", "replay")}
    for kept in sorted(ends):
        copy = RunFolder(tmp_path / f"killed-{kept}")
        shutil.copytree(whole.path, copy.path, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
        copy.events.write_bytes(b"".join(lines[:kept]))
        resume(Opening(copy.path, command="again", resume=True))
        same_run(whole, copy)
        shutil.rmtree(copy.path)


@pytest.mark.slow
def test_kill_9_in_the_real_sandbox_at_random_moments(tmp_path: Path) -> None:
    config = load_config([preset("verse", "small"), {"loop": "verse", "seed": 4}])
    path = tmp_path / "config.toml"
    path.write_text(toml_text(config.model_dump(mode="json")))
    whole = RunFolder(tmp_path / "whole")
    assert _start(path, whole).wait(timeout=300) == 0
    killed, kills = RunFolder(tmp_path / "killed"), 0
    total = len(whole.events.read_bytes().splitlines())
    for moment in sorted(random.Random(7).sample(range(1, total), 12)):
        process = _start(path, killed)
        while process.poll() is None and _lines(killed) < moment:
            time.sleep(0.005)
        kills += process.poll() is None
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert kills >= 8, "the run ended before it could be killed"
    assert _start(path, killed).wait(timeout=300) == 0
    same_run(whole, killed)


def _lasting(folder: RunFolder, kind: str) -> list[dict[str, Any]]:
    """Events without what depends on the clock, in an order that does not depend on which thread was first."""
    return sorted((_without_clock(data) for data in of_kind(folder, kind)), key=str)


def _without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_clock(item) for key, item in value.items() if key not in ("spend", "notes")}
    return [_without_clock(item) for item in value] if isinstance(value, list) else value


def _paid(folder: RunFolder) -> tuple[int, int, int]:
    """Evaluations, replays and units of probes; each once."""
    outcomes = [data["key"] for data in of_kind(folder, "outcome")]
    replays = [(data["round"], data["key"]) for data in of_kind(folder, "replay")]
    assert len(set(outcomes)) == len(outcomes)
    assert len(set(replays)) == len(replays)
    return len(outcomes), len(replays), sum(data.get("units", 0) for data in of_kind(folder, "probe"))


def _start(config: Path, folder: RunFolder) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "heldout", "run", str(config), "--out", str(folder.path), "--json"]
    command += ["--resume"] if folder.is_run else []
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _lines(folder: RunFolder) -> int:
    return folder.events.read_bytes().count(b"\n") if folder.events.exists() else 0
