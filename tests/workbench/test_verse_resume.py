"""A run of `verse` that is killed in any phase and resumed keeps its heads, decisions and probe budget."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from verse_parts import STEPS, same_run

from heldout.config import RunConfig, load_config
from heldout.loops import preset
from heldout.store import RunFolder
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


def shadow_config(*layers: Mapping[str, Any]) -> RunConfig:
    config = load_config([preset("verse", "small"), SHADOW, *layers])
    return config.model_copy(update={"solver": config.solver.model_copy(update={"options": {}})})


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
