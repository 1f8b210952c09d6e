"""Models in this process: the contract of the seam, many weights behind one model, adapters, choices, stop texts."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import tiny_checkpoints as tiny
import torch
from safetensors.torch import load_file, save_file

from heldout.config import ModelConfig
from heldout.errors import ModelError, SetupError, StoreError
from heldout.models import Message, Model, Reply, Request, make_model
from heldout.models.checkpoints import load_checkpoint
from heldout.models.local_transformers import LocalTransformersModel
from heldout.models.sampling import Sampling
from heldout.models.scoring import Scored
from heldout.store.weights import WeightsOrigin, WeightsStore, weights_digest
from heldout.testing.model_contract import ModelContract


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("local") / "checkpoint")


@pytest.fixture
def model(folder: Path) -> LocalTransformersModel:
    return local(folder)


@pytest.fixture
def store(tmp_path: Path) -> WeightsStore:
    return WeightsStore(tmp_path / "weights")


def local(folder: Path, **options: Any) -> LocalTransformersModel:
    return LocalTransformersModel(ModelConfig(name=f"local:{folder}", max_tokens=12, options=options))


def ask(text: str, **settings: Any) -> Request:
    return Request(messages=(Message(role="user", content=text),), **settings)


def brought(store: WeightsStore, folder: Path, **settings: Any) -> str:
    return store.adopt(tiny.write(folder, **settings), source="a test")


DEPRECATED = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.* is deprecated:FutureWarning")
"""peft asks transformers in the words of an older version."""


def adapters(store: WeightsStore, base: str, folder: Path, *, seed: int) -> tuple[str, Any]:
    """Random adapters of `base` as a trainer writes them; their digest, and the same model unmerged."""
    torch.manual_seed(seed)
    checkpoint = load_checkpoint(store.path(base), bases=store.path)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "up_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    wrapped = peft.get_peft_model(checkpoint.model, config)
    wrapped.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    (folder / "base.json").write_text(json.dumps({"base": base}))
    return store.add(folder, WeightsOrigin(parent=base)), wrapped


class TestContract(ModelContract):
    @pytest.fixture
    def make_model(self, folder: Path) -> Callable[[], Model]:
        return lambda: make_model(ModelConfig(name=f"local:{folder}"))


def test_its_flags_say_that_a_loop_can_train_it(model: LocalTransformersModel, folder: Path) -> None:
    assert (model.serves_weights, model.trainer, model.simulated, model.can_choose) == (
        True,
        "transformers",
        False,
        True,
    )
    assert model.deterministic
    assert not LocalTransformersModel(ModelConfig(name=f"local:{folder}", temperature=0.5)).deterministic


def test_the_fingerprint_is_content_and_settings_and_not_the_place(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "elsewhere")
    same, other = local(tmp_path / "elsewhere"), local(tiny.write(tmp_path / "other", seed=1))
    assert same.fingerprint == local(folder).fingerprint == local(folder, batch=3, keep=1).fingerprint
    assert len({one.fingerprint for one in (same, other, local(folder, dtype="bfloat16"))}) == 3


def test_serving_puts_the_start_checkpoint_in_the_store(
    model: LocalTransformersModel, folder: Path, store: WeightsStore
) -> None:
    before = model.complete(ask("Hello"))
    digest = model.serve(store)
    assert digest == weights_digest(folder) == weights_digest(store.path(digest)) == model.start
    assert store.origin(digest).source == f"local:{folder}"
    assert model.complete(ask("Hello")) == model.complete(ask("Hello", weights=digest)) == before


def test_a_request_is_answered_by_the_weights_that_it_names(
    model: LocalTransformersModel, store: WeightsStore, tmp_path: Path
) -> None:
    model.serve(store)
    digest = brought(store, tmp_path / "other", seed=1)
    assert model.complete(ask("Hello", weights=digest)) == local(store.path(digest)).complete(ask("Hello"))
    assert model.complete(ask("Hello", weights=digest)) != model.complete(ask("Hello"))


def test_few_weights_stay_loaded_and_those_used_longest_ago_go_first(
    folder: Path, store: WeightsStore, tmp_path: Path
) -> None:
    model = local(folder, keep=2)
    start = model.serve(store)
    first, second = (brought(store, tmp_path / f"w{seed}", seed=seed) for seed in (1, 2))
    kept = model.weights(start)
    model.weights(first)
    assert model.weights(start) is kept
    model.weights(second)
    assert model.weights(start) is kept
    again = model.weights(first)
    assert model.weights(first) is again
    model.close()
    assert model.weights(first) is not again


def test_unknown_and_changed_weights_are_refused(
    model: LocalTransformersModel, store: WeightsStore, tmp_path: Path
) -> None:
    with pytest.raises(SetupError, match="serves no store yet"):
        model.complete(ask("Hello", weights="0" * 64))
    model.serve(store)
    with pytest.raises(StoreError, match="no weights '000000000000'"):
        model.complete(ask("Hello", weights="0" * 64))
    digest = brought(store, tmp_path / "other", seed=1)
    file = store.path(digest) / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match="were changed"):
        model.complete(ask("Hello", weights=digest))


def test_a_start_checkpoint_that_cannot_be_used_is_told_when_it_is_served(store: WeightsStore, tmp_path: Path) -> None:
    folder = tiny.write(tmp_path / "broken")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(SetupError, match=r"tensor 'model.norm.weight' is missing"):
        local(folder).serve(store)
    with pytest.raises(SetupError, match="local:DIR, or local:smollm2"):
        LocalTransformersModel(ModelConfig(name="local")).serve(store)


@DEPRECATED
def test_adapters_and_adapters_upon_adapters_answer_as_their_unmerged_selves(
    model: LocalTransformersModel, store: WeightsStore, tmp_path: Path
) -> None:
    base = model.serve(store)
    first, unmerged = adapters(store, base, tmp_path / "a", seed=1)
    second, upon = adapters(store, first, tmp_path / "b", seed=2)
    ids = torch.tensor([model.encode((Message(role="user", content="Hello"),))])
    for digest, wrapped in ((first, unmerged), (second, upon)):
        with torch.no_grad():
            expected = wrapped.eval()(input_ids=ids).logits
            found = model.weights(digest).model(input_ids=ids).logits
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    replies = {digest: model.complete(ask("Hello", weights=digest)).text for digest in (base, first, second)}
    assert len(set(replies.values())) == 3


@DEPRECATED
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("tensor", "q_proj.lora_A.weight' is missing in the adapters"),
        ("stranger", "'stranger' fits no layer"),
        ("base", "no base.json, which says what they adapt"),
        ("unnamed base", "names no base"),
        ("kind", "adapters of type 'IA3'; LORA is what is served"),
        ("file", "adapter_model.safetensors is missing; adapter_model.bin is a pickle"),
    ],
)
def test_adapters_that_are_not_whole_are_refused(
    model: LocalTransformersModel, store: WeightsStore, tmp_path: Path, fault: str, message: str
) -> None:
    folder = store.path(adapters(store, model.serve(store), tmp_path / "a", seed=1)[0])
    file, config = folder / "adapter_model.safetensors", folder / "adapter_config.json"
    if fault in ("tensor", "stranger"):
        tensors = load_file(file)
        if fault == "tensor":
            del tensors[min(name for name in tensors if "q_proj.lora_A" in name)]
        else:
            tensors["stranger"] = torch.zeros(1)
        save_file(tensors, file)
    elif fault == "base":
        (folder / "base.json").unlink()
    elif fault == "unnamed base":
        (folder / "base.json").write_text("{}")
    elif fault == "kind":
        config.write_text(config.read_text().replace('"LORA"', '"IA3"'))
    else:
        file.rename(folder / "adapter_model.bin")
    with pytest.raises(SetupError, match=message):
        load_checkpoint(folder, bases=store.path)


@DEPRECATED
def test_adapters_whose_base_nobody_knows_are_refused(
    model: LocalTransformersModel, store: WeightsStore, tmp_path: Path
) -> None:
    base = model.serve(store)
    digest, _ = adapters(store, base, tmp_path / "a", seed=1)
    with pytest.raises(SetupError, match=f"adapters of '{base[:12]}', whose folder is not known"):
        load_checkpoint(store.path(digest))


@DEPRECATED
@pytest.mark.parametrize("base", [True, False], ids=["ours", "of peft alone"])
def test_a_model_does_not_start_from_adapters_and_says_how_to_merge_them(
    model: LocalTransformersModel, store: WeightsStore, tmp_path: Path, base: bool
) -> None:
    digest, _ = adapters(store, model.serve(store), tmp_path / "a", seed=1)
    folder = shutil.copytree(store.path(digest), tmp_path / "lone")
    if not base:
        (folder / "base.json").unlink()
    lone, merge = local(folder), r"from full weights: merge them first \(peft: .*merge_and_unload\(\)"
    with pytest.raises(SetupError, match=merge):
        lone.complete(ask("Hello"))
    with pytest.raises(SetupError, match=merge):
        _ = lone.fingerprint
    with pytest.raises(SetupError, match=merge):
        lone.serve(WeightsStore(tmp_path / "other"))


def test_a_probability_at_temperature_0_is_refused(model: LocalTransformersModel) -> None:
    for temperature in (0.0, -1.0, math.nan):
        with pytest.raises(SetupError, match=r"temperature = .* is not positive; 1\.0 scores"):
            model.score([Scored((1, 2), (3,))], temperature=temperature)


@pytest.mark.parametrize("seeds", [[1], [1, 2, 3]])
def test_every_prompt_of_a_batch_has_a_seed_of_its_own(model: LocalTransformersModel, seeds: list[int]) -> None:
    with pytest.raises(SetupError, match=f"{len(seeds)} seeds for 2 prompts"):
        model.sample([(1, 2), (3,)], Sampling(max_tokens=2), seeds=seeds)


def test_a_copy_in_another_process_serves_the_same_store(
    model: LocalTransformersModel, store: WeightsStore, tmp_path: Path
) -> None:
    model.serve(store)
    digest = brought(store, tmp_path / "other", seed=1)
    copy: LocalTransformersModel = pickle.loads(pickle.dumps(model))
    assert copy.fingerprint == model.fingerprint
    assert copy.complete(ask("Hello", weights=digest)) == model.complete(ask("Hello", weights=digest))


def test_a_batch_gives_the_replies_of_its_requests_one_by_one(model: LocalTransformersModel) -> None:
    texts = ["", "a", "How many?", "a longer question " * 3, "12 + 30 ="]
    for settings in ({}, {"temperature": 1.0}, {"max_tokens": 3}):
        requests = [ask(text, seed=number, **settings) for number, text in enumerate(texts)]
        assert model.complete_batch(requests) == [model.complete(one) for one in requests]
    assert model.complete_batch([]) == []


def test_token_counts_are_those_of_the_template_and_of_the_reply(model: LocalTransformersModel) -> None:
    reply = model.complete(ask("héllo", max_tokens=5))
    assert reply.tokens_in == len("<user>") - 5 + len("héllo".encode()) + 1  # two special tokens around the bytes
    assert (reply.tokens_out, reply.finish_reason) == (5, "length")


def test_a_reply_that_ends_itself_is_told_from_one_that_was_cut(tmp_path: Path) -> None:
    model = local(tiny.write(tmp_path / "ending", ends=range(264)))
    reply = model.complete(ask("Hello"))
    assert (reply.finish_reason, reply.tokens_out) == ("stop", 1)


def test_a_stop_text_ends_the_reply_and_is_no_part_of_it(model: LocalTransformersModel) -> None:
    whole = model.complete(ask("Hello", temperature=1.0, seed=3, max_tokens=40)).text
    stop = next(whole[n : n + 2] for n in range(8, 30) if whole[n : n + 2].isascii() and whole[n : n + 2].isprintable())
    reply = model.complete(ask("Hello", temperature=1.0, seed=3, max_tokens=40, stop=(stop, "never said")))
    assert reply.text == whole[: whole.index(stop)]
    assert reply.finish_reason == "stop"
    assert reply.tokens_out < 40


def test_a_prompt_longer_than_the_context_is_an_error_of_the_model(model: LocalTransformersModel) -> None:
    with pytest.raises(ModelError, match="prompt 2 of 2 has 102 tokens, and the model's context is 96"):
        model.complete_batch([ask("a"), ask("a" * 100)])


def test_requests_of_a_batch_must_agree(model: LocalTransformersModel) -> None:
    with pytest.raises(ValueError, match="differ in weights or sampling settings"):
        model.complete_batch([ask("a"), ask("b", max_tokens=3)])


def test_what_it_does_not_know_is_refused_and_not_left_out(model: LocalTransformersModel) -> None:
    for more in ({"grammar": "root ::= x"}, {"json_schema": {}}, {"top_logprobs": 3}):
        with pytest.raises(ModelError, match="knows no tools, schemas, grammars or top_logprobs"):
            model.complete(ask("a", **more))


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_reply_tells_its_tokens_where_they_are_asked_for(model: LocalTransformersModel, temperature: float) -> None:
    plain = ask("Hello", temperature=temperature, seed=3)
    reply = model.complete(plain.model_copy(update={"tokens": True}))
    told = reply.tokens
    assert told is not None
    assert reply.model_copy(update={"tokens": None}) == model.complete(plain)
    assert told.prompt == model.encode(plain.messages)
    assert len(told.ids) == len(told.logprobs) == reply.tokens_out
    assert model.decode(told.ids).startswith(reply.text)
    assert told.temperature == temperature
    scored = model.score([Scored(told.prompt, told.ids)], temperature=temperature or 1.0)[0]
    assert told.logprobs == pytest.approx(scored, abs=1e-4)


def test_weights_that_answer_are_not_trained(model: LocalTransformersModel, store: WeightsStore) -> None:
    from heldout.training.policy_gradient import PolicyTrainer

    start = model.serve(store)
    for digest in (None, start):
        assert not any(parameter.requires_grad for parameter in model.weights(digest).model.parameters())
        with pytest.raises(SetupError, match="no weight of the model is to be trained"):
            PolicyTrainer(model.weights(digest).model, seed=0)


def test_choices_have_the_log_probabilities_of_their_first_tokens(model: LocalTransformersModel) -> None:
    found = model.complete(ask("Which?", choices=("person", "Xylem"))).choice_logprobs
    assert found is not None
    prompt = model.encode((Message(role="user", content="Which?"),))
    with torch.no_grad():
        likely = model.weights().model(input_ids=torch.tensor([prompt])).logits[0, -1].softmax(dim=-1)
    for choice, first in (("person", "pP"), ("Xylem", "xX")):  # a leading space is a token of its own, and counts not
        ids = [model.weights().tokenizer.encode(letter)[0] for letter in first]
        assert found[choice] == pytest.approx(math.log(sum(float(likely[one]) for one in ids)), abs=1e-5)


def test_a_last_turn_of_the_assistant_is_continued(model: LocalTransformersModel) -> None:
    turns = (
        Message(role="system", content="s"),
        Message(role="user", content="u"),
        Message(role="assistant", content="A"),
    )
    text = model.weights().tokenizer.decode(model.encode(turns))
    assert text == "<system>s<user>u<assistant>A"
    closed = model.weights().tokenizer.decode(model.encode(turns, add_generation_prompt=False))
    assert closed == "<system>s<user>u<assistant>A<end>"
    assert isinstance(model.complete(Request(messages=turns)), Reply)


def test_sampled_tokens_are_scored_under_the_same_weights(
    model: LocalTransformersModel, store: WeightsStore, tmp_path: Path
) -> None:
    model.serve(store)
    digest = brought(store, tmp_path / "other", seed=1)
    prompts = [model.encode((Message(role="user", content=text),)) for text in ("Hello", "a")]
    settings = Sampling(max_tokens=10, temperature=1.0, logprobs=True)
    drawn = model.sample(prompts, settings, seeds=[1, 2], weights=digest)
    items = [Scored(prompt, one.ids) for prompt, one in zip(prompts, drawn, strict=True)]
    for one, values in zip(drawn, model.score(items, weights=digest), strict=True):
        assert one.logprobs == pytest.approx(values, abs=1e-5)
    assert drawn[0].logprobs != pytest.approx(model.score(items)[0], abs=1e-2)
    assert model.decode([*drawn[0].ids, 260]) == model.decode(drawn[0].ids)
