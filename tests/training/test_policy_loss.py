"""The policy-gradient loss on single tokens, against numbers computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import ValidationError

from heldout.training.policy_loss import (
    LossSettings,
    LossTokens,
    clipped_loss,
    k3,
    mismatched,
    policy_loss,
    token_weights,
)


def _tokens(advantages: list[float], **given: object) -> LossTokens:
    n = len(advantages)
    defaults: dict[str, object] = {"weights": torch.full((n,), 1 / n), "clip_high": torch.full((n,), 0.2)}
    return LossTokens(advantages=torch.tensor(advantages), **(defaults | given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [
        (1.0, 2.0, -2.0),
        (1.5, 1.0, -1.272),  # clipped above
        (0.5, 1.0, -0.5),  # a fall with a positive advantage is not clipped
        (0.5, -1.0, 0.8),  # clipped below
        (1.5, -1.0, 1.5),  # a rise with a negative advantage is not clipped
        (4.0, -2.0, 6.0),  # the dual clip: at most 3 · |A|
        (4.0, 2.0, -2.544),  # which says nothing of positive advantages
    ],
)
def test_the_clipped_loss_by_hand(ratio: float, advantage: float, loss: float) -> None:
    found = clipped_loss(
        torch.tensor([ratio]),
        torch.tensor([advantage]),
        clip_low=0.2,
        clip_high=torch.tensor([0.272]),
        dual_clip=3.0,
    )
    assert float(found) == pytest.approx(loss, rel=1e-6)


def test_each_row_may_have_its_own_upper_bound() -> None:
    ratio, advantages = torch.tensor([2.0, 2.0]), torch.ones(2)
    found = clipped_loss(ratio, advantages, clip_low=0.2, clip_high=torch.tensor([0.2, 0.3]))
    assert found.tolist() == pytest.approx([-1.2, -1.3])


def test_k3_by_hand() -> None:
    # d = ln 0.25 − ln 0.5 = −ln 2, so exp(d) − d − 1 = 0.5 + 0.6931 − 1
    found = k3(torch.tensor([math.log(0.5), -1.0]), torch.tensor([math.log(0.25), -1.0]))
    assert found.tolist() == pytest.approx([0.5 + math.log(2) - 1, 0.0])
    assert (k3(torch.randn(100), torch.randn(100)) >= 0).all()


def test_aggregations_by_hand() -> None:
    lengths = [1, 3, 0]
    assert token_weights(lengths, "token") == [0.25] * 3
    assert token_weights(lengths, "sequence") == pytest.approx([1 / 3, 1 / 9, 1 / 3])
    assert token_weights(lengths, "constant", 8) == pytest.approx([1 / 24] * 3)
    assert token_weights([], "token") == []
    with pytest.raises(ValueError, match="needs a length"):
        token_weights(lengths, "constant")


def test_a_mismatch_is_a_difference_of_probabilities() -> None:
    trainer = torch.tensor([0.5, 0.5, 0.001, 0.5]).log()
    sampler = torch.tensor([0.39, 0.41, 0.05, math.nan]).log()
    assert mismatched(trainer, sampler, 0.1).tolist() == [True, False, False, False]


def test_a_mismatched_token_has_no_weight_and_is_counted() -> None:
    log_probs = torch.tensor([0.5, 0.5]).log().requires_grad_()
    tokens = _tokens([1.0, 1.0], sampler=torch.tensor([0.3, 0.45]).log())
    loss, report = policy_loss(log_probs, tokens, LossSettings(mismatch=0.1))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(-0.5)
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == [0.0, -0.5]
    assert int(report["masked"]) == 1


def test_the_divergence_is_weighed_as_the_tokens_are() -> None:
    log_probs = torch.tensor([0.5, 0.5]).log()
    tokens = _tokens([1.0, 1.0], reference=torch.tensor([0.25, 0.5]).log())
    loss, report = policy_loss(log_probs, tokens, LossSettings(kl=0.1))
    expected = 0.5 + math.log(2) - 1
    assert float(loss) == pytest.approx(-1.0 + 0.1 * expected / 2)
    assert float(report["kl"]) == pytest.approx(expected)
    assert float(report["objective"]) == pytest.approx(-1.0)


def test_clipped_tokens_are_counted_by_side() -> None:
    old = torch.zeros(4)
    log_probs = torch.tensor([1.5, 0.5, 1.5, 4.0]).log()
    found = policy_loss(log_probs, _tokens([1.0, -1.0, -1.0, -1.0], old=old), LossSettings(dual_clip=3.0))[1]
    assert [int(found[name]) for name in ("clipped_high", "clipped_low", "dual_clipped")] == [1, 1, 1]


def test_an_advantage_of_zero_has_exactly_zero_gradient() -> None:
    log_probs = torch.randn(8, requires_grad=True)
    loss, _ = policy_loss(log_probs, _tokens([0.0] * 8, old=torch.randn(8)), LossSettings(dual_clip=3.0))
    loss.backward()
    assert log_probs.grad is not None
    assert (log_probs.grad == 0.0).all()


def test_a_constant_length_is_asked_for_and_only_where_it_is_used() -> None:
    with pytest.raises(ValidationError, match="needs it"):
        LossSettings(aggregation="constant")
    with pytest.raises(ValidationError, match="belongs to"):
        LossSettings(length=8)
