"""The terms of a policy-gradient step: clipped losses on rollouts, and further losses of a method's own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from torch import Tensor

from heldout.errors import TrainingError
from heldout.records import Record
from heldout.training.policy_loss import LossSettings, LossTokens, policy_loss, token_weights
from heldout.training.policy_rows import PolicyRow, Scoring, loss_tokens
from heldout.training.token_scores import TokenScorer

__all__ = ["AuxiliaryTerm", "LossTerm", "PolicyTerm", "ReadyTerm", "TermReport", "merged"]

Row = TypeVar("Row")


class TermReport(Record):
    """What one term was in one step or in several; means are over tokens of all its passes."""

    name: str
    rows: int
    """Given, with or without an advantage."""
    missing: int = 0
    """Without an advantage, because there was no reward or because the method took them out
    (`Advantages.rows(flat=None)`): no part of the step."""
    empty: int = 0
    """With an advantage and no token that the policy wrote: no part of the step either."""
    idle: int = 0
    """With advantage 0 and no divergence to hold: they count in every mean of the loss and need no pass."""
    tokens: int = 0
    """Tokens that loss was taken on, those of idle rows not among them."""
    computed: int = 0
    """Tokens of one epoch's passes: prompts and padding included, shared beginnings once."""
    loss: float | None = None
    """Mean over mini-batches, before the term's weight; None where nothing was to be learned."""
    objective: float | None = None
    """The loss without its divergence."""
    kl: float | None = None
    """Mean over all tokens, to which those that are masked add nothing: they count below the line."""
    entropy: float | None = None
    """Nats."""
    clipped_low: float | None = None
    """Share of tokens whose ratio lay below the lower bound with a negative advantage, and so on."""
    clipped_high: float | None = None
    dual_clipped: float | None = None
    masked: float | None = None
    """Share of tokens without weight because trainer and sampler disagree on them."""
    compared: int = 0
    """Of `tokens`, those whose row carries the sampler's log-probabilities."""
    disagreement: float | None = None
    """Mean over those of |p_trainer − p_sampler|, before the policy moves; under old = 'sampler', where nothing is
    recomputed, at the first pass of each mini-batch."""


class ReadyTerm(Protocol):
    """A term on the rows of one mini-batch."""

    def backward(self) -> bool:
        """Add its gradient; False where it has none at all, as where every token is masked. `TrainingError` where the
        loss is not finite."""

    def report(self) -> TermReport:
        """Of all calls of `backward`."""


class LossTerm(Protocol):
    """One summand of the loss of a step."""

    @property
    def rows(self) -> Sequence[Any]:
        """What it is taken on."""

    def split(self, parts: int, order: np.random.Generator) -> Sequence[LossTerm]:
        """The term on the rows of each mini-batch, evenly, in an order that depends on `order` alone."""

    def ready(self, scoring: Scoring) -> ReadyTerm:
        """Everything that is known before the policy moves."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyTerm:
    """The clipped loss on rollouts. Rows with one prompt stay together, so that they share its computation."""

    name: str
    rows: Sequence[PolicyRow]
    loss: LossSettings = field(default_factory=LossSettings)
    weight: float = 1.0

    def split(self, parts: int, order: np.random.Generator) -> tuple[PolicyTerm, ...]:
        """See `LossTerm`."""
        prompts: dict[tuple[int, ...], list[PolicyRow]] = {}
        for row in self.rows:
            prompts.setdefault(row.prompt, []).append(row)
        groups = list(prompts.values())
        shuffled = [row for number in order.permutation(len(groups)) for row in groups[number]]
        return tuple(replace(self, rows=rows) for rows in _evenly(shuffled, parts))

    def ready(self, scoring: Scoring) -> _ReadyPolicy:
        """See `LossTerm`."""
        return _ReadyPolicy(self, scoring)


@dataclass(frozen=True, slots=True, eq=False)
class AuxiliaryTerm(Generic[Row]):
    """Any further loss: the mean over rows of the method's own kind; `TokenScorer.logits` gives what it is taken on."""

    name: str
    rows: Sequence[Row]
    loss: Callable[[TokenScorer, Sequence[Row]], Tensor]
    weight: float = 1.0

    def split(self, parts: int, order: np.random.Generator) -> tuple[AuxiliaryTerm[Row], ...]:
        """See `LossTerm`."""
        shuffled = [self.rows[number] for number in order.permutation(len(self.rows))]
        return tuple(replace(self, rows=rows) for rows in _evenly(shuffled, parts))

    def ready(self, scoring: Scoring) -> _ReadyAuxiliary[Row]:
        """See `LossTerm`."""
        return _ReadyAuxiliary(self, scoring)


class _ReadyPolicy:
    def __init__(self, term: PolicyTerm, scoring: Scoring) -> None:
        self._term = term
        self._scorer = scoring.scorer
        known = [row for row in term.rows if row.advantage is not None]
        rows = [row for row in known if row.written]
        self._missing, self._empty = len(term.rows) - len(known), len(known) - len(rows)
        weights = token_weights([len(row.written) for row in rows], term.loss.aggregation, term.loss.length)
        # A ratio times an advantage of 0 has no gradient, whatever the ratio is.
        learning = [number for number, row in enumerate(rows) if term.loss.kl or not row.idle]
        self._idle = len(rows) - len(learning)
        rows, weights = [rows[number] for number in learning], [weights[number] for number in learning]
        self._passes = self._scorer.plan([row.scored for row in rows])
        self._tokens = loss_tokens(rows, weights, term.loss, scoring, self._passes)
        self._recomputed = scoring.old == "recompute"
        self._sums: dict[str, float] = {}
        self._entropy = self._apart = 0.0
        self._scored = self._calls = self._compared = 0

    def backward(self) -> bool:
        """See `ReadyTerm`."""
        learned = 0.0
        for one in self._passes:
            log_probs, entropy = self._scorer.log_probs(one)
            tokens = self._tokens.at(one.wanted)
            loss, found = policy_loss(log_probs, tokens, self._term.loss)
            _descend(self._term.name, loss, self._term.weight)
            if not self._calls:
                self._compare(log_probs.detach(), tokens)
            sums = {name: float(value) for name, value in found.items()}
            learned += sums.pop("learned")
            for name, number in sums.items():
                self._sums[name] = self._sums.get(name, 0.0) + number
            self._entropy += float(entropy.sum())
            self._scored += len(one.wanted)
        self._calls += 1
        return learned > 0 and self._term.weight != 0

    def _compare(self, log_probs: Tensor, tokens: LossTokens) -> None:
        """Count how far trainer and sampler are apart, before the policy moves."""
        if tokens.sampler is None:
            return
        before = tokens.old if self._recomputed and tokens.old is not None else log_probs
        apart = (before.exp() - tokens.sampler.exp()).abs()
        self._apart += float(apart.nansum())
        self._compared += int((~tokens.sampler.isnan()).sum())

    def report(self) -> TermReport:
        """See `ReadyTerm`."""
        loss, scored = self._term.loss, self._scored
        sums = self._sums if scored else {}
        shares = {"clipped_low": True, "clipped_high": True, "dual_clipped": loss.dual_clip is not None}
        shares |= {"kl": loss.kl > 0, "masked": loss.mismatch is not None}
        return TermReport(
            name=self._term.name,
            rows=len(self._term.rows),
            missing=self._missing,
            empty=self._empty,
            idle=self._idle,
            tokens=sum(len(one.wanted) for one in self._passes),
            computed=sum(one.tokens for one in self._passes),
            entropy=self._entropy / scored if scored else None,
            compared=self._compared,
            disagreement=self._apart / self._compared if self._compared else None,
            **{name: sums[name] / self._calls for name in ("loss", "objective") if sums},
            **{name: sums[name] / scored for name, asked in shares.items() if sums and asked},
        )


class _ReadyAuxiliary(Generic[Row]):
    def __init__(self, term: AuxiliaryTerm[Row], scoring: Scoring) -> None:
        self._term = term
        self._scorer = scoring.scorer
        self._losses: list[float] = []

    def backward(self) -> bool:
        """See `ReadyTerm`."""
        if not self._term.rows:
            return False
        loss = self._term.loss(self._scorer, self._term.rows)
        self._losses.append(float(loss.detach()))
        if not loss.requires_grad:
            return False
        _descend(self._term.name, loss, self._term.weight)
        return self._term.weight != 0

    def report(self) -> TermReport:
        """See `ReadyTerm`."""
        mean = sum(self._losses) / len(self._losses) if self._losses else None
        return TermReport(name=self._term.name, rows=len(self._term.rows), loss=mean)


def merged(reports: Sequence[TermReport]) -> TermReport:
    """One report of a term over mini-batches: counts are added, losses averaged, all else weighed by its tokens."""
    counts = {name: sum(getattr(one, name) for one in reports) for name in _COUNTS}
    means = {name: _loss(name, reports) for name in ("loss", "objective")}
    for name in set(TermReport.model_fields) - {"name", *_COUNTS, *means}:
        counted = {"disagreement": "compared"}.get(name, "tokens")
        means[name] = _mean([(getattr(one, name), getattr(one, counted)) for one in reports])
    return TermReport.model_validate({"name": reports[0].name, **counts, **means})


def _loss(name: str, reports: Sequence[TermReport]) -> float | None:
    """A mini-batch of idle rows has the loss 0 where another one had something to learn from."""
    values: list[float | None] = [getattr(one, name) for one in reports]
    if all(value is None for value in values):
        return None
    return _mean(
        [(0.0 if value is None and one.idle else value, 1) for value, one in zip(values, reports, strict=True)]
    )


def _mean(weighed: Sequence[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighed if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


_COUNTS = ("rows", "missing", "empty", "idle", "tokens", "computed", "compared")


def _descend(name: str, loss: Tensor, weight: float) -> None:
    """Add the gradient of a finite loss."""
    value = float(loss.detach())
    if not math.isfinite(value):
        raise TrainingError(f"the loss of {name!r} is {value}")
    (weight * loss).backward()


def _evenly(rows: Sequence[Row], parts: int) -> list[Sequence[Row]]:
    """Rows in `parts` runs whose lengths differ by one at most."""
    borders = [round(part * len(rows) / parts) for part in range(parts + 1)]
    return [rows[start:end] for start, end in itertools.pairwise(borders)]
