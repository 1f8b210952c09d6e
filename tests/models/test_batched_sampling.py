"""Batched sampling and teacher forcing against `generate`, plain forward passes, and each row alone."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoints as tiny
import torch
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM

from heldout.errors import ModelError
from heldout.models.checkpoints import Checkpoint, load_checkpoint
from heldout.models.sampling import Sampled, Sampling, sample
from heldout.models.scoring import Scored, next_logprobs, score


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return load_checkpoint(tiny.write(tmp_path_factory.mktemp("tiny") / "checkpoint", ends=(260, *range(0, 256, 20))))


def prompts(count: int, *, longest: int = 40, seed: int = 0) -> list[tuple[int, ...]]:
    draw = random.Random(seed)
    return [tuple(draw.randrange(256) for _ in range(draw.randint(1, longest))) for _ in range(count)]


def draw(checkpoint: Checkpoint, asked: Sequence[Sequence[int]], *, batch: int = 64, **settings: Any) -> list[Sampled]:
    seeds = [100 + number for number in range(len(asked))]
    return sample(checkpoint, asked, Sampling(**settings), seeds=seeds, batch=batch)


def generated(checkpoint: Checkpoint, prompt: Sequence[int], tokens: int) -> tuple[int, ...]:
    """What transformers itself continues one prompt with, greedily."""
    ids = torch.tensor([list(prompt)])
    out = checkpoint.model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False
    )
    return tuple(out[0, len(prompt) :].tolist())


def by_hand(checkpoint: Checkpoint, item: Scored, temperature: float = 1.0) -> list[float]:
    """One whole forward pass per token, without a cache, a batch or padding."""
    found = []
    for place, token in enumerate(item.continuation):
        ids = torch.tensor([[*item.prompt, *item.continuation[:place]]])
        with torch.no_grad():
            logits = checkpoint.model(input_ids=ids).logits[0, -1] / temperature
        found.append(float(logits.log_softmax(dim=-1)[token]))
    return found


def test_greedy_rows_of_different_lengths_equal_generate_one_by_one(checkpoint: Checkpoint) -> None:
    asked = prompts(48)  # more rows than one group of the first pass holds, and more tokens than a buffer has room for
    found = draw(checkpoint, asked, max_tokens=50)
    assert [one.ids for one in found] == [generated(checkpoint, prompt, 50) for prompt in asked]
    ended = [one.finished for one in found]
    assert any(ended)
    assert not all(ended)
    assert all((one.ids[-1] in checkpoint.end_ids) == one.finished for one in found)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_batch_gives_each_row_what_it_gets_alone(checkpoint: Checkpoint, temperature: float) -> None:
    asked = prompts(40, seed=1)
    together = draw(checkpoint, asked, max_tokens=30, temperature=temperature)
    seeds = [100 + number for number in range(40)]
    settings = Sampling(max_tokens=30, temperature=temperature)
    alone = [sample(checkpoint, [p], settings, seeds=[s], batch=1)[0] for p, s in zip(asked, seeds, strict=True)]
    assert together == alone
    assert draw(checkpoint, asked, max_tokens=30, temperature=temperature, batch=7) == together


def test_each_row_follows_the_random_numbers_of_its_own_seed(tmp_path: Path) -> None:
    even = load_checkpoint(tiny.write(tmp_path / "even"))
    with torch.no_grad():
        even.model.lm_head.weight.zero_()  # every token is equally likely, so a draw u gives the token of place 264 u
    found = sample(
        replace(even, end_ids=frozenset()),
        [(65,), (66, 67), (68,)],
        Sampling(max_tokens=90, temperature=0.7),
        seeds=[5, 5, -6],
        batch=8,
    )
    for one, seed in zip(found, (5, 5, 2**63 - 6), strict=True):
        draws = torch.rand(90, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert one.ids == tuple((draws * 264).long().tolist())
    assert found[0] != found[2]


def test_tokens_come_as_often_as_the_tempered_softmax_says(checkpoint: Checkpoint) -> None:
    count, temperature = 4000, 0.5
    found = sample(
        checkpoint,
        [(72, 105)] * count,
        Sampling(max_tokens=1, temperature=temperature),
        seeds=range(count),
        batch=500,
    )
    with torch.no_grad():
        logits = checkpoint.model(input_ids=torch.tensor([[72, 105]])).logits[0, -1]
    expected = (logits / temperature).softmax(dim=-1)
    seen = Counter(one.ids[0] for one in found)
    for token in expected.topk(5).indices.tolist():
        p = float(expected[token])
        assert abs(seen[token] / count - p) < 5 * math.sqrt(p * (1 - p) / count)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.7])
def test_log_probabilities_of_the_sampler_equal_those_of_the_scorer(checkpoint: Checkpoint, temperature: float) -> None:
    asked = prompts(30, seed=2)
    drawn = draw(checkpoint, asked, max_tokens=20, temperature=temperature, logprobs=True)
    items = [Scored(prompt=prompt, continuation=one.ids) for prompt, one in zip(asked, drawn, strict=True)]
    scored = score(checkpoint, items, batch=64, temperature=temperature or 1.0)
    for one, values in zip(drawn, scored, strict=True):
        assert one.logprobs == pytest.approx(values, abs=1e-5)


def test_scores_equal_a_hand_loop_of_forward_passes_in_any_batch(checkpoint: Checkpoint) -> None:
    continuations = prompts(12, longest=15, seed=4)
    items = [Scored(prompt=p, continuation=c) for p, c in zip(prompts(12, seed=3), continuations, strict=True)]
    expected = [by_hand(checkpoint, item) for item in items]
    for batch in (1, 5, 64):
        found = score(checkpoint, items, batch=batch)
        for values, wanted in zip(found, expected, strict=True):
            assert values == pytest.approx(wanted, abs=1e-5)
    warm = score(checkpoint, items[:1], batch=1, temperature=2.0)[0]
    assert warm == pytest.approx(by_hand(checkpoint, items[0], 2.0), abs=1e-5)


def test_the_same_answer_is_scored_under_another_prompt_and_an_empty_one_has_no_values(checkpoint: Checkpoint) -> None:
    answer = (66, 67, 68)
    first, second, none = score(
        checkpoint, [Scored((65,), answer), Scored((90, 91), answer), Scored((65,), ())], batch=8
    )
    assert len(first) == len(second) == 3
    assert first != second
    assert none == ()


def test_next_log_probabilities_sum_to_one_and_are_those_of_the_model(checkpoint: Checkpoint) -> None:
    (found,) = next_logprobs(checkpoint, [(72, 105)])
    assert float(found.exp().sum()) == pytest.approx(1.0, abs=1e-5)
    assert float(found[66]) == pytest.approx(by_hand(checkpoint, Scored((72, 105), (66,)))[0], abs=1e-5)


def test_a_prompt_that_fills_the_context_is_refused_and_one_that_nearly_does_is_cut(checkpoint: Checkpoint) -> None:
    with pytest.raises(ModelError, match="prompt 2 of 2 has 96 tokens, and the model's context is 96"):
        draw(checkpoint, [(65,), (65,) * 96], max_tokens=5)
    with pytest.raises(ModelError, match="prompt 1 of 1 has no tokens"):
        draw(checkpoint, [()], max_tokens=5)
    cut, other = draw(checkpoint, [(65,) * 94, (66,)], max_tokens=8)
    assert len(cut.ids) <= 2
    assert other.ids == generated(checkpoint, (66,), 8)
    with pytest.raises(ModelError, match="item 1 of 1 has 97 tokens"):
        score(checkpoint, [Scored((65,) * 90, (66,) * 7)], batch=1)
    with pytest.raises(ModelError, match="no prompt"):
        score(checkpoint, [Scored((), (66,))], batch=1)


def test_weights_that_are_not_numbers_are_told_and_not_sampled(tmp_path: Path) -> None:
    broken = load_checkpoint(tiny.write(tmp_path / "broken"))
    with torch.no_grad():
        broken.model.model.norm.weight[0] = math.nan
    with pytest.raises(ModelError, match="not finite"):
        draw(broken, [(65,)], max_tokens=2)


@pytest.mark.parametrize("kind", ["sliding window", "learned positions"])
def test_other_architectures_are_sampled_like_generate_does(tmp_path: Path, kind: str) -> None:
    torch.manual_seed(1)
    shared = {"vocab_size": 264, "initializer_range": 0.3, "eos_token_id": 260, "pad_token_id": 256}
    if kind == "sliding window":
        sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
        config = MistralConfig(num_key_value_heads=2, sliding_window=6, bos_token_id=None, **sizes, **shared)
        folder = tiny.write(tmp_path / "other", model=MistralForCausalLM(config))
    else:
        config = GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=None, **shared)
        folder = tiny.write(tmp_path / "other", model=GPT2LMHeadModel(config))
    other = load_checkpoint(folder)
    asked = prompts(30, seed=6)
    found = draw(other, asked, max_tokens=24)
    assert [one.ids for one in found] == [generated(other, prompt, 24) for prompt in asked]
    # One row fills the context while the others go on.
    assert draw(replace(other, context=64), [(65,) * 63, *asked[:9]], max_tokens=24)[1:] == found[:9]
    items = [Scored(prompt=prompt, continuation=one.ids) for prompt, one in zip(asked, found, strict=True)]
    for item, values in list(zip(items, score(other, items, batch=16), strict=True))[:5]:
        assert values == pytest.approx(by_hand(other, item), abs=1e-4)
