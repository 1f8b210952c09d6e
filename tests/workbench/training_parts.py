"""Runs over weights for tests: the simulated learner, and a real checkpoint of 4,000 parameters."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heldout.config import RunConfig, load_config
from heldout.models.checkpoints import quiet
from heldout.store import RunFolder, read_events
from heldout.store.events import Event
from heldout.store.toml import toml_text
from heldout.tasks.examples import BuildRequest, Pair

_TESTS = Path(__file__).parents[1]
sys.path.extend(str(_TESTS / room) for room in ("loops", "training"))

CLOCKED = frozenset(
    {"spend", "checks", "seconds_per_step", "peak_memory_mb", "projected_s", "cost_s", "score", "why", "lost", "notes"}
)
"""What depends on the clock: costs, and what a researcher expects from them."""

STEPS = (
    *("candidate", "noise.measured", "trusted.hash", "diagnosis", "strategies", "dataset", "preflight", "training"),
    *("training.noise", "asset.added", "abilities", "decision", "track.moved", "attempt", "selected", "audit"),
)
"""Every kind of step of the loop."""


def tiny_run(folder: Path, *over: Mapping[str, Any], train: int = 24) -> RunConfig:
    """A run on a real tiny checkpoint in `folder/parent`: letters to repeat, from a file of rows.

    Its ladder asks for hardly anything, since so small a model learns hardly anything in some seconds.
    """
    from tiny_parents import tiny_parent

    if not (folder / "parent").exists():
        with quiet():
            tiny_parent(folder / "parent")
    rows = letters(folder / "rows.jsonl")
    recipe = {"id": "repeat", "builder": "training_parts:repeating", "count": 48}
    strategies = write_library(folder / "library.toml", recipe)
    base = {
        "loop": "improve_any_task",
        "tasks": {
            "source": "jsonl",
            "path": str(rows),
            "train": train,
            "select": 16,
            "audit": 12,
            "stratify": False,
            "duplicates": "drop",
            "reports": {"retain": 8},
            "options": {"instruction": ""},
        },
        "solver": {"model": {"name": f"local:{folder / 'parent'}", "max_tokens": 8}, "harness": "completion"},
        "improver": {"kind": "training_catalog", "options": {"library": str(strategies)}},
        "search": {"generations": 1, "candidates": 1},
        "gate": {"kind": "net"},
        "noise": {"tasks": 0, "simulations": 100},
        "options": {
            "train": {"steps": 40, "batch": 8, "max_length": 64, "checkpoint_every": 5},
            "preflight": {"steps": 6, "answers": 4, "examples": 8, "loss_ratio": 10.0, "stop_rate": 0.0, "repairs": 0},
            "training_noise": False,
            "min_strategies": 1,
        },
    }
    return load_config([base, *over])


def letters(path: Path) -> Path:
    """Ninety-six tasks of distinct texts, the last eight of them of the report role."""
    rng, rows = random.Random(5), []
    for number in range(96):
        letter, times = rng.choice("abcdefgh"), rng.randint(1, 5)
        filler = "".join(rng.choices("ijklmnopqrstuvwxyz", k=9))
        row = {"id": f"t{number}", "input": f"{filler}: {letter} {times}", "reference": letter * times}
        rows.append(row | ({"pool": "retain"} if number >= 88 else {}))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def repeating(request: BuildRequest) -> Sequence[Pair]:
    """Fresh tasks of the same kind."""
    rng = random.Random(f"repeating {request.seed}")
    drawn = [
        ("".join(rng.choices("ijklmnopqrstuvwxyz", k=9)), rng.choice("abcdefgh"), rng.randint(1, 5))
        for _ in range(request.count)
    ]
    return [Pair(prompt=f"{filler}: {letter} {times}", completion=letter * times) for filler, letter, times in drawn]


def write_library(path: Path, *recipes: Mapping[str, Any]) -> Path:
    """Strategies with these recipes, whose key `id` names them; the first promises most."""
    entries = [
        {
            "id": recipe["id"],
            "source": "a test",
            "mechanism": f"Train on {recipe['id']}.",
            "reported_gain": 20.0 - 2.0 * place,
            "reported_on": "invented",
            "fits": {"*": 0.9},
            "reproduces": 0.5,
            "data": "generated",
            "cost_s": 0.1,
            "implementation": "low",
            "recipe": {key: value for key, value in recipe.items() if key != "id"},
        }
        for place, recipe in enumerate(recipes)
    ]
    path.write_text(toml_text({"name": "test", "strategy": entries}))
    return path


def with_recipe(folder: Path, recipe: Mapping[str, Any]) -> Mapping[str, Any]:
    """A layer of config with this strategy alone."""
    path = write_library(folder / f"library-{recipe['id']}.toml", recipe)
    return {"improver": {"options": {"library": str(path)}}}


def written(config: RunConfig, path: Path) -> Path:
    """The config as a file."""
    path.write_text(toml_text(config.model_dump(mode="json")))
    return path


def environment(**more: str) -> dict[str, str]:
    """Of a process that finds the same Heldout and the plug-ins of these tests."""
    import heldout

    room = [
        str(Path(heldout.__file__).parents[1]),
        str(Path(__file__).parent),
        *(str(_TESTS / one) for one in ("loops", "training")),
    ]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(room), **more}


def events(folder: RunFolder) -> list[Event]:
    return list(read_events(folder.events))


def of_kind(folder: RunFolder, kind: str) -> list[Mapping[str, Any]]:
    """Data of every event of a kind, in order."""
    return [event.data for event in events(folder) if event.kind == kind]


def only(folder: RunFolder, kind: str) -> Mapping[str, Any]:
    """The data of the only event of a kind."""
    (data,) = of_kind(folder, kind)
    return data


def same_run(a: RunFolder, b: RunFolder) -> None:
    """The same steps but for the clock, the same final weights, and nothing paid twice or left out."""
    for kind in STEPS:
        assert lasting(a, kind) == lasting(b, kind), kind
    assert final_weights(a) == final_weights(b)
    assert sorted(_keys(a)) == sorted(_keys(b)), "evaluations were left out, or others were made"
    assert len(set(_keys(b))) == len(_keys(b)), "an evaluation was paid twice"


def final_weights(folder: RunFolder) -> str | None:
    """Digest of the weights that the search ended with."""
    return folder.load(of_kind(folder, "run.finished")[-1]["final"]).weights


def lasting(folder: RunFolder, kind: str) -> list[Any]:
    """Events of a kind without what depends on the clock."""
    return [_without_clock(data) for data in of_kind(folder, kind)]


def _keys(folder: RunFolder) -> list[str]:
    return [data["key"] for data in of_kind(folder, "outcome")]


def _without_clock(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_clock(item) for key, item in value.items() if key not in CLOCKED}
    return [_without_clock(item) for item in value] if isinstance(value, list | tuple) else value


def cut(whole: RunFolder, kept: int, to: Path) -> RunFolder:
    """The folder as a kill after `kept` events leaves it: weights that no event names yet are not there."""
    copy = RunFolder(to)
    shutil.copytree(whole.path, copy.path, ignore=shutil.ignore_patterns("index.sqlite*", "report.html"))
    lines = whole.events.read_bytes().splitlines(keepends=True)
    copy.events.write_bytes(b"".join(lines[:kept]))
    if not copy.weights.exists():
        return copy
    named = copy.events.read_text()
    began = {data["parent"] for data in of_kind(whole, "training")[:1]}
    for folder in copy.weights.iterdir():
        if folder.stem not in named and folder.stem not in began:
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    return copy


@contextmanager
def edited(file: Path) -> Iterator[dict[str, Any]]:
    """A JSON file as a dict, which is written back."""
    content = json.loads(file.read_text())
    yield content
    file.write_text(json.dumps(content))
