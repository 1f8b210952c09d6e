"""The commands on runs over weights: what a person sees before, during and after."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from training_parts import environment, of_kind, tiny_run, written

import weights_world as world  # isort: skip
from heldout.config import RunConfig
from heldout.store import RunFolder
from heldout.workbench import plan

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    return world.start(tmp_path, "mixture", "end", over=(world.rounds(2),))


class TestBefore:
    def test_a_dry_run_spends_nothing_and_says_what_would_be(
        self, heldout: Command, config: RunConfig, tmp_path: Path
    ) -> None:
        code, out, err = heldout("run", str(written(config, tmp_path / "run.toml")), "--dry-run", "--json")
        assert (code, err) == (0, "")
        planned = json.loads(out)["plan"]
        assert (planned["proposals"], planned["per_proposal"], planned["audit"]) == (2, 32, 48)
        assert not (tmp_path / "runs").exists()

    @pytest.mark.parametrize(
        "over",
        [
            {},
            {"options": {"training_noise": True}},
            {"options": {"training_noise": True, "retain": {"floor": -60.0}}},
            {"options": {"decide_on": "train"}},
            {"options": {"preflight": {"enabled": False}}},
        ],
        ids=["plain", "noise", "floor", "train", "no_ladder"],
    )
    def test_the_plan_is_never_less_than_what_a_run_takes(self, tmp_path: Path, over: Mapping[str, Any]) -> None:
        config = world.start(tmp_path, "huge_rate", "mixture", "end", over=(world.rounds(3), over))
        folder = world.finish(config, tmp_path / "run")
        assert len(of_kind(folder, "outcome")) <= plan(config).total

    def test_noise_runs_the_start_against_itself_and_trains_nothing(
        self, heldout: Command, config: RunConfig, tmp_path: Path
    ) -> None:
        code, out, err = heldout("noise", str(written(config, tmp_path / "run.toml")), "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["n_tasks"], found["simulated"], found["flip_rate"]) == (32, True, 0.0)
        assert {"net", "noise", "greedy", "mcnemar"} <= set(found["gates"])

    def test_noise_of_a_gain_that_select_cannot_resolve_is_told_by_the_run(
        self, heldout: Command, config: RunConfig, tmp_path: Path
    ) -> None:
        file = str(written(config, tmp_path / "run.toml"))
        code, _, err = heldout("run", file, "options.target_gain=4", "--out", str(tmp_path / "r"))
        assert code == 2
        assert "set tasks.select to 500 or more" in err
        assert "Traceback" not in err


class TestAfter:
    @pytest.fixture
    def run(self, heldout: Command, config: RunConfig, tmp_path: Path) -> RunFolder:
        file = str(written(config, tmp_path / "run.toml"))
        code, _, err = heldout("run", file, "audit.auto=false", "--out", str(tmp_path / "runs/r"), "--json")
        assert (code, err) == (0, "")
        return RunFolder(tmp_path / "runs/r")

    def test_show_runs_report_and_export(self, heldout: Command, run: RunFolder, tmp_path: Path) -> None:
        code, out, _ = heldout("show", "r")
        assert code == 0
        assert "SIMULATION" in out
        assert "mixture" in out
        assert "gain that nobody has checked" in out
        code, out, _ = heldout("show", "r", "--json")
        assert json.loads(out)["status"] == "improved"
        code, out, _ = heldout("runs", "--json")
        (listed,) = json.loads(out)["runs"]
        assert (listed["status"], listed["final"]["digest"]) == ("improved", of_kind(run, "run.finished")[0]["final"])
        run.report.unlink()
        code, out, _ = heldout("report", "r")
        assert (code, run.report.is_file()) == (0, True)
        assert "simulat" in run.report.read_text().lower()
        code, _, err = heldout("export", "r", "--to", "folder", "--out", str(tmp_path / "best"))
        assert (code, (tmp_path / "best/instruction.md").is_file()) == (0, True)
        assert "its trained weights come with --to model" in err
        code, _, err = heldout("export", "r", "--to", "model", "--out", str(tmp_path / "model"))
        assert (code, (tmp_path / "model").exists()) == (2, False)
        assert "trained simulated weights" in err

    def test_the_audit_is_opened_once_by_the_command(self, heldout: Command, run: RunFolder) -> None:
        assert of_kind(run, "audit.opened") == []
        code, out, _ = heldout("audit", "r", "--json")
        assert code == 0
        assert json.loads(out)["n_tasks"] == 24
        code, _, err = heldout("audit", "r")
        assert code == 2
        assert "opened once means once" in err
        assert [data.get("role", "audit") for data in of_kind(run, "audit.opened")] == ["audit", "retain"]

    def test_a_finished_run_is_not_searched_again(self, heldout: Command, run: RunFolder) -> None:
        before = len(of_kind(run, "training"))
        code, _, _ = heldout("run", "--resume", "--out", str(run.path), "--json")
        assert (code, len(of_kind(run, "training"))) == (0, before)
        assert len(of_kind(run, "run.finished")) == 1

    def test_another_config_is_refused_on_resume(self, heldout: Command, run: RunFolder) -> None:
        code, _, err = heldout("run", "options.train.steps=70", "--resume", "--out", str(run.path))
        assert code == 2
        assert "options.train.steps" in err


class TestExits:
    def test_invariant_8_nothing_improved_is_exit_0_and_said(self, heldout: Command, tmp_path: Path) -> None:
        file = str(written(world.start(tmp_path, "leak_select"), tmp_path / "run.toml"))
        code, out, err = heldout("run", file, "--out", str(tmp_path / "r"))
        assert (code, err) == (0, "")
        assert "othing improved" in out

    def test_a_budget_that_ends_is_exit_3_and_the_run_can_be_looked_at(self, heldout: Command, tmp_path: Path) -> None:
        over = ({"budget": {"evaluations": 200}}, world.rounds(9))
        file = str(written(world.start(tmp_path, "mixture", "end", over=over), tmp_path / "run.toml"))
        code, out, err = heldout("run", file, "--out", str(tmp_path / "r"), "--json")
        assert (code, err) == (3, "")
        found = json.loads(out)
        assert found["status"] == "stopped"
        assert found["stop_reason"].startswith("budget.evaluations = 200 leaves no room for ")
        assert heldout("show", str(tmp_path / "r"))[0] == 0

    def test_a_trained_simulation_is_labelled_wherever_it_shows(self, heldout: Command, tmp_path: Path) -> None:
        file = str(written(world.start(tmp_path, "mixture"), tmp_path / "run.toml"))
        code, out, _ = heldout("run", file, "--out", str(tmp_path / "r"), "--json")
        assert (code, json.loads(out)["simulated"]) == (0, True)
        _, out, _ = heldout("show", str(tmp_path / "r"))
        assert "SIMULATION" in out


PROGRAM = """import sys
sys.modules["heldout"] = None
from transformers import AutoModelForCausalLM, AutoTokenizer
for folder in sys.argv[1:]:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    turns = [{"role": "user", "content": "xyz: a 3"}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    print(model.generate(**ids, max_new_tokens=4).shape[1] > ids["input_ids"].shape[1])
"""


@pytest.mark.slow
def test_the_final_model_of_a_real_run_loads_without_heldout(heldout: Command, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    config = tiny_run(tmp_path, {"gate": {"kind": "keep_all"}, "options": {"keep_start": False}})
    file = str(written(config, tmp_path / "run.toml"))
    code, out, err = heldout("run", file, "--out", str(tmp_path / "r"), "--json")
    assert (code, err) == (0, "")
    final = RunFolder(tmp_path / "r").load(json.loads(out)["final"]["digest"])
    code, _, err = heldout("export", str(tmp_path / "r"), "--to", "model", "--out", str(tmp_path / "model"))
    assert (code, err) == (0, "")
    folders = [str(tmp_path / "model"), str(tmp_path / "r/weights" / str(final.weights))]
    there = {**environment(), "PYTHONPATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *folders], capture_output=True, text=True, env=there, check=False
    )
    assert done.stdout.split() == ["True", "True"], done.stderr
