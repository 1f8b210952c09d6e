"""The clipped policy-gradient loss on single tokens, and how tokens are weighed into one number.

Tensors are flat: one element per token that loss is taken on. Prompt and observation tokens are not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from heldout.records import Record

__all__ = ["LossSettings", "LossTokens", "clipped_loss", "k3", "mismatched", "policy_loss", "token_weights"]


class LossSettings(Record):
    """One policy-gradient loss."""

    clip_low: float = Field(default=0.2, ge=0.0, le=1.0)
    """The ratio of new to old probability counts down to 1 − this (PPO, arXiv 1707.06347, equation 7)."""
    clip_high: float = Field(default=0.2, ge=0.0)
    """And up to 1 + this (DAPO, arXiv 2503.14476); a row may have a bound of its own."""
    dual_clip: float | None = Field(default=None, gt=1.0)
    """With a negative advantage the ratio counts up to this at most (arXiv 1912.09729, equation 5)."""
    kl: float = Field(default=0.0, ge=0.0)
    """Weight of the k3 estimate of the divergence from the reference."""
    aggregation: Literal["token", "sequence", "constant"] = "token"
    """Mean over all tokens of the mini-batch (DAPO); over the tokens of a row, then over rows (GRPO); or the sum over
    all tokens divided by rows times `length` (Dr. GRPO)."""
    length: int | None = Field(default=None, ge=1)
    """Of `constant`: tokens that each row is taken to have, usually the most that a reply may have."""
    mismatch: float | None = Field(default=None, gt=0.0)
    """Tokens to which trainer and sampler gave probabilities further apart than this have no weight (CoTrace)."""

    @model_validator(mode="after")
    def _constant_has_a_length(self) -> Self:
        if (self.aggregation == "constant") != (self.length is not None):
            raise ValueError("`length` belongs to aggregation = 'constant', which needs it")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class LossTokens:
    """What is known of each token before the policy is asked again."""

    advantages: Tensor
    weights: Tensor
    """Weight of the token in the loss, see `token_weights`."""
    clip_high: Tensor
    old: Tensor | None = None
    """Log-probability under the policy that sampled; None where that is the policy as it is now."""
    sampler: Tensor | None = None
    """Log-probability that the sampler itself gave; NaN where it gave none."""
    reference: Tensor | None = None
    """Log-probability under the reference, for `kl`."""

    def at(self, numbers: Tensor) -> LossTokens:
        """Those tokens, in that order."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(self, **{name: part[numbers] for name, part in given.items() if part is not None})


def token_weights(
    lengths: Sequence[int], aggregation: Literal["token", "sequence", "constant"], length: int | None = None
) -> list[float]:
    """Weight of each token of a row, so that the sum of weight times loss is the mean that `aggregation` names.

    `lengths` counts the tokens of each row that loss is taken on, at least one; `PolicyTerm` leaves out rows without.
    """
    rows, tokens = len(lengths), sum(lengths)
    if aggregation == "token":
        return [1.0 / max(tokens, 1)] * rows
    if aggregation == "sequence":
        return [1.0 / (rows * max(own, 1)) for own in lengths]
    if length is None:
        raise ValueError("aggregation 'constant' needs a length")
    return [1.0 / (max(rows, 1) * length)] * rows


def clipped_loss(
    ratio: Tensor, advantages: Tensor, *, clip_low: float, clip_high: Tensor, dual_clip: float | None = None
) -> Tensor:
    """`−min(ratio · A, clip(ratio, 1 − low, 1 + high) · A)`; with A < 0 at most `dual_clip · |A|`."""
    bounded = torch.minimum(ratio.clamp(min=1.0 - clip_low), 1.0 + clip_high)
    loss = torch.maximum(-ratio * advantages, -bounded * advantages)
    # With A ≥ 0 the loss is never positive, so that the bound binds nothing.
    return loss if dual_clip is None else torch.minimum(loss, dual_clip * advantages.abs())


def k3(log_probs: Tensor, reference: Tensor) -> Tensor:
    """`exp(d) − d − 1` with d = reference − policy: an unbiased, never negative estimate of KL(policy ‖ reference).

    J. Schulman, "Approximating KL Divergence", 2020.
    """
    difference = reference - log_probs
    return difference.exp() - difference - 1.0


def mismatched(trainer: Tensor, sampler: Tensor, bound: float) -> Tensor:
    """Tokens whose probabilities |p_trainer − p_sampler| differ by more than `bound`; not those that a sampler gave no
    log-probability of (NaN)."""
    return (trainer.exp() - sampler.exp()).abs() > bound


def policy_loss(log_probs: Tensor, tokens: LossTokens, settings: LossSettings) -> tuple[Tensor, Mapping[str, Tensor]]:
    """The loss of these tokens, to be added to that of the others of the mini-batch, and what is reported of them.

    The report holds sums over tokens, without gradient: `objective` and `loss` weighted, `kl`, and counts of tokens
    whose ratio was `clipped_low`, `clipped_high`, `dual_clipped`, of those `masked` for a mismatch, and of those that
    are `learned` from: not masked, with an advantage or a divergence.
    """
    old = log_probs.detach() if tokens.old is None else tokens.old
    ratio = (log_probs - old).exp()
    advantages, weights = tokens.advantages, tokens.weights
    loss = clipped_loss(
        ratio, advantages, clip_low=settings.clip_low, clip_high=tokens.clip_high, dual_clip=settings.dual_clip
    )
    kept = torch.ones_like(ratio, dtype=torch.bool)
    if settings.mismatch is not None and tokens.sampler is not None:
        kept = ~mismatched(old, tokens.sampler, settings.mismatch)
    # The weights stay as they are: a masked token makes a mini-batch smaller, not the others heavier.
    weights = torch.where(kept, weights, 0.0)
    objective = (weights * loss).sum()
    total, divergence = objective, torch.zeros_like(ratio)
    if settings.kl and tokens.reference is not None:
        divergence = k3(log_probs, tokens.reference)
        total = objective + settings.kl * (weights * divergence).sum()
    with torch.no_grad():
        low = kept & (advantages < 0) & (ratio < 1.0 - settings.clip_low)
        high = kept & (advantages > 0) & (ratio > 1.0 + tokens.clip_high)
        dual = kept & (advantages < 0) & (ratio > (settings.dual_clip or torch.inf))
        report = {
            "objective": objective.detach(),
            "loss": total.detach(),
            "kl": divergence[kept].sum(),
            "masked": (~kept).sum(),
            "learned": kept.sum() if settings.kl else (kept & (advantages != 0)).sum(),
            "clipped_low": low.sum(),
            "clipped_high": high.sum(),
            "dual_clipped": dual.sum(),
        }
    return total, report
