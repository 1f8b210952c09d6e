"""What docs/training.md shows is tried on a tiny checkpoint: its config, builder, strategies and Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_parents import tiny_parent

from heldout.cli import main
from heldout.improvers.strategies import load_library
from heldout.loops.weights.options import ImproveOptions
from heldout.options import read_options
from heldout.report.queries import payloads
from heldout.store import Index, RunFolder, WeightsStore
from heldout.store.training_events import AttemptEnded, DatasetBuilt, TrainingEnded
from heldout.tasks.examples import BuildRequest
from heldout.training.builders import load_builder

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
OWN = ROOT / "examples" / "own_tasks"


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder as the page describes it, with a tiny model that knows nothing."""
    config, library = blocks("toml")
    (tmp_path / "mine.toml").write_text(config)
    (tmp_path / "my_strategies.toml").write_text(library)
    (tmp_path / "my_data.py").write_text(blocks("python")[0])
    for name in ("tasks.jsonl", "grader.py"):
        (tmp_path / name).write_text((OWN / name).read_text(encoding="utf-8"), encoding="utf-8")
    tiny_parent(tmp_path / "checkpoint")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_data", raising=False)
    monkeypatch.delitem(sys.modules, "grader", raising=False)
    return tmp_path


@pytest.mark.usefixtures("folder")
class TestThePage:
    def test_its_builder_gives_right_answers_that_differ_and_repeat_by_seed(self) -> None:
        builder = load_builder("my_data:times")
        pairs = builder(BuildRequest(count=400, seed=3))
        assert len({pair.prompt for pair in pairs}) == len(pairs) == 400
        assert pairs == builder(BuildRequest(count=400, seed=3))
        found = {pair.prompt: pair.completion for pair in builder(BuildRequest(count=5000, seed=0))}
        assert found["The museum shuts at half past five in the afternoon."] == "17:30"
        assert found["The choir meets at a quarter past one in the morning."] == "01:15"

    def test_its_library_is_one(self) -> None:
        (strategy,) = load_library("my_strategies.toml").strategies
        assert strategy.recipe.builder == "my_data:times"

    def test_its_config_trains_the_checkpoint_on_its_builders_data(self, folder: Path) -> None:
        words = ["options.preflight.enabled=false", "options.train.checkpoint_every=50", "options.training_noise=false"]
        small = ["search.generations=1", "tasks.train=8", "tasks.select=6", "tasks.audit=6", "noise.tasks=2"]
        with pytest.raises(SystemExit) as stopped:
            main(["run", "mine.toml", "--out", "r", "solver.model.max_tokens=4", *words, *small])
        assert stopped.value.code == 0
        with Index.open(RunFolder(folder / "r").path) as index:
            (data,) = payloads(index.connection, DatasetBuilt)
            (training,) = payloads(index.connection, TrainingEnded)
            (attempt,) = payloads(index.connection, AttemptEnded)
        assert data.builders == {"my_data:times": data.size}
        assert data.size > 300
        assert data.settings["method"] == "lora"
        assert training.steps == 80
        assert training.losses[-1] < training.losses[0]
        assert attempt.strategy == "fresh_times"

    def test_its_python_runs(self, folder: Path) -> None:
        code = blocks("python")[1]
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        first, *steps, exported = done.stdout.splitlines()
        assert first.endswith("may be trained on")
        assert "'text'" in first
        assert len(steps) == 20
        assert (folder / exported).is_file()

    def test_its_policy_gradient_goes_from_a_store_into_it(self, folder: Path) -> None:
        words = [sys.executable, "-c", blocks("python")[2]]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("1 ")
        store = WeightsStore(folder / "store")
        (trained,) = [one.name for one in store.root.iterdir() if one.is_dir() and store.origin(one.name).parent]
        assert len(store.ancestry(trained)) == 2


def test_its_keys_of_the_loop_are_options_of_it() -> None:
    bare = re.sub(r"[a-z_.]+\.options\.\S+", "", PAGE)
    named = set(re.findall(r"options\.([a-z_.]+[a-z_])", bare))
    assert len(named) > 8
    for key in named:
        model: object = ImproveOptions()
        for part in key.split("."):
            assert hasattr(model, part), f"options.{key}"
            model = getattr(model, part)
    assert read_options(ImproveOptions, {"retain": {"floor": -2}}, where="the page").retain.floor == -2
