"""Fine-tuning in one process: the loss, the schedule, the weights that come out, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_parents import config, counting, example, job, tiny_parent, tiny_tokenizer
from torch.nn import functional
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from heldout.errors import BudgetExhausted, SetupError, TrainingError
from heldout.store.weights import WeightsOrigin, WeightsStore, weights_digest
from heldout.training import Watch
from heldout.training.batching import Row, collate
from heldout.training.encoding import EncodedData, encode_all
from heldout.training.loading import export_full
from heldout.training.sft import rate, summed_loss
from heldout.training.trainer import TransformersTrainer

TRAINER = TransformersTrainer()


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return tiny_parent(tmp_path / "parent")


def encoded(count: int = 6) -> EncodedData:
    return encode_all(counting(count), tiny_tokenizer(), config())


def loaded(folder: Path) -> LlamaForCausalLM:
    model: LlamaForCausalLM = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    return model


def sum_of(model: LlamaForCausalLM, rows: Sequence[Row]) -> float:
    with torch.no_grad():
        return float(summed_loss(model, collate(rows)))


def digest_of_fit(tmp_path: Path, parent: Path, **changes: object) -> str:
    return weights_digest(Path(TRAINER.fit(job(tmp_path, parent, **changes), Watch()).folder))


def test_the_loss_is_the_cross_entropy_of_the_next_labelled_token(parent: Path) -> None:
    model, one = loaded(parent), encoded(1).sequences[0]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([one.ids])).logits[0].log_softmax(-1)
    by_hand = -sum(float(logits[place - 1, one.ids[place]]) for place in range(one.prompt_length, len(one.ids)))
    assert sum_of(model, [(one,)]) == pytest.approx(by_hand, abs=1e-5)
    assert one.trained_tokens == len(one.ids) - one.prompt_length


def test_packed_loss_equals_unpacked_loss(parent: Path) -> None:
    model, sequences = loaded(parent), encoded().sequences
    apart = sum_of(model, [(one,) for one in sequences])
    assert sum_of(model, [sequences]) == pytest.approx(apart, abs=1e-5)
    assert sum_of(model, [sequences[:2], sequences[2:]]) == pytest.approx(apart, abs=1e-5)
    # Without restarting positions the examples would see each other, and it would show.
    batch = collate([sequences])
    leaking = dataclasses.replace(batch, positions=torch.arange(batch.ids.shape[1])[None])
    with torch.no_grad():
        assert abs(float(summed_loss(model, leaking)) - apart) > 1e-3


def test_a_model_that_ignores_restarting_positions_may_not_be_packed(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = LlamaForCausalLM.forward

    def deaf(self, *args, position_ids=None, **options):  # type: ignore[no-untyped-def]
        del position_ids
        return forward(self, *args, **options)

    # Random weights of this size hardly look at other tokens; these do.
    weights = {name: tensor * 12 for name, tensor in load_file(parent / "model.safetensors").items()}
    save_file(weights, parent / "model.safetensors", metadata={"format": "pt"})
    TRAINER.fit(job(tmp_path, parent, packing=True, until=1), Watch())
    monkeypatch.setattr(LlamaForCausalLM, "forward", deaf)
    with pytest.raises(SetupError, match=r"packed examples see each other .* Set train.packing = false"):
        TRAINER.fit(job(tmp_path, parent, name="deaf", packing=True), Watch())


def test_accumulation_does_not_change_the_losses(parent: Path, tmp_path: Path) -> None:
    whole = TRAINER.fit(job(tmp_path, parent, name="a"), Watch())
    parts = TRAINER.fit(job(tmp_path, parent, name="b", accumulate=3), Watch())
    assert parts.losses == pytest.approx(whole.losses, abs=1e-5)


def test_the_first_step_is_one_of_adamw_on_the_mean_loss_of_its_tokens(parent: Path, tmp_path: Path) -> None:
    fitted = TRAINER.fit(job(tmp_path, parent, examples=counting(4), until=1, optimiser={"clip": 0.0}), Watch())
    model, sequences = loaded(parent), encoded(4).sequences
    labels = collate([(one,) for one in sequences])
    logits = model(input_ids=labels.ids).logits[:, :-1].flatten(0, 1)
    loss = functional.cross_entropy(logits, labels.labels[:, 1:].flatten(), ignore_index=-100)
    assert fitted.losses == pytest.approx((float(loss.detach()),), abs=1e-5)
    loss.backward()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3 * rate(1, config()), weight_decay=0.0)
    optimiser.step()
    trained = load_file(Path(fitted.folder) / "model.safetensors")
    for name, weight in model.named_parameters():
        assert torch.allclose(trained[name], weight, atol=1e-7), name


def test_the_schedule_by_hand() -> None:
    def rates(steps: int, **optimiser: object) -> list[float]:
        return [rate(number, config(steps=steps, optimiser=optimiser)) for number in range(1, steps + 1)]

    assert rates(5, warmup=0.4, schedule="linear") == pytest.approx([1 / 3, 2 / 3, 1, 2 / 3, 1 / 3])
    assert rates(4, warmup=0.0, schedule="cosine") == pytest.approx(
        [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]
    )
    assert rates(3, warmup=0.0, schedule="constant") == [1, 1, 1]
    assert rates(1, warmup=1.0) == [0.5]


def test_a_short_run_is_the_beginning_of_the_whole(parent: Path, tmp_path: Path) -> None:
    short = TRAINER.fit(job(tmp_path, parent, name="short", until=3), Watch())
    whole = TRAINER.fit(job(tmp_path, parent, name="whole"), Watch())
    assert short.losses == whole.losses[:3]
    assert (short.steps, whole.steps) == (3, 6)


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_equal_jobs_give_byte_equal_weights(tmp_path: Path, method: str, dropout: float) -> None:
    parent = tiny_parent(tmp_path / "parent", dropout=dropout)
    changes = {"method": method, "lora": {"rank": 2, "dropout": dropout}}
    first = digest_of_fit(tmp_path, parent, name="a", **changes)
    torch.manual_seed(99)  # What the process drew before does not matter.
    assert digest_of_fit(tmp_path, parent, name="b", **changes) == first
    assert digest_of_fit(tmp_path, parent, name="c", seed=2, **changes) != first


def test_training_leaves_the_callers_random_numbers_alone(parent: Path, tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    TRAINER.fit(job(tmp_path, parent, until=1), Watch())
    assert torch.equal(torch.rand(1), expected)


def test_the_weights_bring_tokenizer_template_and_generation_config_of_the_parent(parent: Path, tmp_path: Path) -> None:
    (parent / "generation_config.json").write_text('{"eos_token_id": [4, 3], "max_new_tokens": 9}\n')
    before = weights_digest(parent)
    folder = Path(TRAINER.fit(job(tmp_path, parent, template=TEMPLATE_B), Watch()).folder)
    names = {file.name for file in parent.iterdir()}
    assert {file.name for file in folder.iterdir()} == names
    for name in names - {"model.safetensors"}:
        assert (folder / name).read_bytes() == (parent / name).read_bytes(), name
    assert weights_digest(parent) == before
    loaded(folder)


TEMPLATE_B = "{% for m in messages %}{{ m['content'] }}|{% if m['role'] == 'assistant' %}<end>{% endif %}{% endfor %}"


def test_weights_of_a_half_precision_parent_are_loaded_as_they_were_trained(parent: Path, tmp_path: Path) -> None:
    loaded(parent).to(torch.bfloat16).save_pretrained(parent)
    assert json.loads((parent / "config.json").read_text())["dtype"] == "bfloat16"
    folder = Path(TRAINER.fit(job(tmp_path, parent), Watch()).folder)
    assert loaded(folder).dtype == torch.float32
    tensors = load_file(folder / "model.safetensors")
    assert any(not torch.equal(tensor, tensor.bfloat16().float()) for tensor in tensors.values())


def test_adapters_name_their_base_by_digest_and_hold_no_path(parent: Path, tmp_path: Path) -> None:
    store = WeightsStore(tmp_path / "weights")
    digest = store.adopt(parent, source="test")
    fitted = TRAINER.fit(job(tmp_path, store.path(digest), method="lora", lora={"rank": 2}), Watch())
    folder = Path(fitted.folder)
    assert {file.name for file in folder.iterdir()} == {"adapter_config.json", "adapter_model.safetensors", "base.json"}
    assert json.loads((folder / "base.json").read_text()) == {"base": digest}
    assert str(tmp_path) not in (folder / "adapter_config.json").read_text()
    assert store.add(folder, WeightsOrigin(parent=digest)) != digest


def test_adapters_are_trained_further_or_merged(parent: Path, tmp_path: Path) -> None:
    base = weights_digest(parent)
    lora = {"method": "lora", "lora": {"rank": 2}, "bases": {base: parent}}
    first = Path(TRAINER.fit(job(tmp_path, parent, name="a", **lora), Watch()).folder)
    merged = export_full(first, {base: parent}, tmp_path / "merged")
    further = TRAINER.fit(job(tmp_path, first, name="b", **lora), Watch())
    full = TRAINER.fit(job(tmp_path, first, name="c", bases={base: parent}), Watch())
    from_merged = TRAINER.fit(job(tmp_path, merged, name="d"), Watch())
    assert json.loads((Path(further.folder) / "base.json").read_text()) == {"base": base}
    # All three begin with the same function, which is not the base's.
    fresh = TRAINER.fit(job(tmp_path, parent, name="e"), Watch())
    assert further.losses[0] == pytest.approx(full.losses[0], abs=1e-5)
    assert full.losses == pytest.approx(from_merged.losses, abs=1e-5)
    assert abs(full.losses[0] - fresh.losses[0]) > 1e-3
    loaded(Path(full.folder))


def test_adapters_of_another_shape_or_without_their_base_are_told(parent: Path, tmp_path: Path) -> None:
    base = weights_digest(parent)
    first = Path(TRAINER.fit(job(tmp_path, parent, name="a", method="lora", lora={"rank": 2}), Watch()).folder)
    with pytest.raises(SetupError, match=r"use options.train.method = 'full', which merges them"):
        TRAINER.fit(job(tmp_path, first, method="lora", lora={"rank": 4}, bases={base: parent}), Watch())
    with pytest.raises(SetupError, match=f"need the weights '{base[:12]}', which were not given"):
        TRAINER.fit(job(tmp_path, first), Watch())
    layers = "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"
    refused = (
        rf"no adapters of options.train.lora.targets = \['nowhere'\] for this model; its linear layers are {layers}$"
    )
    with pytest.raises(SetupError, match=refused):
        TRAINER.fit(job(tmp_path, parent, method="lora", lora={"targets": ["nowhere"]}), Watch())


def test_only_adapters_change_and_dropout_needs_no_full_weights(parent: Path, tmp_path: Path) -> None:
    fitted = TRAINER.fit(job(tmp_path, parent, method="lora", lora={"rank": 2}), Watch())
    tensors = load_file(Path(fitted.folder) / "adapter_model.safetensors")
    assert all(".lora_A." in name or ".lora_B." in name for name in tensors)
    assert any(tensor.abs().sum() > 0 for name, tensor in tensors.items() if ".lora_B." in name)


@pytest.mark.parametrize("tied", [True, False])
def test_the_loss_falls_on_what_can_be_learned(tmp_path: Path, tied: bool) -> None:
    parent = tiny_parent(tmp_path / "parent", tied=tied)
    fitted = TRAINER.fit(job(tmp_path, parent, steps=60, checkpoint_every=60, batch=8), Watch())
    assert sum(fitted.losses[-5:]) / 5 < 0.6 * fitted.losses[0]
    model = loaded(Path(fitted.folder))
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied


def test_what_was_fitted_is_told_in_full(parent: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, float]] = []
    examples = (*counting(5), example("x", "a" * 90))
    watch = Watch(step=lambda number, loss: seen.append((number, loss)))
    fitted = TRAINER.fit(job(tmp_path, parent, examples=examples, steps=5, batch=2), watch)
    data = encode_all(examples, tiny_tokenizer(), config())
    assert seen == list(enumerate(fitted.losses, start=1))
    assert (fitted.steps, fitted.examples, fitted.dropped, fitted.resumed_from) == (5, 5, 1, 0)
    # Ten sequences are two passes over five examples.
    assert fitted.tokens == 2 * sum(len(one.ids) for one in data.sequences)
    assert fitted.trained_tokens == 2 * sum(one.trained_tokens for one in data.sequences)
    assert 0 < fitted.seconds_per_step < 5
    assert fitted.peak_memory_mb > 50
    assert fitted.spend.wall_s >= 5 * fitted.seconds_per_step
    assert fitted.spend.cpu_s > 0
    assert fitted.spend.gpu_s == (fitted.spend.wall_s if torch.cuda.is_available() else 0)


def test_weight_decay_spares_norms(parent: Path, tmp_path: Path) -> None:
    kept = {"learning_rate": 1e-9, "weight_decay": 1e8, "schedule": "constant", "warmup": 0.0}
    fitted = TRAINER.fit(job(tmp_path, parent, until=1, optimiser=kept), Watch())
    before, after = (load_file(folder / "model.safetensors") for folder in (parent, Path(fitted.folder)))
    for name, tensor in before.items():
        factor = 1.0 if "norm" in name else 0.9
        assert torch.allclose(after[name], tensor * factor, atol=1e-6), name


def test_a_loss_that_is_not_finite_names_its_step_and_leaves_the_parent_as_it_was(parent: Path, tmp_path: Path) -> None:
    before = weights_digest(parent)
    huge = {"learning_rate": 1e20, "clip": 0.0, "warmup": 0.0}
    with pytest.raises(TrainingError, match=r"of step \d is (nan|inf)|the gradient of step \d is not finite") as caught:
        TRAINER.fit(job(tmp_path, parent, optimiser=huge), Watch())
    assert not caught.value.missing
    assert weights_digest(parent) == before
    assert not (tmp_path / "work" / "weights").exists()


def test_a_parent_with_a_nan_is_told_at_the_first_step(parent: Path, tmp_path: Path) -> None:
    tensors = load_file(parent / "model.safetensors")
    tensors["model.norm.weight"][0] = math.nan
    save_file(tensors, parent / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TrainingError, match="the loss of step 1 is nan"):
        TRAINER.fit(job(tmp_path, parent), Watch())


def test_a_checkpoint_with_a_missing_tensor_is_told_by_name(parent: Path, tmp_path: Path) -> None:
    tensors = load_file(parent / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, parent / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(SetupError, match=r"lacks 1 tensors .*: model.layers.1.mlp.up_proj.weight"):
        TRAINER.fit(job(tmp_path, parent), Watch())


def test_a_damaged_or_absent_checkpoint_is_told(parent: Path, tmp_path: Path) -> None:
    whole = (parent / "model.safetensors").read_bytes()
    (parent / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SetupError, match=r"parent' cannot be loaded: "):
        TRAINER.fit(job(tmp_path, parent), Watch())
    with pytest.raises(SetupError, match="no folder"):
        TRAINER.fit(job(tmp_path, tmp_path / "nowhere"), Watch())
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("x")
    with pytest.raises(SetupError, match=r"it has no config\.json"):
        TRAINER.fit(job(tmp_path, tmp_path / "empty"), Watch())


def test_an_empty_data_set_and_one_with_all_labels_masked_are_refused(parent: Path, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="the data set is empty"):
        TRAINER.fit(job(tmp_path, parent, examples=()), Watch())
    masked = (example("x", ""),)
    with pytest.raises(SetupError, match="all labels of the 1 examples are masked"):
        TRAINER.fit(job(tmp_path, parent, examples=masked, end_token=False), Watch())


def test_a_stop_before_the_first_step_trains_nothing(parent: Path, tmp_path: Path) -> None:
    with pytest.raises(BudgetExhausted, match=r"^no seconds left$"):
        TRAINER.fit(job(tmp_path, parent), Watch(stop=lambda: "no seconds left"))
    assert not list((tmp_path / "work").glob("*"))
