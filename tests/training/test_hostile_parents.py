"""Checkpoints that were made to do harm: no pickle is read, no code of theirs runs, no path leads out of a store."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from tiny_parents import tiny_parent

from heldout.errors import SetupError
from heldout.models.checkpoint_files import adapted
from heldout.training import TrainConfig, TrainingJob
from heldout.training.loading import load_parent
from heldout.training.plain_tokenizer import tokenizer_of


def job(parent: Path) -> TrainingJob:
    return TrainingJob(parent=parent, examples=(), config=TrainConfig(), seed=1, work=parent.parent / "work")


def test_a_parent_whose_weights_are_a_pickle_is_refused(tmp_path: Path) -> None:
    parent = tiny_parent(tmp_path / "parent")
    torch.save(load_file(parent / "model.safetensors"), parent / "pytorch_model.bin")
    (parent / "model.safetensors").unlink()
    with pytest.raises(SetupError, match="cannot be loaded"):
        load_parent(job(parent))


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_that_a_checkpoint_brings_is_not_run_whatever_a_person_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    parent, ran = tiny_parent(tmp_path / "parent"), tmp_path / "ran"
    (parent / "own.py").write_text(f"open({str(ran)!r}, 'w').close()\n\n\nclass Own:\n    pass\n")
    told = json.loads((parent / file).read_text())
    own = {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own", "AutoTokenizer": ["own.Own", "own.Own"]}
    told |= {"auto_map": own} | ({"model_type": "own"} if file == "config.json" else {"tokenizer_class": "Own"})
    (parent / file).write_text(json.dumps(told))
    with pytest.raises(SetupError, match="cannot be loaded"):
        load_parent(job(parent))
    with suppress(SetupError):
        tokenizer_of(parent)
    assert not ran.exists()


@pytest.mark.parametrize("base", ["../elsewhere", "/etc", "a/b", ".."])
def test_adapters_whose_base_is_a_path_are_refused(tmp_path: Path, base: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    adapters = tmp_path / "weights" / "adapters"
    adapters.mkdir(parents=True)
    (adapters / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    (adapters / "base.json").write_text(json.dumps({"base": base}))
    with pytest.raises(SetupError, match="names no base"):
        adapted(adapters)
    with pytest.raises(SetupError, match="names no base"):
        tokenizer_of(adapters)


def test_a_recipe_cannot_ask_for_a_batch_that_fills_the_memory() -> None:
    with pytest.raises(ValidationError, match="batch"):
        TrainConfig(batch=1_000_000_000)
