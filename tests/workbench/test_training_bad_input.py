"""Bad input of a training: caught by the ladder or told in one message, with the parent untouched."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file, save_file
from training_parts import environment, of_kind, only, tiny_run, with_recipe, written

from heldout.config import RunConfig
from heldout.store import RunFolder
from heldout.store.weights import weights_digest
from heldout.tasks.examples import BuildRequest, Pair
from heldout.training import Fitted, TrainingJob, Watch
from heldout.training.trainer import TransformersTrainer

Command = Callable[..., tuple[int, str, str]]

NO_LADDER = {"options": {"preflight": {"enabled": False}}}
EXPLODES = {"optimiser": {"learning_rate": 1e20, "schedule": "constant", "warmup": 0.0, "clip": 0.0}}


def no_pairs(request: BuildRequest) -> Sequence[Pair]:
    """A data builder that finds nothing."""
    del request
    return ()


def blank_answers(request: BuildRequest) -> Sequence[Pair]:
    """Nothing to take loss on."""
    return [Pair(prompt=f"say {number} of {request.count}", completion="") for number in range(request.count)]


class LosesATensor(TransformersTrainer):
    """A trainer whose checkpoints lack a tensor."""

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        fitted = super().fit(job, watch)
        drop_tensor(Path(fitted.folder))
        return fitted


def drop_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def launched(heldout: Command, config: RunConfig, folder: Path, *, code: int = 0) -> RunFolder:
    """A run from the command line, which ends with this code and without a traceback; nothing was accepted, and the
    parent is what it was, in the run and where it came from."""
    parent = Path(config.solver.model.name.partition(":")[2])
    before = weights_digest(parent)
    found, out, err = heldout("run", str(written(config, folder / "run.toml")), "--out", str(folder / "r"), "--json")
    assert (found, "Traceback" in err) == (code, False), err
    run = RunFolder(folder / "r")
    done = json.loads(out)
    assert (done["status"], done["final"]["digest"]) == ("unchanged", done["start"]["digest"])
    assert weights_digest(parent) == weights_digest(run.weights / before) == before
    assert {path.name for path in run.weights.iterdir() if path.is_dir()} == {before}
    return run


def refuses_system_turns(folder: Path) -> None:
    """As Gemma's template does it."""
    template = folder / "chat_template.jinja"
    rule = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system turn here') }}{% endif %}"
    template.write_text(rule + template.read_text())


def failed_checks(run: RunFolder) -> dict[str, str]:
    """Name of each failed check of the ladder to what was found."""
    checks = [check for data in of_kind(run, "preflight") for check in data["checks"]]
    return {check["name"]: check["found"] for check in checks if not check["passed"]}


class TestTraining:
    """What the issue names, each from the command line on a real checkpoint."""

    def test_a_chat_template_without_an_end_token_is_caught_before_any_step(
        self, heldout: Command, tmp_path: Path
    ) -> None:
        config = tiny_run(tmp_path)
        template = tmp_path / "parent/chat_template.jinja"
        template.write_text(template.read_text().replace("<end>", ""))
        run = launched(heldout, config, tmp_path)
        assert list(failed_checks(run)) == ["end token"]
        assert only(run, "attempt")["status"] == "preflight_failed"
        assert "every answer ends with the unmasked token '<end>'" in only(run, "attempt")["reason"]
        assert of_kind(run, "training") == []

    def test_an_empty_data_set_is_told(self, heldout: Command, tmp_path: Path) -> None:
        recipe = {"id": "empty", "builder": "test_training_bad_input:no_pairs", "count": 8}
        run = launched(heldout, tiny_run(tmp_path, with_recipe(tmp_path, recipe)), tmp_path)
        attempt = only(run, "attempt")
        assert (attempt["status"], attempt["reason"]) == ("no_data", "no example is left")
        assert of_kind(run, "preflight") == []

    def test_labels_that_are_all_masked_are_caught_before_any_step(self, heldout: Command, tmp_path: Path) -> None:
        recipe = {
            "id": "blank",
            "builder": "test_training_bad_input:blank_answers",
            "count": 8,
            "train": {"end_token": False},
        }
        run = launched(heldout, tiny_run(tmp_path, with_recipe(tmp_path, recipe)), tmp_path)
        assert "labels are masked" in failed_checks(run)["labels"]
        assert only(run, "attempt")["status"] == "preflight_failed"

    def test_labels_that_are_all_masked_end_a_training_that_had_no_ladder(
        self, heldout: Command, tmp_path: Path
    ) -> None:
        recipe = {
            "id": "blank",
            "builder": "test_training_bad_input:blank_answers",
            "count": 8,
            "train": {"end_token": False},
        }
        run = launched(heldout, tiny_run(tmp_path, with_recipe(tmp_path, recipe), NO_LADDER), tmp_path)
        assert only(run, "attempt")["status"] == "training_failed"
        assert "all labels of the 8 examples are masked" in only(run, "attempt")["reason"]

    @pytest.mark.parametrize("ladder", [True, False])
    def test_a_loss_that_is_no_number_is_caught(self, heldout: Command, tmp_path: Path, ladder: bool) -> None:
        recipe = {"id": "explodes", "builder": "training_parts:repeating", "count": 24, "train": EXPLODES}
        layers = [with_recipe(tmp_path, recipe), *([] if ladder else [NO_LADDER])]
        run = launched(heldout, tiny_run(tmp_path, *layers), tmp_path)
        attempt = only(run, "attempt")
        assert attempt["status"] == ("preflight_failed" if ladder else "training_failed")
        assert "a lower learning rate may help" in attempt["reason"]
        assert list(failed_checks(run)) == (["finite loss"] if ladder else [])
        assert of_kind(run, "training") == [] or "weights" not in only(run, "training")

    def test_trained_weights_with_a_missing_tensor_are_caught_by_the_short_run(
        self, heldout: Command, tmp_path: Path
    ) -> None:
        backend = {"options": {"backend": "test_training_bad_input:LosesATensor"}}
        run = launched(heldout, tiny_run(tmp_path, backend), tmp_path)
        assert list(failed_checks(run)) == ["loads"]
        assert "model.layers.1.mlp.up_proj.weight" in failed_checks(run)["loads"]
        assert of_kind(run, "training") == []


class TestCheckpoints:
    """What is wrong with a checkpoint that a person brings is told at once, in one message."""

    def test_a_checkpoint_with_a_missing_tensor_is_told_at_once(self, heldout: Command, tmp_path: Path) -> None:
        config = tiny_run(tmp_path)
        drop_tensor(tmp_path / "parent")
        assert "'model.layers.1.mlp.up_proj.weight' is missing" in self.refused(heldout, config, tmp_path)

    def test_a_checkpoint_without_a_chat_template_is_told_at_once(self, heldout: Command, tmp_path: Path) -> None:
        config = tiny_run(tmp_path)
        (tmp_path / "parent/chat_template.jinja").unlink()
        assert "has no chat template" in self.refused(heldout, config, tmp_path)

    def test_a_checkpoint_without_any_end_token_is_told_at_once(self, heldout: Command, tmp_path: Path) -> None:
        config = tiny_run(tmp_path)
        for name, key in (("tokenizer_config.json", "eos_token"), ("generation_config.json", "eos_token_id")):
            file = tmp_path / "parent" / name
            told = json.loads(file.read_text())
            told.pop(key, None)
            file.write_text(json.dumps(told))
        assert "has no end token" in self.refused(heldout, config, tmp_path)

    def test_a_folder_that_is_not_there_is_told_at_once(self, heldout: Command, tmp_path: Path) -> None:
        config = tiny_run(tmp_path)
        (tmp_path / "parent").rename(tmp_path / "elsewhere")
        assert "no checkpoint folder" in self.refused(heldout, config, tmp_path)

    @pytest.mark.parametrize("base", [None, "0" * 64])
    def test_a_folder_of_adapters_is_told_at_once_with_the_way_to_merge_them(
        self, heldout: Command, tmp_path: Path, base: str | None
    ) -> None:
        config = tiny_run(tmp_path)
        parent = tmp_path / "parent"
        for file in parent.iterdir():
            file.unlink()
        adapters = {"lora_A.weight": torch.zeros(1)}
        save_file(adapters, parent / "adapter_model.safetensors")
        (parent / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
        if base:
            (parent / "base.json").write_text(json.dumps({"base": base}))
        told = self.refused(heldout, config, tmp_path)
        assert "holds adapters, and a model starts from full weights: merge them first (peft: " in told
        assert "base.json" not in told

    @pytest.mark.parametrize("harness", ["completion", "prompt"])
    def test_a_chat_template_that_refuses_the_instruction_is_told_at_once(
        self, heldout: Command, tmp_path: Path, harness: str
    ) -> None:
        config = tiny_run(tmp_path, {"solver": {"instruction": "Be brief.", "harness": harness}})
        refuses_system_turns(tmp_path / "parent")
        told = self.refused(heldout, config, tmp_path)
        assert "TemplateError: no system turn here" in told
        assert "leave the instruction empty (solver.instruction='' with solver.harness=completion)" in told

    def test_what_is_told_of_the_instruction_mends_it(self, heldout: Command, tmp_path: Path) -> None:
        tasks = {"tasks": {"options": {"instruction": "Answer the question."}}}
        config = tiny_run(tmp_path, tasks)
        refuses_system_turns(tmp_path / "parent")
        self.refused(heldout, config, tmp_path)
        words = ("run", str(tmp_path / "run.toml"), "--out", str(tmp_path / "r"), "--json", "solver.instruction=")
        code, _, err = heldout(*words)
        assert (code, err) == (0, "")

    def test_a_mended_checkpoint_can_be_run_in_the_same_folder(self, heldout: Command, tmp_path: Path) -> None:
        config = tiny_run(tmp_path)
        (tmp_path / "parent").rename(tmp_path / "elsewhere")
        self.refused(heldout, config, tmp_path)
        (tmp_path / "elsewhere").rename(tmp_path / "parent")
        code, _, err = heldout("run", str(tmp_path / "run.toml"), "--out", str(tmp_path / "r"), "--json")
        assert (code, err) == (0, "")

    @staticmethod
    def refused(heldout: Command, config: RunConfig, folder: Path) -> str:
        """What is said; one line, exit code 2, and no run folder that a second try would stumble over."""
        code, _, err = heldout("run", str(written(config, folder / "run.toml")), "--out", str(folder / "r"))
        assert code == 2
        assert err.startswith("heldout: ")
        assert len(err.strip().splitlines()) == 1
        assert not (folder / "r").exists()
        return err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            ["preset=small"],
            2,
            "heldout: 'torch' is not installed; it belongs to the extra 'train': pip install 'heldout[train]'",
        ),
        (["preset=small", "solver.model.name=simulated_formats", "tasks.train=20", "search.generations=1"], 0, ""),
    ],
    ids=["pocket", "simulated"],
)
def test_without_torch_a_real_model_is_one_message_and_a_simulation_runs(
    tmp_path: Path, words: list[str], code: int, told: str
) -> None:
    for name in ("torch", "transformers", "accelerate", "peft"):
        missing = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
        (tmp_path / "absent" / name).mkdir(parents=True)
        (tmp_path / "absent" / name / "__init__.py").write_text(missing)
    there = environment()
    there["PYTHONPATH"] = f"{tmp_path / 'absent'}:{there['PYTHONPATH']}"
    command = [sys.executable, "-m", "heldout", "run", "improve_any_task", *words, "--out", str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, env=there, timeout=300, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert done.stderr.strip() == told
