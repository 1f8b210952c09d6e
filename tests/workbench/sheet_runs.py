"""Small runs of `gso` over a served model on tasks in SpreadsheetBench's layout, by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripted_solver import SECRET
from sheet_players import Players, published

from heldout.config import TasksConfig
from heldout.loops import preset
from heldout.store import RunFolder
from heldout.tasks import TaskSet, load_tasks
from heldout.testing.scripted_server import ScriptedServer

__all__ = ["MISCHIEF", "SIZES", "Place", "command", "place", "searched", "words"]

SIZES = {"train": 8, "select": 5, "audit": 5}
SEED = 3

MISCHIEF: Mapping[int, str] = {0: "deletes", 1: "garbage", 2: "errs", 3: "undescribed", 5: "snoops"}
"""What happens to some of the train tasks, by their place, whatever the guide says."""


@dataclass(frozen=True)
class Place:
    """A folder with the tasks, and what the players do on them."""

    folder: Path
    tasks: TaskSet
    players: Players

    @property
    def mischief(self) -> Mapping[str, str]:
        """Train id to what goes wrong with it."""
        return {self.tasks.train[at].id: way for at, way in MISCHIEF.items()}


def place(folder: Path, **players: Any) -> Place:
    published(folder / "data")
    config = preset("gso", "paper")["tasks"] | SIZES
    tasks = load_tasks(TasksConfig.model_validate({**config, "path": str(folder / "data"), "seed": SEED}))
    ways = {tasks.train[at].input: way for at, way in MISCHIEF.items()}
    unlearnable = {"stage": "", "module": "", "learnable": False}
    said = {"blames": dict.fromkeys(ways, unlearnable), **players}
    return Place(folder, tasks, Players(ways=ways, **said))


def words(url: str, *more: str) -> list[str]:
    """A small run of the preset `paper` on these tasks and this server."""
    sizes = [f"tasks.{role}={n}" for role, n in SIZES.items()]
    return [
        *("run", "gso", "preset=paper", "tasks.path=data", f"tasks.seed={SEED}", *sizes),
        *("solver.model.name=openai:mine", f"solver.model.url={url}", "solver.model.retries=0"),
        *("search.generations=2", "noise.tasks=2", "noise.simulations=100", "executor.workers=2"),
        *("options.sweep.retries=0", "budget.prices={'openai:mine'={input=1.0,output=2.0}}"),
        *more,
    ]


def command(folder: Path, *given: str) -> tuple[int, str, str]:
    """`heldout` in a process of its own, with the key in its environment."""
    environment = {**os.environ, "OPENAI_API_KEY": SECRET, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "heldout", *given],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def searched(here: Place, *more: str) -> tuple[RunFolder, Mapping[str, Any]]:
    """A run without its audit."""
    with ScriptedServer(here.players) as server:
        code, out, err = command(here.folder, *words(server.url, "audit.auto=false", "--out", "r", "--json", *more))
    assert (code, err) == (0, "")
    return RunFolder(here.folder / "r"), json.loads(out)
