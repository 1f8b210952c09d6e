from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.config import BudgetConfig, ModelConfig, Price, RunConfig, SolverConfig, TasksConfig, load_config
from heldout.errors import SetupError
from heldout.records import Candidate
from heldout.store import RunFolder, list_runs, toml_text

SCALARS = st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text()
TABLES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)),
    max_size=4,
)


def make_run(path: Path, config: RunConfig | None = None) -> RunFolder:
    folder = RunFolder.create(path)
    folder.save_config(config or RunConfig())
    return folder


@given(TABLES)
@settings(deadline=None)
def test_any_table_comes_back_from_toml(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(table)) == table


def test_toml_is_written_as_a_person_would() -> None:
    table = {"loop": "verse", "tasks": {"train": 4, "none": None, "reports": {"gold": 2, "a b": 0.5}}, "seed": 1}
    assert toml_text(table) == (
        'loop = "verse"\nseed = 1\n\n[tasks]\ntrain = 4\n\n[tasks.reports]\ngold = 2\n"a b" = 0.5\n'
    )


@pytest.mark.parametrize("value", [[None], object(), {1}])
def test_what_toml_cannot_hold_is_refused_with_its_key(value: object) -> None:
    with pytest.raises(SetupError, match=r"options\.x = .* cannot be written as TOML"):
        toml_text({"options": {"x": value}})


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(),
        RunConfig(
            seed=3,
            tasks=TasksConfig(
                source="jsonl", path="a\\b\n\x7f\"'", reports={"gold": 600, "ood": 5}, options={"deep": {"x": [1]}}
            ),
            solver=SolverConfig(model=ModelConfig(name="openai:m", url="http://127.0.0.1:8000/v1", temperature=0.7)),
            budget=BudgetConfig(dollars=1e-05, prices={"openai/gpt-5.1 mini": Price(input=0.25, output=2.0)}),
            options={"text": "ü 😀", "less": -3, "big": 1e300, "list": [1, 2.5, "x", True]},
        ),
    ],
)
def test_a_config_comes_back_as_it_was(tmp_path: Path, config: RunConfig) -> None:
    folder = make_run(tmp_path / "run", config)
    assert folder.load_config() == config
    assert load_config([tomllib.loads(folder.config.read_text())]) == config


@given(TABLES, st.text(), st.floats(0, 2), st.none() | st.integers(1, 10**30))
@settings(deadline=None, max_examples=50)
def test_any_config_comes_back_through_toml(
    options: dict[str, Any], text: str, temperature: float, limit: int | None
) -> None:
    config = RunConfig(
        loop=text,
        solver=SolverConfig(instruction=text, model=ModelConfig(temperature=temperature, options=options)),
        budget=BudgetConfig(evaluations=limit, prices={text: Price(input=temperature)}),
        options=options,
    )
    assert load_config([tomllib.loads(toml_text(config.model_dump(mode="json")))]) == config


def test_an_option_of_none_is_refused_rather_than_lost(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    with pytest.raises(SetupError, match="an option is None"):
        folder.save_config(RunConfig(options={"x": {"y": None}}))
    assert not folder.config.exists()


def test_a_new_run_has_its_folders_and_paths(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs" / "first")
    assert sorted(path.name for path in folder.path.iterdir()) == ["blobs", "logs"]
    assert not folder.is_run
    folder.save_config(RunConfig())
    assert folder.is_run
    assert folder.name == "first"
    assert os.fspath(folder) == str(tmp_path / "runs" / "first")
    candidate = Candidate(files={"instruction.md": "x"})
    assert folder.save(candidate).parent == folder.blobs
    assert folder.load(candidate.digest) == candidate


def test_a_run_is_never_made_over_something_else(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    with pytest.raises(SetupError, match="holds a run already; continue it with --resume"):
        RunFolder.create(tmp_path / "run")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").touch()
    with pytest.raises(SetupError, match="not empty"):
        RunFolder.create(tmp_path / "notes")
    with pytest.raises(SetupError, match="not empty"):
        RunFolder.create(tmp_path / "notes" / "todo.txt")
    with pytest.raises(SetupError, match="cannot create"):
        RunFolder.create(tmp_path / "notes" / "todo.txt" / "run")


def test_a_start_that_was_killed_before_its_config_can_be_repeated(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    folder.lock.touch()
    assert make_run(tmp_path / "run").is_run


def test_a_run_is_found_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "b")
    make_run(tmp_path / "elsewhere")
    assert RunFolder.find("b").path == Path("runs/b")
    assert RunFolder.find("runs/b").path == Path("runs/b")
    assert RunFolder.find(tmp_path / "elsewhere").path == tmp_path / "elsewhere"


def test_what_is_not_a_run_is_refused_with_the_runs_nearby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SetupError, match=r"'x' does not exist; there are no runs here"):
        RunFolder.find("x")
    make_run(tmp_path / "runs" / "a")
    make_run(tmp_path / "runs" / "b")
    with pytest.raises(SetupError, match=r"'x' does not exist; there is runs/a, runs/b"):
        RunFolder.find("x")
    with pytest.raises(
        SetupError, match=r"'runs' is not the folder of a run \(no config.toml\); there is runs/a, runs/b"
    ):
        RunFolder.find("runs")


def test_runs_are_listed_by_name(tmp_path: Path) -> None:
    make_run(tmp_path / "b")
    make_run(tmp_path / "a")
    (tmp_path / "c").mkdir()
    assert [run.name for run in list_runs(tmp_path)] == ["a", "b"]
    assert list_runs(tmp_path / "missing") == []
