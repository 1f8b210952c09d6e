"""Policy-gradient steps on tiny random models."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import BloomConfig, BloomForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from heldout.errors import SetupError, StoreError, TrainingError
from heldout.training.advantages import group_advantages
from heldout.training.policy_gradient import PolicyTrainer, UpdateSettings
from heldout.training.policy_loss import LossSettings
from heldout.training.policy_rows import PolicyRow, Scoring
from heldout.training.policy_terms import AuxiliaryTerm, PolicyTerm
from heldout.training.settings import OptimiserSettings
from heldout.training.token_scores import ScoredRow, TokenScorer, supports_trees

VOCABULARY = 12
FAST = OptimiserSettings(learning_rate=0.01, schedule="constant", warmup=0.0)


def _llama(seed: int = 0, **options: Any) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=64, **{**shape, **options})
    return LlamaForCausalLM(config).eval()


def _rows(count: int = 12, *, seed: int = 0, sampler: bool = False) -> list[PolicyRow]:
    """Groups of four rollouts of one prompt, of several lengths, with an observation inside every other one."""
    chance = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        if number % 4 == 0:
            prompt = tuple(chance.integers(1, VOCABULARY, 3 + number % 3).tolist())
        length = int(chance.integers(2, 7))
        rows.append(
            PolicyRow(
                prompt=prompt,
                response=tuple(chance.integers(1, VOCABULARY, length).tolist()),
                advantage=float(chance.normal()),
                mask=tuple(bool(place != 1) for place in range(length)) if number % 2 else None,
                sampler=tuple(chance.uniform(-3.0, -2.0, length).tolist()) if sampler else None,
            )
        )
    return rows


def _plain_log_probs(model: nn.Module, row: PolicyRow) -> Tensor:
    """Of the tokens that the policy wrote, one row at a time, as anybody would compute them."""
    ids = torch.tensor([[*row.prompt, *row.response]])
    table = torch.log_softmax(model(input_ids=ids).logits[0].float(), -1)
    start = len(row.prompt)
    return torch.stack([table[start + place - 1, row.response[place]] for place in row.written])


def _gradients(model: nn.Module) -> Tensor:
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in model.parameters()]
    )


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(tensor, b[name]) for name, tensor in a.items())


def _gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=16, n_layer=2, n_head=2)).eval()


def _bloom() -> BloomForCausalLM:
    torch.manual_seed(0)
    return BloomForCausalLM(BloomConfig(vocab_size=VOCABULARY, hidden_size=16, n_layer=2, n_head=2)).eval()


@pytest.mark.parametrize(
    ("model", "trees"),
    [
        (_llama(), True),
        (_llama(num_key_value_heads=1, attn_implementation="eager"), True),
        (_gpt2(), True),
        (_bloom(), False),  # its positions come out of the mask
    ],
    ids=["llama", "llama-eager", "gpt2", "bloom"],
)
@pytest.mark.parametrize("budget", [9, 4096])
def test_scores_are_those_of_one_row_at_a_time(model: nn.Module, trees: bool, budget: int) -> None:
    assert supports_trees(model) is trees
    rows = _rows()
    found = TokenScorer(model, tokens_per_forward=budget).score([row.scored for row in rows])
    for row, scores in zip(rows, found, strict=True):
        assert scores.tolist() == pytest.approx(_plain_log_probs(model, row).tolist(), abs=2e-5)


@pytest.mark.parametrize("budget", [9, 4096])
def test_logits_come_in_the_order_in_which_they_are_asked_for(budget: int) -> None:
    model = _llama()
    rows = [ScoredRow((1, 2), (1,)), ScoredRow((3, 1, 4, 1, 5), (2, 4)), ScoredRow((1, 2, 6), (2,))]
    found = TokenScorer(model, tokens_per_forward=budget).logits(rows)
    expected = [model(torch.tensor([row.ids])).logits[0, place - 1] for row in rows for place in row.places]
    assert torch.allclose(found, torch.stack(expected), atol=1e-5)
    with pytest.raises(ValueError, match="no place"):
        TokenScorer(model).logits([ScoredRow((1, 2), ())])


def test_layers_that_look_through_a_window_are_given_rows_of_their_own() -> None:
    model = _llama()
    model.config.sliding_window = 4
    found = TokenScorer(model).plan([row.scored for row in _rows()])
    assert "position_ids" not in found[0].inputs


def test_shared_beginnings_are_computed_once() -> None:
    rows = [ScoredRow((*range(1, 11), 3, last), (10, 11)) for last in range(8)]
    (shared,), (apart,) = (TokenScorer(_llama(), trees=trees).plan(rows) for trees in (True, False))
    assert (shared.tokens, apart.tokens) == (11, 8 * 11)


def test_a_temperature_divides_the_logits() -> None:
    model, row = _llama(), _rows()[0]
    ids = torch.tensor([[*row.prompt, *row.response]])
    table = torch.log_softmax(model(input_ids=ids).logits[0].detach() / 0.5, -1)[len(row.prompt) - 1, row.response[0]]
    assert float(TokenScorer(model, temperature=0.5).score([row.scored])[0][0]) == pytest.approx(float(table), abs=1e-5)
    with pytest.raises(ValueError, match="not positive"):
        TokenScorer(model, temperature=0.0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_the_gradient_of_a_step_is_that_of_the_written_formula(share: bool, aggregation: Any) -> None:
    model, rows = _llama(), _rows(sampler=True)
    length = 6 if aggregation == "constant" else None
    loss = LossSettings(aggregation=aggregation, length=length, clip_high=0.272, dual_clip=3.0, kl=0.05)
    reference = _llama(seed=1)

    expected, parts = torch.zeros(()), []
    for row in rows:
        log_probs = _plain_log_probs(model, row)
        old = torch.tensor([row.sampler[place] for place in row.written])  # type: ignore[index]
        ratio, a = (log_probs - old).exp(), row.advantage
        one = torch.maximum(-ratio * a, -ratio.clamp(0.8, 1.272) * a)
        one = torch.minimum(one, torch.tensor(3.0 * abs(a))) if a < 0 else one  # type: ignore[operator, arg-type]
        d = _plain_log_probs(reference, row).detach() - log_probs
        parts.append(one + 0.05 * (d.exp() - d - 1))
    if aggregation == "token":
        expected = torch.cat(parts).mean()
    elif aggregation == "sequence":
        expected = torch.stack([one.mean() for one in parts]).mean()
    else:
        expected = torch.cat(parts).sum() / (len(rows) * 6)
    expected.backward()
    wanted = _gradients(model)
    model.zero_grad()

    scorer = TokenScorer(model, tokens_per_forward=60, trees=share)
    ready = PolicyTerm("policy", rows, loss).ready(Scoring(model, scorer, "sampler", reference))
    assert ready.backward()
    assert ready.report().loss == pytest.approx(float(expected.detach()), abs=1e-5)
    assert torch.allclose(_gradients(model), wanted, atol=1e-6)
    assert all(parameter.grad is None for parameter in reference.parameters())


def test_prompt_and_observation_tokens_have_zero_loss_weight() -> None:
    model, rows = _llama(), _rows()
    seen: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        output.retain_grad()
        seen.append(output)

    handle = model.lm_head.register_forward_hook(keep)
    scorer = TokenScorer(model, trees=False)
    PolicyTerm("policy", rows).ready(Scoring(model, scorer, "current")).backward()
    handle.remove()
    (one,) = scorer.plan([row.scored for row in rows])
    gradient = seen[0].grad
    assert gradient is not None
    moved = set(gradient.flatten(0, 1).abs().sum(-1).nonzero().flatten().tolist())
    assert moved == set(one.rows.tolist()), "a logit that predicts no written token has a gradient"
    assert len(one.rows) == sum(len(row.written) for row in rows)


def test_what_stands_at_observation_tokens_is_not_read() -> None:
    rows = _rows(sampler=True)
    changed = []
    for row in rows:
        assert row.sampler is not None
        known = [value if place in row.written else math.nan for place, value in enumerate(row.sampler)]
        changed.append(replace(row, sampler=tuple(known)))
    results = []
    for given in (rows, changed):
        model = _llama()
        PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler")).update(
            PolicyTerm("policy", given)
        )
        results.append(_weights(model))
    assert _same(*results)


def test_observations_after_the_last_written_token_change_nothing() -> None:
    results = []
    for tail in ((5, 6), (7, 8)):
        model = _llama()
        row = PolicyRow((1, 2), (3, 4, *tail), 1.0, mask=(True, True, False, False))
        PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("policy", [row]))
        results.append(_weights(model))
    assert _same(*results)


def test_zero_variance_groups_contribute_exactly_zero_gradient_and_are_counted() -> None:
    found = group_advantages([1.0, 1.0, 0.3, 0.3], ["a", "a", "b", "b"])
    rows = [PolicyRow((1, 2), (3, 4 + n), advantage) for n, advantage in enumerate(found.rows())]
    model = _llama()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST.model_copy(update={"weight_decay": 0.1}))
    trainer.update(PolicyTerm("policy", _rows()))  # the optimiser has momentum now, which must not move anything
    before = _weights(model)
    report = trainer.update(PolicyTerm("policy", rows))
    assert found.zero_variance_share == 1.0
    assert _same(before, _weights(model))
    assert (report.steps, report.skipped, report.gradient_norm, report.terms[0].idle) == (0, 1, None, 4)
    assert report.terms[0].loss is None


def test_idle_rows_still_count_in_the_mean() -> None:
    norms = []
    for rows in (_rows(), [*_rows(), PolicyRow((1, 2), (3,) * len(_flat(_rows())), 0.0)]):
        norms.append(PolicyTrainer(_llama(), seed=0, optimiser=FAST).update(PolicyTerm("policy", rows)).gradient_norm)
    assert norms[1] == pytest.approx(norms[0] / 2, rel=1e-5)  # type: ignore[operator]


def _flat(rows: list[PolicyRow]) -> list[int]:
    return [place for row in rows for place in row.written]


def test_a_row_without_an_advantage_is_no_part_of_the_step_and_is_counted() -> None:
    results = []
    for extra in ([], [PolicyRow((1, 2), (3, 4), None)]):
        model = _llama()
        report = PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("policy", [*_rows(), *extra]))
        assert report.terms[0].missing == len(extra)
        results.append(_weights(model))
    assert _same(*results)


def test_the_size_of_a_forward_pass_changes_nothing_but_rounding() -> None:
    results = []
    for budget in (10, 4096):
        model = _llama()
        settings = UpdateSettings(tokens_per_forward=budget)
        report = PolicyTrainer(model, seed=0, optimiser=FAST, settings=settings).update(PolicyTerm("policy", _rows()))
        results.append((_weights(model), report.gradient_norm))
    (a, norm_a), (b, norm_b) = results
    assert norm_a == pytest.approx(norm_b, rel=1e-4)
    assert all(torch.allclose(a[name], b[name], atol=1e-3) for name in a)


def _hold(scorer: TokenScorer, rows: Any) -> Tensor:
    """One-sided: no probability of token 5 below a tenth, at the first place after the prompt."""
    logits = scorer.logits([ScoredRow((*prompt, 5), (len(prompt),)) for prompt in rows])
    return torch.relu(math.log(0.1) - torch.log_softmax(logits, -1)[:, 5]).square().mean()


def test_several_losses_are_added_in_one_step() -> None:
    model, actor, proposals = _llama(), _rows(8), _rows(4, seed=5)
    prompts = [row.prompt for row in proposals]

    def policy(rows: list[PolicyRow]) -> list[Tensor]:
        scores = [_plain_log_probs(model, row) for row in rows]
        return [-(one - one.detach()).exp() * row.advantage for one, row in zip(scores, rows, strict=True)]

    joint = torch.cat(policy(actor)).mean()
    joint = joint + 0.5 * torch.stack([one.mean() for one in policy(proposals)]).mean()
    extra = torch.stack([torch.log_softmax(model(torch.tensor([p])).logits[0, -1], -1)[5] for p in prompts])
    joint = joint + 3.0 * torch.relu(math.log(0.1) - extra).square().mean()
    joint.backward()
    norm = float(_gradients(model).norm())
    model.zero_grad()

    report = PolicyTrainer(model, seed=0, optimiser=FAST).update(
        PolicyTerm("actor", actor),
        PolicyTerm("proposal", proposals, LossSettings(aggregation="sequence"), weight=0.5),
        AuxiliaryTerm("support", prompts, _hold, weight=3.0),
    )
    assert report.steps == 1
    assert report.gradient_norm == pytest.approx(norm, rel=1e-4)
    assert [term.name for term in report.terms] == ["actor", "proposal", "support"]
    measures = report.measures()
    assert measures["support/loss"] > 0
    assert measures["actor/entropy"] == pytest.approx(math.log(VOCABULARY), abs=0.1)
    assert "actor/kl" not in measures, "a divergence that nobody asked for was reported"


def test_minibatches_hold_every_row_once_an_epoch_and_split_the_other_terms_evenly() -> None:
    seen: list[list[int]] = []

    def note(scorer: TokenScorer, numbers: Any) -> Tensor:
        seen.append(list(numbers))
        return 0.0 * scorer.logits([ScoredRow((1, 2), (1,))]).sum()

    model = _llama()
    settings = UpdateSettings(minibatch=5, epochs=2)
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=settings)
    report = trainer.update(PolicyTerm("actor", _rows(12)), AuxiliaryTerm("extra", list(range(7)), note))
    assert report.steps == 6
    assert [len(part) for part in seen] == [2, 3, 2] * 2
    assert sorted(seen[0] + seen[1] + seen[2]) == list(range(7))
    assert seen[0] + seen[1] + seen[2] != list(range(7)), "nothing was shuffled"
    assert (report.terms[0].rows, report.terms[1].rows) == (12, 7)
    again = seen.copy()
    seen.clear()
    PolicyTrainer(_llama(), seed=0, optimiser=FAST, settings=settings).update(
        PolicyTerm("actor", _rows(12)), AuxiliaryTerm("extra", list(range(7)), note)
    )
    assert seen == again, "the order does not follow from the seed alone"


def test_minibatches_keep_the_rollouts_of_a_prompt_together_in_a_shuffled_order() -> None:
    rows = [PolicyRow((1, 1 + number // 2), (3,), float(number)) for number in range(16)]
    parts = PolicyTerm("policy", rows).split(4, np.random.default_rng(0))
    assert [len(part.rows) for part in parts] == [4] * 4
    assert all(len({row.prompt for row in part.rows}) == 2 for part in parts)
    found = [row.advantage for part in parts for row in part.rows]
    assert found != sorted(found)  # type: ignore[type-var]
    assert set(found) == set(range(16))


def test_a_row_may_have_its_own_upper_bound() -> None:
    """As AnchorLoop has it: a ratio of e² counts up to 1.2 in one row and up to 1.3 in the other."""
    model = _llama()
    rows = []
    for bound in (None, 0.3):
        row = PolicyRow((1, 2), (3,), 1.0, clip_high=bound)
        rows.append(replace(row, sampler=(float(TokenScorer(model).score([row.scored])[0]) - 2.0,)))
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler"))
    assert trainer.update(PolicyTerm("policy", rows)).terms[0].loss == pytest.approx(-(1.2 + 1.3) / 2, abs=1e-5)


def test_matrices_decay_and_gains_do_not() -> None:
    results = []
    for decay in (0.0, 0.5):
        model = _llama()
        rate = FAST.model_copy(update={"weight_decay": decay})
        PolicyTrainer(model, seed=0, optimiser=rate).update(PolicyTerm("policy", _rows()))
        results.append(_weights(model))
    assert {name for name, one in results[0].items() if torch.equal(one, results[1][name])} == {
        name for name in results[0] if "norm" in name
    }


def test_the_old_policy_is_the_one_before_the_update() -> None:
    """After the first of two epochs the ratio is no longer 1: it is measured against the weights of the beginning."""
    rows = [PolicyRow((1, 2), (3,), 1.0)]
    model = _llama()
    start = float(TokenScorer(model).score([rows[0].scored])[0])
    steep = OptimiserSettings(learning_rate=0.05, schedule="constant", warmup=0.0)
    once = copy.deepcopy(model)
    PolicyTrainer(once, seed=0, optimiser=steep).update(PolicyTerm("policy", rows))
    ratio = math.exp(float(TokenScorer(once).score([rows[0].scored])[0]) - start)
    report = PolicyTrainer(model, seed=0, optimiser=steep, settings=UpdateSettings(epochs=2)).update(
        PolicyTerm("policy", rows, LossSettings(clip_high=0.01))
    )
    assert ratio > 1.01
    assert report.terms[0].loss == pytest.approx((-1.0 - 1.01) / 2, abs=1e-5)
    assert report.terms[0].clipped_high == 0.5


def test_tokens_on_which_trainer_and_sampler_disagree_are_masked_and_counted() -> None:
    model = _llama()
    row = _rows()[0]
    honest = TokenScorer(model).score([row.scored])[0].tolist()
    lying = [math.log(math.exp(honest[0]) + 0.11), *honest[1:]]
    reports = [
        PolicyTrainer(copy.deepcopy(model), seed=0, optimiser=FAST).update(
            PolicyTerm(
                "policy",
                [PolicyRow(row.prompt, row.response, 1.0, sampler=tuple(given))],
                LossSettings(mismatch=0.1),
            )
        )
        for given in (honest, lying)
    ]
    assert [report.terms[0].masked for report in reports] == [0.0, pytest.approx(1 / len(honest))]
    assert reports[1].terms[0].loss == pytest.approx(-(len(honest) - 1) / len(honest))


def test_a_mismatch_is_one_of_the_policy_that_sampled_and_stays_one() -> None:
    """The policy moves far from an honest sampler within the update; what it sampled is masked no more for that."""
    model, row = _llama(), PolicyRow((1, 2), (3,), 1.0)
    honest = replace(row, sampler=(float(TokenScorer(model).score([row.scored])[0]),))
    steep = OptimiserSettings(learning_rate=0.05, schedule="constant", warmup=0.0)
    trainer = PolicyTrainer(model, seed=0, optimiser=steep, settings=UpdateSettings(epochs=2))
    start = math.exp(float(trainer.scorer.score([row.scored])[0]))
    report = trainer.update(PolicyTerm("policy", [honest], LossSettings(mismatch=0.02)))
    assert math.exp(float(trainer.scorer.score([row.scored])[0])) - start > 0.1
    assert report.terms[0].masked == 0.0


def test_an_update_scores_at_the_temperature_that_the_rollouts_had() -> None:
    model, row = _llama(), PolicyRow((1, 2), (3,), 1.0)
    table = torch.log_softmax(model(input_ids=torch.tensor([row.prompt])).logits[0, -1] / 0.05, -1)
    (-(table[3] - table[3].detach()).exp()).backward()
    norm, table = float(_gradients(model).norm()), table.detach()
    model.zero_grad()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(temperature=0.05))
    assert float(trainer.scorer.score([row.scored])[0]) == pytest.approx(float(table[3]), abs=1e-5)
    report = trainer.update(PolicyTerm("policy", [row]))
    assert report.gradient_norm == pytest.approx(norm, rel=1e-4)
    assert report.terms[0].entropy == pytest.approx(float(-(table.exp() * table).sum()), abs=1e-5)


def test_every_update_has_an_order_of_its_own_and_a_resumed_one_the_same(tmp_path: Path) -> None:
    seen: list[int] = []

    def note(scorer: TokenScorer, numbers: Any) -> Tensor:
        seen.extend(numbers)
        return 0.0 * scorer.logits([ScoredRow((1, 2), (1,))]).sum()

    def order(trainer: PolicyTrainer) -> list[int]:
        seen.clear()
        trainer.update(AuxiliaryTerm("extra", list(range(12)), note))
        return seen.copy()

    settings = UpdateSettings(minibatch=4)
    trainer, resumed = (PolicyTrainer(_llama(), seed=0, optimiser=FAST, settings=settings) for _ in range(2))
    first = order(trainer)
    trainer.save(tmp_path / "state")
    second = order(trainer)
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    resumed.load(tmp_path / "state")
    assert order(resumed) == second


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # peft asks for it
def test_adapters_have_the_weights_below_them_as_reference() -> None:
    from peft import LoraConfig, get_peft_model

    base = _llama()
    frozen = _weights(base)
    torch.manual_seed(0)
    model = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.5))
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST)
    assert trainer.scorer.trees
    reports = [trainer.update(PolicyTerm("policy", _rows(), LossSettings(kl=0.1))).terms[0] for _ in range(3)]
    assert reports[0].kl == pytest.approx(0.0, abs=1e-7)
    assert reports[2].kl is not None
    assert reports[2].kl > 1e-6
    after = {name.replace(".base_layer", ""): one for name, one in model.get_base_model().state_dict().items()}
    assert _same(frozen, after)


def test_no_gradient_reaches_the_reference_and_its_bytes_stay() -> None:
    reference = _llama(seed=3)
    before = _weights(reference)
    trainer = PolicyTrainer(_llama(), seed=0, optimiser=FAST, reference=reference)
    report = trainer.update(PolicyTerm("policy", _rows(), LossSettings(kl=0.1)))
    assert report.terms[0].kl is not None
    assert report.terms[0].kl > 0
    assert _same(before, _weights(reference))
    assert all(parameter.grad is None for parameter in reference.parameters())


def test_there_is_no_dropout_and_the_model_is_given_back_as_it_was() -> None:
    model = _llama(attention_dropout=0.5).train()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(epochs=1))
    twin = copy.deepcopy(model).eval()
    trainer.update(PolicyTerm("policy", _rows()))
    PolicyTrainer(twin, seed=0, optimiser=FAST).update(PolicyTerm("policy", _rows()))
    assert model.training
    assert _same(_weights(model), _weights(twin))


def test_a_saved_optimiser_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    settings = UpdateSettings(minibatch=5)
    rate = OptimiserSettings(learning_rate=0.01, schedule="cosine", warmup=0.2)

    def trainer(model: nn.Module) -> PolicyTrainer:
        return PolicyTrainer(model, seed=4, optimiser=rate, settings=settings, horizon=20)

    model = _llama()
    whole = trainer(model)
    whole.update(PolicyTerm("policy", _rows()))
    for name in ("a", "b"):
        whole.save(tmp_path / name)
    middle = copy.deepcopy(model)
    last = whole.update(PolicyTerm("policy", _rows(seed=1)))
    resumed = trainer(middle)
    resumed.load(tmp_path / "a")
    again = resumed.update(PolicyTerm("policy", _rows(seed=1)))
    assert again == last
    assert _same(_weights(model), _weights(middle))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(SetupError, match="of another model"):
        PolicyTrainer(_llama(hidden_size=32), seed=0, optimiser=FAST).load(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"no tensors")
    with pytest.raises(StoreError, match="cannot read the optimiser's state a"):
        resumed.load(tmp_path / "a")
    with pytest.raises(StoreError, match="cannot write"):
        resumed.save(tmp_path / "nowhere" / "a")


def test_the_rate_rises_and_falls_over_the_horizon() -> None:
    rate = OptimiserSettings(learning_rate=1.0, schedule="linear", warmup=0.5)
    trainer = PolicyTrainer(_llama(), seed=0, optimiser=rate, horizon=4)
    found = [trainer.update(PolicyTerm("policy", _rows(4))).learning_rate for _ in range(5)]
    assert found == pytest.approx([1 / 3, 2 / 3, 1.0, 0.5, 0.0])


def test_a_loss_that_is_not_finite_ends_the_update_before_it_spoils_the_weights() -> None:
    model = _llama()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler"))
    before = _weights(model)
    row = PolicyRow((1, 2), (3,), -1.0, sampler=(-1e4,))
    with pytest.raises(TrainingError, match="the loss of 'policy' is inf"):
        trainer.update(PolicyTerm("fine", _rows(sampler=True)), PolicyTerm("policy", [row]))
    assert _same(before, _weights(model))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_gradient_that_is_not_finite_ends_the_update_too() -> None:
    def steep(scorer: TokenScorer, rows: Any) -> Tensor:
        logits = scorer.logits([ScoredRow(tuple(one), (1,)) for one in rows])
        return (logits - logits.detach()).sqrt().sum()

    model = _llama()
    before = _weights(model)
    with pytest.raises(TrainingError, match="the norm of the gradient is"):
        PolicyTrainer(model, seed=0, optimiser=FAST).update(AuxiliaryTerm("steep", [(1, 2)], steep))
    assert _same(before, _weights(model))


def test_what_cannot_work_is_told() -> None:
    model = _llama()
    with pytest.raises(SetupError, match="needs a horizon"):
        PolicyTrainer(model, seed=0, optimiser=OptimiserSettings())
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST)
    with pytest.raises(SetupError, match="kl > 0 needs a reference"):
        trainer.update(PolicyTerm("policy", _rows(), LossSettings(kl=0.1)))
    with pytest.raises(SetupError, match="12 of 12 rows have no `sampler` log-probabilities; they are asked for"):
        trainer.update(PolicyTerm("policy", _rows(), LossSettings(mismatch=0.1)))
    asked = [PolicyRow((1,), (2,), 1.0, sampler=(-1.0,))]
    with pytest.raises(SetupError, match="a mismatch of the two is never found: set old = 'recompute'"):
        PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler")).update(
            PolicyTerm("policy", asked, LossSettings(mismatch=0.1))
        )
    mixed = [PolicyRow((1,), (2,), 1.0, reference=(-1.0,)), PolicyRow((1,), (3,), -1.0)]
    with pytest.raises(SetupError, match="1 of 2 rows have no `reference` log-probabilities; others do"):
        trainer.update(PolicyTerm("policy", mixed, LossSettings(kl=0.1)))
    unknown = [PolicyRow((1,), (2,), 1.0, sampler=(math.nan,))]
    with pytest.raises(SetupError, match="no old log-probability"):
        PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler")).update(
            PolicyTerm("policy", unknown)
        )
    with pytest.raises(ValueError, match="without terms"):
        trainer.update()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(SetupError, match="no weight of the model"):
        PolicyTrainer(model, seed=0, optimiser=FAST)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prompt": ()}, "without a prompt"),
        ({"mask": (True,)}, "1 values of `mask` for a response of 2"),
        ({"advantage": (1.0,)}, "1 values of `advantage`"),
        ({"advantage": math.nan}, "is not a number"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PolicyRow(**{"prompt": (1,), "response": (2, 3), "advantage": 1.0, **given})


def test_advantages_may_differ_from_token_to_token() -> None:
    model = _llama()
    row = PolicyRow((1, 2), (3, 4), (1.0, -3.0))
    report = PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("policy", [row]))
    assert report.terms[0].loss == pytest.approx(1.0, abs=1e-6)


def test_a_token_that_is_rewarded_becomes_likely() -> None:
    model = _llama()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST)
    chance = torch.Generator().manual_seed(0)
    prompts = [(1, 2), (3, 4, 5)]

    def probability() -> float:
        scores = trainer.scorer.score([ScoredRow((*prompt, 7), (len(prompt),)) for prompt in prompts])
        return float(torch.cat(scores).exp().mean())

    start = probability()
    for _ in range(25):
        with torch.no_grad():
            tables = [model(torch.tensor([prompt])).logits[0, -1].softmax(-1) for prompt in prompts]
        drawn = [torch.multinomial(table, 16, replacement=True, generator=chance).tolist() for table in tables]
        rewards = [float(token == 7) for tokens in drawn for token in tokens]
        advantages = group_advantages(rewards, [number // 16 for number in range(32)]).rows()
        answered = [(prompt, token) for prompt, tokens in zip(prompts, drawn, strict=True) for token in tokens]
        trainer.update(
            PolicyTerm(
                "policy",
                [PolicyRow(p, (token,), a) for (p, token), a in zip(answered, advantages, strict=True)],
            )
        )
    assert start < 0.15
    assert probability() > 0.7
