"""Rollouts as a policy gradient takes them, and what is known of their tokens before the policy moves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from heldout.errors import SetupError
from heldout.models.base import ReplyTokens
from heldout.training.data import AdmissionPolicy, origin_fault
from heldout.training.examples import Provenance
from heldout.training.policy_loss import LossSettings, LossTokens
from heldout.training.token_scores import ForwardPass, ScoredRow, TokenScorer, evaluating

__all__ = ["PolicyRow", "Scoring", "episode_rows", "loss_tokens", "row_fault"]

Passes: TypeAlias = Sequence[ForwardPass]

_ROUNDING = 1e-4
"""A log-probability may lie so far above 0."""


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A prompt, what the policy answered, and its advantage. With several turns the response holds them all."""

    prompt: tuple[int, ...]
    """Token ids; at least one."""
    response: tuple[int, ...]
    advantage: float | tuple[float, ...] | None
    """Of the whole response, or of each of its tokens; None takes the row out of the step, and is counted."""
    mask: tuple[bool, ...] | None = None
    """Of each response token: did the policy write it? Observations are False; None says that it wrote them all."""
    sampler: tuple[float, ...] | None = None
    """Log-probability of each response token as the sampler gave it; what stands at observations is not read."""
    reference: tuple[float, ...] | None = None
    """Log-probability of each response token under the reference, where it is known already."""
    clip_high: float | None = None
    """Upper clip bound of this row, in place of the loss's own."""
    temperature: float | None = None
    """That the response was sampled with, where it is known; an update at another one is refused."""
    origin: Provenance | None = None
    """Whose rollout it is; where one row has it, every row of an update must, and they are checked together."""

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("a row without a prompt: nothing predicts the first token of its response")
        for name in ("mask", "sampler", "reference", "advantage"):
            value = getattr(self, name)
            if isinstance(value, Sequence) and len(value) != len(self.response):
                raise ValueError(f"{len(value)} values of `{name}` for a response of {len(self.response)} tokens")
        if self.advantage is not None and not np.isfinite(self.advantage).all():
            raise ValueError(f"the advantage {self.advantage!r} is not a number; None says that there is none")
        if self.clip_high is not None and not self.clip_high >= 0:
            raise ValueError(f"clip_high {self.clip_high!r} is no bound: it counts from a ratio of 1 upwards")
        for name in ("sampler", "reference"):
            values = getattr(self, name)
            for place in () if values is None else self.written:
                if not values[place] <= _ROUNDING:
                    raise ValueError(f"{values[place]!r} in `{name}` is no natural logarithm of a probability")

    @property
    def written(self) -> tuple[int, ...]:
        """Which tokens of the response the policy wrote."""
        if self.mask is None:
            return tuple(range(len(self.response)))
        return tuple(number for number, own in enumerate(self.mask) if own)

    @property
    def scored(self) -> ScoredRow:
        """The whole sequence, with the tokens that the policy wrote."""
        start = len(self.prompt)
        return ScoredRow((*self.prompt, *self.response), tuple(start + number for number in self.written))

    @property
    def idle(self) -> bool:
        """Whether its advantage is 0 on every token."""
        return not np.any(self.advantage)


def episode_rows(replies: Sequence[ReplyTokens], advantage: float | None, **row: Any) -> tuple[PolicyRow, ...]:
    """An episode of several turns as rows, with what stands between the replies masked; `row` is what else they have.

    It is one row while each prompt begins with the last prompt and reply, token by token. Where one does not (a context
    that was cut, or read anew into other tokens) the next row begins, and every row has the advantage. A mean over rows
    (`aggregation="sequence"`) counts each of them.
    """
    runs: list[list[ReplyTokens]] = []
    for reply in replies:
        if runs and _goes_on(runs[-1][-1], reply):
            runs[-1].append(reply)
        else:
            runs.append([reply])
    return tuple(_row(run, advantage, row) for run in runs)


def _goes_on(last: ReplyTokens, reply: ReplyTokens) -> bool:
    seen = (*last.prompt, *last.ids)
    return reply.prompt[: len(seen)] == seen and reply.temperature == last.temperature


def _row(run: Sequence[ReplyTokens], advantage: float | None, row: Mapping[str, Any]) -> PolicyRow:
    prompt = run[0].prompt
    response: list[int] = []
    mask: list[bool] = []
    sampler: list[float] = []
    for reply in run:
        between = reply.prompt[len(prompt) + len(response) :]
        response += (*between, *reply.ids)
        mask += [False] * len(between) + [True] * len(reply.ids)
        sampler += (*[0.0] * len(between), *reply.logprobs)
    return PolicyRow(
        prompt,
        tuple(response),
        advantage,
        mask=tuple(mask),
        sampler=tuple(sampler),
        temperature=run[0].temperature,
        **row,
    )


def row_fault(terms: Sequence[Sequence[PolicyRow]], admission: AdmissionPolicy, temperature: float) -> str:
    """Why the rows of these terms are not learned from in one step; empty where they may be.

    One policy sampled for all terms; two of them may learn from two roles, which have harnesses of their own.
    """
    every = [row for rows in terms for row in rows]
    known = {row.temperature for row in every if row.temperature is not None}
    if other := known - {temperature}:
        return (
            f"rows were sampled at the temperature {min(other)}, and the update is made at {temperature}: set "
            "UpdateSettings.temperature to that of the rollouts"
        )
    for rows in terms:
        if fault := origin_fault([row.origin for row in rows if row.origin is not None], admission):
            return f"the rollouts are refused: {fault}"
    origins = [row.origin for row in every if row.origin is not None]
    missing = len(every) - len(origins)
    if missing and origins:
        return f"{missing} of {len(every)} rows have no origin; others do"
    if missing and (admission.harness is not None or admission.model is not None):
        return f"{missing} of {len(every)} rows have no origin, and the admission asks for a harness or a model"
    fault = origin_fault(origins, AdmissionPolicy(mixed_harness=True, mixed_models=admission.mixed_models))
    return f"the rollouts are refused: {fault}" if fault else ""


@dataclass(frozen=True, slots=True, eq=False)
class Scoring:
    """What the terms of a step ask for log-probabilities."""

    model: nn.Module
    scorer: TokenScorer
    old: Literal["current", "recompute", "sampler"]
    """Where the log-probabilities of the policy that sampled come from."""
    reference: nn.Module | None = None
    """Frozen weights; None asks the model without its adapters."""

    def reference_log_probs(self, passes: Passes) -> Tensor:
        """Under the reference, without gradient."""
        if self.reference is not None:
            with evaluating(self.reference):
                return self.scorer.gathered(passes, self.reference)
        without = getattr(self.model, "disable_adapter", None)
        if without is None:
            raise SetupError("a loss with kl > 0 needs a reference: frozen weights, adapters, or log-probabilities")
        with without():
            return self.scorer.gathered(passes)


def loss_tokens(
    rows: Sequence[PolicyRow], weights: Sequence[float], loss: LossSettings, scoring: Scoring, passes: Passes
) -> LossTokens:
    """What is known of the rows' tokens before the policy moves. `weights` are of each token of a row."""
    written = [row.written for row in rows]
    device = next(scoring.model.parameters()).device

    def flat(values: Iterable[Sequence[float]]) -> Tensor:
        parts = [row[number] for row, own in zip(values, written, strict=True) for number in own]
        return torch.tensor(parts, dtype=torch.float32, device=device)

    def spread(values: Iterable[float | Sequence[float] | None]) -> Tensor:
        return flat(_per_token(value, len(row.response)) for value, row in zip(values, rows, strict=True))

    sampler = old = reference = None
    if rows and (scoring.old == "sampler" or loss.mismatch is not None):
        _recorded(rows, "sampler", otherwise="they are asked for by old = 'sampler' or by mismatch")
    if any(row.sampler is not None for row in rows):
        sampler = spread(math.nan if row.sampler is None else row.sampler for row in rows)
    if scoring.old == "sampler" and loss.mismatch is not None:
        raise SetupError(
            "old = 'sampler' takes the sampler's log-probabilities for the policy's own, so that a mismatch of the two "
            "is never found: set old = 'recompute', or leave mismatch out"
        )
    if scoring.old == "sampler":
        old = sampler
    elif scoring.old == "recompute":
        old = scoring.scorer.gathered(passes)
    if old is not None and not torch.isfinite(old).all():
        raise SetupError("some token has no old log-probability; old = 'recompute' asks the weights for it")
    if loss.kl and rows:
        known = any(row.reference is not None for row in rows)
        reference = flat(_recorded(rows, "reference")) if known else scoring.reference_log_probs(passes)
    return LossTokens(
        advantages=spread(row.advantage for row in rows),
        weights=spread(weights),
        clip_high=spread(loss.clip_high if row.clip_high is None else row.clip_high for row in rows),
        old=old,
        sampler=sampler,
        reference=reference,
    )


def _per_token(value: float | Sequence[float] | None, tokens: int) -> Sequence[float]:
    return value if isinstance(value, Sequence) else (value or 0.0,) * tokens


def _recorded(rows: Sequence[PolicyRow], name: str, *, otherwise: str = "others do") -> Sequence[Sequence[float]]:
    """The log-probabilities that every row carries; a mixture is nothing that one loss can be taken on."""
    found = [value for row in rows if (value := getattr(row, name)) is not None]
    if len(found) < len(rows):
        raise SetupError(
            f"{len(rows) - len(found)} of {len(rows)} rows have no `{name}` log-probabilities; {otherwise}"
        )
    return found
