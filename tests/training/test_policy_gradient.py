"""The loss of a policy-gradient step on tiny random models: scores, formula, which tokens count."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_policies import FAST, VOCABULARY, gradients_of, llama, plain_log_probs, rollouts, same, weights_of
from torch import Tensor, nn
from transformers import BloomConfig, BloomForCausalLM, GPT2Config, GPT2LMHeadModel

from heldout.training.advantages import group_advantages
from heldout.training.policy_gradient import PolicyTrainer, UpdateSettings
from heldout.training.policy_loss import LossSettings
from heldout.training.policy_rows import PolicyRow, Scoring
from heldout.training.policy_terms import PolicyTerm
from heldout.training.settings import OptimiserSettings
from heldout.training.token_scores import ScoredRow, TokenScorer, supports_trees


def _gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=16, n_layer=2, n_head=2)).eval()


def _bloom() -> BloomForCausalLM:
    torch.manual_seed(0)
    return BloomForCausalLM(BloomConfig(vocab_size=VOCABULARY, hidden_size=16, n_layer=2, n_head=2)).eval()


@pytest.mark.parametrize(
    ("model", "trees"),
    [
        (llama(), True),
        (llama(num_key_value_heads=1, attn_implementation="eager"), True),
        (_gpt2(), True),
        (_bloom(), False),  # its positions come out of the mask
    ],
    ids=["llama", "llama-eager", "gpt2", "bloom"],
)
@pytest.mark.parametrize("budget", [9, 4096])
def test_scores_are_those_of_one_row_at_a_time(model: nn.Module, trees: bool, budget: int) -> None:
    assert supports_trees(model) is trees
    rows = rollouts()
    found = TokenScorer(model, tokens_per_forward=budget).score([row.scored for row in rows])
    for row, scores in zip(rows, found, strict=True):
        assert scores.tolist() == pytest.approx(plain_log_probs(model, row).tolist(), abs=2e-5)


@pytest.mark.parametrize("budget", [9, 4096])
def test_logits_come_in_the_order_in_which_they_are_asked_for(budget: int) -> None:
    model = llama()
    rows = [ScoredRow((1, 2), (1,)), ScoredRow((3, 1, 4, 1, 5), (2, 4)), ScoredRow((1, 2, 6), (2,))]
    found = TokenScorer(model, tokens_per_forward=budget).logits(rows)
    expected = [model(torch.tensor([row.ids])).logits[0, place - 1] for row in rows for place in row.places]
    assert torch.allclose(found, torch.stack(expected), atol=1e-5)
    with pytest.raises(ValueError, match="no place"):
        TokenScorer(model).logits([ScoredRow((1, 2), ())])


def test_layers_that_look_through_a_window_are_given_rows_of_their_own() -> None:
    model = llama()
    model.config.sliding_window = 4
    found = TokenScorer(model).plan([row.scored for row in rollouts()])
    assert "position_ids" not in found[0].inputs


def test_shared_beginnings_are_computed_once() -> None:
    rows = [ScoredRow((*range(1, 11), 3, last), (10, 11)) for last in range(8)]
    (shared,), (apart,) = (TokenScorer(llama(), trees=trees).plan(rows) for trees in (True, False))
    assert (shared.tokens, apart.tokens) == (11, 8 * 11)


def test_a_temperature_divides_the_logits() -> None:
    model, row = llama(), rollouts()[0]
    ids = torch.tensor([[*row.prompt, *row.response]])
    table = torch.log_softmax(model(input_ids=ids).logits[0].detach() / 0.5, -1)[len(row.prompt) - 1, row.response[0]]
    assert float(TokenScorer(model, temperature=0.5).score([row.scored])[0][0]) == pytest.approx(float(table), abs=1e-5)
    with pytest.raises(ValueError, match="not positive"):
        TokenScorer(model, temperature=0.0)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_the_gradient_of_a_step_is_that_of_the_written_formula(share: bool, aggregation: Any) -> None:
    model, rows = llama(), rollouts(sampler=True)
    length = 6 if aggregation == "constant" else None
    loss = LossSettings(aggregation=aggregation, length=length, clip_high=0.272, dual_clip=3.0, kl=0.05)
    reference = llama(seed=1)

    expected, parts = torch.zeros(()), []
    for row in rows:
        log_probs = plain_log_probs(model, row)
        old = torch.tensor([row.sampler[place] for place in row.written])  # type: ignore[index]
        ratio, a = (log_probs - old).exp(), row.advantage
        one = torch.maximum(-ratio * a, -ratio.clamp(0.8, 1.272) * a)
        one = torch.minimum(one, torch.tensor(3.0 * abs(a))) if a < 0 else one  # type: ignore[operator, arg-type]
        d = plain_log_probs(reference, row).detach() - log_probs
        parts.append(one + 0.05 * (d.exp() - d - 1))
    if aggregation == "token":
        expected = torch.cat(parts).mean()
    elif aggregation == "sequence":
        expected = torch.stack([one.mean() for one in parts]).mean()
    else:
        expected = torch.cat(parts).sum() / (len(rows) * 6)
    expected.backward()
    wanted = gradients_of(model)
    model.zero_grad()

    scorer = TokenScorer(model, tokens_per_forward=60, trees=share)
    ready = PolicyTerm("policy", rows, loss).ready(Scoring(model, scorer, "sampler", reference))
    assert ready.backward()
    assert ready.report().loss == pytest.approx(float(expected.detach()), abs=1e-5)
    assert torch.allclose(gradients_of(model), wanted, atol=1e-6)
    assert all(parameter.grad is None for parameter in reference.parameters())


def test_prompt_and_observation_tokens_have_zero_loss_weight() -> None:
    model, rows = llama(), rollouts()
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
    rows = rollouts(sampler=True)
    changed = []
    for row in rows:
        assert row.sampler is not None
        known = [value if place in row.written else math.nan for place, value in enumerate(row.sampler)]
        changed.append(replace(row, sampler=tuple(known)))
    results = []
    for given in (rows, changed):
        model = llama()
        PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler")).update(
            PolicyTerm("policy", given)
        )
        results.append(weights_of(model))
    assert same(*results)


def test_observations_after_the_last_written_token_change_nothing() -> None:
    results = []
    for tail in ((5, 6), (7, 8)):
        model = llama()
        row = PolicyRow((1, 2), (3, 4, *tail), 1.0, mask=(True, True, False, False))
        PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("policy", [row]))
        results.append(weights_of(model))
    assert same(*results)


def test_zero_variance_groups_contribute_exactly_zero_gradient_and_are_counted() -> None:
    found = group_advantages([1.0, 1.0, 0.3, 0.3], ["a", "a", "b", "b"])
    rows = [PolicyRow((1, 2), (3, 4 + n), advantage) for n, advantage in enumerate(found.rows())]
    model = llama()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST.model_copy(update={"weight_decay": 0.1}))
    trainer.update(PolicyTerm("policy", rollouts()))  # the optimiser has momentum now, which must not move anything
    before = weights_of(model)
    report = trainer.update(PolicyTerm("policy", rows))
    assert found.zero_variance_share == 1.0
    assert same(before, weights_of(model))
    assert (report.steps, report.skipped, report.gradient_norm, report.terms[0].idle) == (0, 1, None, 4)
    assert report.terms[0].loss is None


def test_idle_rows_still_count_in_the_mean() -> None:
    norms = []
    for rows in (rollouts(), [*rollouts(), PolicyRow((1, 2), (3,) * len(_flat(rollouts())), 0.0)]):
        norms.append(PolicyTrainer(llama(), seed=0, optimiser=FAST).update(PolicyTerm("policy", rows)).gradient_norm)
    assert norms[1] == pytest.approx(norms[0] / 2, rel=1e-5)  # type: ignore[operator]


def _flat(rows: list[PolicyRow]) -> list[int]:
    return [place for row in rows for place in row.written]


def test_a_row_without_an_advantage_is_no_part_of_the_step_and_is_counted() -> None:
    results = []
    for extra in ([], [PolicyRow((1, 2), (3, 4), None)]):
        model = llama()
        report = PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("policy", [*rollouts(), *extra]))
        assert report.terms[0].missing == len(extra)
        results.append(weights_of(model))
    assert same(*results)


def test_the_size_of_a_forward_pass_changes_nothing_but_rounding() -> None:
    results = []
    for budget in (10, 4096):
        model = llama()
        settings = UpdateSettings(tokens_per_forward=budget)
        report = PolicyTrainer(model, seed=0, optimiser=FAST, settings=settings).update(
            PolicyTerm("policy", rollouts())
        )
        results.append((weights_of(model), report.gradient_norm))
    (a, norm_a), (b, norm_b) = results
    assert norm_a == pytest.approx(norm_b, rel=1e-4)
    assert all(torch.allclose(a[name], b[name], atol=1e-3) for name in a)


def test_a_row_may_have_its_own_upper_bound() -> None:
    """As AnchorLoop has it: a ratio of e² counts up to 1.2 in one row and up to 1.3 in the other."""
    model = llama()
    rows = []
    for bound in (None, 0.3):
        row = PolicyRow((1, 2), (3,), 1.0, clip_high=bound)
        rows.append(replace(row, sampler=(float(TokenScorer(model).score([row.scored])[0]) - 2.0,)))
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(old="sampler"))
    assert trainer.update(PolicyTerm("policy", rows)).terms[0].loss == pytest.approx(-(1.2 + 1.3) / 2, abs=1e-5)


def test_the_old_policy_is_the_one_before_the_update() -> None:
    """After the first of two epochs the ratio is no longer 1: it is measured against the weights of the beginning."""
    rows = [PolicyRow((1, 2), (3,), 1.0)]
    model = llama()
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
    model = llama()
    row = rollouts()[0]
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
    model, row = llama(), PolicyRow((1, 2), (3,), 1.0)
    honest = replace(row, sampler=(float(TokenScorer(model).score([row.scored])[0]),))
    steep = OptimiserSettings(learning_rate=0.05, schedule="constant", warmup=0.0)
    trainer = PolicyTrainer(model, seed=0, optimiser=steep, settings=UpdateSettings(epochs=2))
    start = math.exp(float(trainer.scorer.score([row.scored])[0]))
    report = trainer.update(PolicyTerm("policy", [honest], LossSettings(mismatch=0.02)))
    assert math.exp(float(trainer.scorer.score([row.scored])[0])) - start > 0.1
    assert report.terms[0].masked == 0.0


def test_an_update_scores_at_the_temperature_that_the_rollouts_had() -> None:
    model, row = llama(), PolicyRow((1, 2), (3,), 1.0)
    table = torch.log_softmax(model(input_ids=torch.tensor([row.prompt])).logits[0, -1] / 0.05, -1)
    (-(table[3] - table[3].detach()).exp()).backward()
    norm, table = float(gradients_of(model).norm()), table.detach()
    model.zero_grad()
    trainer = PolicyTrainer(model, seed=0, optimiser=FAST, settings=UpdateSettings(temperature=0.05))
    assert float(trainer.scorer.score([row.scored])[0]) == pytest.approx(float(table[3]), abs=1e-5)
    report = trainer.update(PolicyTerm("policy", [row]))
    assert report.gradient_norm == pytest.approx(norm, rel=1e-4)
    assert report.terms[0].entropy == pytest.approx(float(-(table.exp() * table).sum()), abs=1e-5)


def test_advantages_may_differ_from_token_to_token() -> None:
    model = llama()
    row = PolicyRow((1, 2), (3, 4), (1.0, -3.0))
    report = PolicyTrainer(model, seed=0, optimiser=FAST).update(PolicyTerm("policy", [row]))
    assert report.terms[0].loss == pytest.approx(1.0, abs=1e-6)
