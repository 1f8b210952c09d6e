"""Checkpoint folders: what is missing or refused is named, and what is loaded is saved bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_checkpoints as tiny
import torch
from safetensors.torch import load_file, save_file

from heldout.errors import SetupError
from heldout.models.checkpoint_files import TensorPlace, check_files, read_header
from heldout.models.checkpoints import load_checkpoint, save_checkpoint
from heldout.store.weights import weights_digest


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("whole") / "checkpoint")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    copy = tmp_path / "checkpoint"
    copy.mkdir()
    for file in whole.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def edit_json(file: Path, change: Callable[[dict[str, object]], object]) -> None:
    told = json.loads(file.read_text())
    change(told)
    file.write_text(json.dumps(told))


def edit_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_loading_and_saving_gives_the_same_bytes_and_so_the_same_digest(whole: Path, tmp_path: Path) -> None:
    before = weights_digest(whole)
    save_checkpoint(load_checkpoint(whole), tmp_path / "again")
    assert weights_digest(tmp_path / "again") == before == weights_digest(whole)
    first, second = (load_checkpoint(one).model.state_dict() for one in (whole, tmp_path / "again"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft asks for it
def test_adapters_are_not_saved_in_a_folder_that_could_not_be_served(whole: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    loaded = load_checkpoint(whole)
    wrapped = get_peft_model(loaded.model, LoraConfig(r=2, target_modules=["q_proj"]))
    with pytest.raises(SetupError, match=r"with adapters: write them with heldout\.training\.loading\.write_weights"):
        save_checkpoint(replace(loaded, model=wrapped), tmp_path / "adapters")
    assert not (tmp_path / "adapters").exists()
    save_checkpoint(replace(loaded, model=wrapped.merge_and_unload()), tmp_path / "merged")
    assert weights_digest(tmp_path / "merged") == weights_digest(whole)


def test_weights_are_computed_with_in_the_dtype_that_was_asked_for(whole: Path) -> None:
    assert load_checkpoint(whole).model.dtype == torch.float32
    assert load_checkpoint(whole, dtype="bfloat16").model.dtype == torch.bfloat16


def test_the_header_of_a_file_is_read_without_its_tensors(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2, 3), "b": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path / "x.safetensors")
    assert read_header(tmp_path / "x.safetensors") == {"a": TensorPlace("F32", (2, 3)), "b": TensorPlace("BF16", (4,))}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "config.json is missing"),
        ("model.safetensors", "model.safetensors is missing"),
        ("tokenizer.json", "has no tokenizer"),
        ("chat_template.jinja", "has no chat template"),
    ],
)
def test_a_missing_file_is_named(folder: Path, name: str, message: str) -> None:
    (folder / name).unlink()
    with pytest.raises(SetupError, match=message):
        load_checkpoint(folder)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"no checkpoint folder .*nowhere"):
        check_files(tmp_path / "nowhere")


def test_a_missing_tensor_is_named(folder: Path) -> None:
    edit_tensors(folder, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(SetupError, match=r"tensor 'model.layers.1.mlp.up_proj.weight' is missing"):
        load_checkpoint(folder)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder: Path) -> None:
    edit_tensors(folder, lambda tensors: tensors.update({"model.norm.weight": torch.ones(31)}))
    with pytest.raises(SetupError, match=r"'model.norm.weight' has the shape \(31,\), and the config asks for \(32,\)"):
        load_checkpoint(folder)


def test_weights_that_were_cut_off_are_told_from_damaged_ones(folder: Path) -> None:
    file = folder / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-10])
    with pytest.raises(SetupError, match="is cut off"):
        load_checkpoint(folder)
    for damaged in (b"", b"not tensors at all", content[:8] + b"{" * 40 + content[48:]):
        file.write_bytes(damaged)
        with pytest.raises(SetupError, match=r"damaged|is cut off"):
            load_checkpoint(folder)


def test_a_checkpoint_without_an_end_token_is_refused(folder: Path) -> None:
    edit_json(folder / "tokenizer_config.json", lambda told: told.pop("eos_token"))
    edit_json(folder / "generation_config.json", lambda told: told.pop("eos_token_id"))
    with pytest.raises(SetupError, match="has no end token: set eos_token"):
        load_checkpoint(folder)


def test_end_tokens_of_tokenizer_and_generation_config_both_end_a_reply(folder: Path) -> None:
    edit_json(folder / "generation_config.json", lambda told: told.update(eos_token_id=[65, 66]))
    assert load_checkpoint(folder).end_ids == {65, 66, 260}


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(folder: Path) -> None:
    fewer = {"model.embed_tokens.weight": torch.zeros(258, 32), "lm_head.weight": torch.zeros(258, 32)}
    edit_tensors(folder, lambda tensors: tensors.update(fewer))
    edit_json(folder / "config.json", lambda told: told.update(vocab_size=258, eos_token_id=257, pad_token_id=256))
    with pytest.raises(SetupError, match="the tokenizer has 261 tokens, and the model only 258"):
        load_checkpoint(folder)


def test_pickles_are_never_loaded(folder: Path) -> None:
    torch.save({"a": torch.zeros(1)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(SetupError, match=r"pytorch_model.bin is a pickle, which can run code and is never loaded"):
        load_checkpoint(folder)


def test_code_beside_the_weights_is_never_run(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (folder / "modeling_mine.py").write_text(f"open({str(mark)!r}, 'w')\n")
    own = {"AutoConfig": "modeling_mine.Config", "AutoModelForCausalLM": "modeling_mine.Model"}
    edit_json(folder / "config.json", lambda told: told.update(model_type="mine", auto_map=own))
    with pytest.raises(SetupError, match=r"'mine' without code of its own \(auto_map\), which is never run"):
        load_checkpoint(folder)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "{", "is not valid JSON"),
        ("config.json", "[]", "holds no JSON object"),
        ("config.json", "{}", "has no model_type"),
        ("config.json", '{"model_type": "llama", "hidden_size": "wide"}', "cannot load the checkpoint"),
        ("tokenizer.json", "{}", "cannot load the checkpoint"),
    ],
)
def test_a_damaged_file_is_named(folder: Path, name: str, content: str, message: str) -> None:
    (folder / name).write_text(content)
    with pytest.raises(SetupError, match=message):
        load_checkpoint(folder)


def test_shards_are_found_through_their_index_and_a_missing_one_is_named(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(names)}
    for shard in set(places.values()):
        part = {name: tensors[name] for name in names if places[name] == shard}
        save_file(part, folder / shard, metadata={"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    loaded = load_checkpoint(folder).model.state_dict()
    assert all(torch.equal(loaded[name], tensors[name]) for name in names)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(SetupError, match=r"'model-00002-of-00002.safetensors', which its index names, is missing"):
        load_checkpoint(folder)


@pytest.mark.parametrize(("module", "extra"), [("torch", "train"), ("transformers", "train")])
def test_without_its_libraries_a_message_says_what_to_install(whole: Path, module: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from heldout.config import ModelConfig\n"
        "from heldout.errors import SetupError\n"
        "from heldout.models import Message, Request, make_model\n"
        f"model = make_model(ModelConfig(name={f'local:{whole}'!r}))\n"
        "try:\n"
        "    model.complete(Request(messages=(Message(role='user', content='x'),)))\n"
        "except SetupError as told:\n"
        "    print(told)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'heldout[{extra}]'" in done.stdout, done.stderr
