"""What `doctor` says of training: libraries, start checkpoints, threads and accelerators."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import heldout
from heldout.training.pocket_recipes import pocket_recipe, recipe_digest
from heldout.workbench import MachineCheck, check_machine, doctor


def checks() -> Mapping[str, MachineCheck]:
    return {check.name: check for check in check_machine()}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, for a package that came without checkpoints."""
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "SHIPPED", tmp_path / "shipped")
    return tmp_path / "cache"


def test_every_library_of_a_training_is_looked_for() -> None:
    found = checks()
    for name in ("torch", "transformers", "peft", "accelerate", "gguf", "trl", "math_verify", "langdetect"):
        assert found[name].works is (importlib.util.find_spec(name) is not None)


def test_what_is_absent_is_told_with_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def none_of_it(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in ("torch", "trl", "peft") else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", none_of_it)
    found = checks()
    assert [found[name].mend for name in ("torch", "peft")] == ["pip install 'heldout[train]'"] * 2
    assert found["trl"].mend == "pip install 'heldout[trl]'"
    assert not found["GPU"].works


@pytest.mark.parametrize("fault", ["ImportError", "OSError"])
def test_a_torch_that_does_not_load_is_a_failed_line_with_the_command_that_mends_it(tmp_path: Path, fault: str) -> None:
    """As of a wheel for another machine; in a process of its own, since torch is loaded once."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"raise {fault}('libtorch.so:\\ncannot open shared object file')\n")
    paths = {"PYTHONPATH": f"{tmp_path}:{Path(heldout.__file__).parents[1]}"}
    command = [sys.executable, "-m", "heldout", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | paths, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    found = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert not found["torch"]["works"]
    assert found["torch"]["detail"] == "installed, and does not load: libtorch.so: cannot open shared object file"
    assert found["torch"]["mend"] == "pip install --force-reinstall 'heldout[train]'"
    assert not found["GPU"]["works"]


def test_a_pocket_model_in_the_cache_is_found_and_none_is_made(cache: Path) -> None:
    before = checks()["pocket:instruct"]
    assert list(cache.rglob("*")) == []
    (cache / "pocket" / recipe_digest(pocket_recipe("instruct"))).mkdir(parents=True)
    after = checks()["pocket:instruct"]
    assert not before.works
    assert before.mend == "heldout run improve_any_task preset=small solver.model.name=pocket:instruct"
    assert after.works
    assert "in the cache" in after.detail
    assert before.detail != after.detail


def test_a_shipped_pocket_model_is_told_with_its_size(cache: Path) -> None:
    shipped = cache.parent / "shipped"
    recipe = pocket_recipe("base")
    made = {"digest": recipe_digest(recipe), "recipe": recipe.model_dump(), "parameters": 812_345}
    made |= {"accuracy": {}, "tasks": 1, "seconds": 1.0, "versions": {}}
    (shipped / "pocket-base").mkdir(parents=True)
    (shipped / "recipe.json").write_text(json.dumps({"base": made}))
    assert checks()["pocket:base"].detail == "shipped, 812,345 parameters"
    (shipped / "recipe.json").write_text(json.dumps({"base": made | {"digest": "of another wording"}}))
    assert not checks()["pocket:base"].works


def test_threads_and_a_gpu_are_told_in_words() -> None:
    found = checks()
    assert "one thread" in found["threads"].detail
    torch = pytest.importorskip("torch")
    assert found["GPU"].works is torch.cuda.is_available()
    assert found["GPU"].works or "the CPU" in found["GPU"].detail
