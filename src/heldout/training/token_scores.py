"""Teacher-forced scores of given tokens: one code path for the old policy, the reference and the policy that learns."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heldout.errors import SetupError
from heldout.training.token_tree import TokenBatch, row_batches, tree_batches

__all__ = ["ForwardPass", "ScoredRow", "TokenScorer", "evaluating", "supports_trees", "vocabulary_size"]


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A token sequence, and which of its tokens are scored given all before them."""

    ids: tuple[int, ...]
    places: tuple[int, ...]
    """Ascending, each once, from 1: nothing predicts the first token."""

    def __post_init__(self) -> None:
        if self.places and not 0 < self.places[0] <= self.places[-1] < len(self.ids):
            raise ValueError(f"places {self.places[0]}…{self.places[-1]} of a sequence of {len(self.ids)} tokens")
        if any(later <= place for place, later in itertools.pairwise(self.places)):
            raise ValueError(f"the places {self.places!r} do not ascend")


@dataclass(frozen=True, slots=True, eq=False)
class ForwardPass:
    """A batch on the model's device."""

    inputs: Mapping[str, Tensor]
    rows: Tensor
    """Rows of the logits that the model returns, each once, in which a wanted prediction stands."""
    inverse: Tensor
    """Of each wanted prediction: which of `rows`."""
    targets: Tensor
    """Of each wanted prediction: the token that is scored."""
    wanted: Tensor
    """Of each wanted prediction: its number through all rows and places, in order."""
    tokens: int
    """Tokens that are computed, padding included."""


class TokenScorer:
    """Scores tokens with a causal language model of `transformers`, in float32 and without dropout.

    Sequences with a common beginning share its computation where the model allows it (`trees`; None tries, once);
    otherwise each has a padded row of its own. Both give the same numbers up to rounding.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 1.0,
        tokens_per_forward: int = 2048,
        trees: bool | None = None,
    ) -> None:
        _check_temperature(temperature)
        self._model = model
        self._temperature = temperature
        self._budget = tokens_per_forward
        self._trees = trees

    @cached_property
    def trees(self) -> bool:
        """Whether common beginnings are shared."""
        return supports_trees(self._model) if self._trees is None else self._trees

    def plan(self, rows: Sequence[ScoredRow]) -> tuple[ForwardPass, ...]:
        """The forward passes that score all rows; a plan can be run any number of times, with any model alike.
        `SetupError` for a token that is not in the model's vocabulary, and for a row that is longer than its context.
        """
        # Nothing after the last scored token matters, and that token is no input.
        asked = [row for row in rows if row.places]
        self._check_tokens(asked)
        sequences = [np.array(row.ids[: row.places[-1]], dtype=np.int64) for row in asked]
        wanted = [np.array(row.places, dtype=np.int64) - 1 for row in asked]
        targets = np.array([row.ids[place] for row in asked for place in row.places], dtype=np.int64)
        if not asked:
            return ()
        if self.trees and not self._beyond_window(max(len(one) for one in sequences)):
            cost = float(6 * _size(self._model, "hidden_size", 128))
            batches = tree_batches(sequences, wanted, budget=self._budget, token_cost=cost)
        else:
            batches = row_batches(sequences, wanted, budget=self._budget)
        return tuple(self._on_device(batch, targets) for batch in batches)

    def log_probs(self, one: ForwardPass, model: nn.Module | None = None) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the wanted tokens, and the entropy (nats) of each distribution, without gradient.

        `model` scores in place of the scorer's own, a frozen reference for one.
        """
        table = torch.log_softmax(self._logits(one, model), dim=-1)
        with torch.no_grad():
            entropy = -(table.exp() * table).nan_to_num(nan=0.0).sum(-1)[one.inverse]
        return table[one.inverse, one.targets], entropy

    def logits(self, rows: Sequence[ScoredRow], *, temperature: float | None = None) -> Tensor:
        """Logits over the vocabulary for each place of each row, in order, with gradient: (places, vocabulary).

        They are divided by `temperature`; None: by the scorer's own, as what it scores is. 1 gives the model's own.
        """
        if temperature is not None:
            _check_temperature(temperature)
        passes = self.plan(rows)
        if not passes:
            raise ValueError("no place of any row is asked for")
        found = torch.cat([self._logits(one, temperature=temperature)[one.inverse] for one in passes])
        return found[torch.argsort(torch.cat([one.wanted for one in passes]))]

    def score(self, rows: Sequence[ScoredRow]) -> tuple[Tensor, ...]:
        """Log-probabilities of each row's tokens on the CPU, without gradient."""
        passes = self.plan(rows)
        with torch.no_grad(), evaluating(self._model):
            flat = self.gathered(passes)
        return torch.split(flat.cpu(), [len(row.places) for row in rows])

    def gathered(self, passes: Sequence[ForwardPass], model: nn.Module | None = None) -> Tensor:
        """Log-probabilities of all that the passes score, in order, without gradient."""
        device = _device(self._model)
        flat = torch.zeros(sum(len(one.wanted) for one in passes), device=device)
        with torch.no_grad():
            for one in passes:
                flat[one.wanted] = self.log_probs(one, model)[0]
        return flat

    def _logits(self, one: ForwardPass, model: nn.Module | None = None, *, temperature: float | None = None) -> Tensor:
        found: Tensor = (model or self._model)(**one.inputs, use_cache=False).logits
        flat = found.flatten(0, 1)
        chosen = flat if len(one.rows) == len(flat) else flat[one.rows]
        divisor = self._temperature if temperature is None else temperature
        return chosen.float() if divisor == 1.0 else chosen.float() / divisor

    def _check_tokens(self, rows: Sequence[ScoredRow]) -> None:
        size, context = vocabulary_size(self._model), _size(self._model, "max_position_embeddings", 0)
        for row in rows:
            if 0 < context < len(row.ids):
                raise SetupError(
                    f"a row has {len(row.ids)} tokens, and the model's context is {context} (max_position_embeddings)"
                )
            if size and not (min(row.ids) >= 0 and max(row.ids) < size):
                token = next(one for one in row.ids if not 0 <= one < size)
                raise SetupError(
                    f"a row holds the token {token}, and the model's vocabulary is 0 to {size - 1}: take the ids from "
                    "the tokenizer of this model"
                )

    def _on_device(self, batch: TokenBatch, targets: np.ndarray[Any, Any]) -> ForwardPass:
        device = _device(self._model)
        length = batch.ids.shape[1]
        places, inverse = np.unique(batch.places, return_inverse=True)
        inputs = {"input_ids": batch.ids}
        if _accepts(self._model, "logits_to_keep"):
            kept, column = np.unique(places % length, return_inverse=True)
            inputs["logits_to_keep"] = kept
            places = places // length * len(kept) + column
        tensors = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
        if batch.tree:
            tensors["position_ids"] = torch.from_numpy(batch.positions).to(device)
            tensors["attention_mask"] = self._tree_mask(batch, device)
        elif (batch.ends[:, 0] < length).any():
            real = np.arange(length) < batch.ends[:, :1]
            tensors["attention_mask"] = torch.from_numpy(real.astype(np.int64)).to(device)
        return ForwardPass(
            inputs=tensors,
            rows=torch.from_numpy(places).to(device),
            inverse=torch.from_numpy(inverse).to(device),
            targets=torch.from_numpy(targets[batch.wanted]).to(device),
            wanted=torch.from_numpy(batch.wanted).to(device),
            tokens=batch.size,
        )

    def _tree_mask(self, batch: TokenBatch, device: torch.device) -> Tensor:
        seen = torch.from_numpy(batch.mask()).unsqueeze(1).to(device)
        if _setting(self._model, "_attn_implementation") == "sdpa":
            return seen
        # The plain implementation adds its mask to the scores.
        dtype = next(self._model.parameters()).dtype
        return torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill(~seen, torch.finfo(dtype).min)

    def _beyond_window(self, length: int) -> bool:
        """A mask of our own would take the place of the window that some layers look through."""
        windows = (_setting(self._model, name) for name in ("sliding_window", "attention_chunk_size"))
        return any(isinstance(window, int) and length >= window for window in windows)


def supports_trees(model: nn.Module) -> bool:
    """Whether the model obeys a mask and positions of our own: tried with two short sequences, in a tree and in rows.

    Recurrent models, and those that derive positions from the mask, do not.
    """
    if _setting(model, "_attn_implementation") not in ("sdpa", "eager") or not _accepts(model, "position_ids"):
        return False
    top = min(8, _size(model, "vocab_size", 8))
    rows = [
        ScoredRow(tuple(number % top for number in (1, 3, 2, 1, *rest)), (1, 2, 3, 4, 5, 6))
        for rest in ((0, 2, 3), (1, 3, 0))
    ]
    try:
        with torch.no_grad(), evaluating(model):
            tree, apart = (TokenScorer(model, trees=shared).logits(rows) for shared in (True, False))
    except (RuntimeError, TypeError, ValueError):
        return False
    # Half precision rounds the same sum differently; a model that ignores the mask is wrong by far more.
    exact = next(model.parameters()).dtype in (torch.float32, torch.float64)
    return torch.allclose(tree, apart, rtol=1e-3 if exact else 0.05, atol=1e-4 if exact else 0.1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model without dropout, and afterwards as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _plain(model: nn.Module) -> Any:
    """The model of `transformers` inside adapters."""
    inner = getattr(model, "get_base_model", None)
    return inner() if callable(inner) else model


def _accepts(model: nn.Module, name: str) -> bool:
    return name in inspect.signature(_plain(model).forward).parameters


def _setting(model: nn.Module, name: str) -> object:
    config = getattr(_plain(model), "config", None)
    text = getattr(config, "get_text_config", None)
    return getattr(text() if callable(text) else config, name, None)


def _size(model: nn.Module, name: str, default: int) -> int:
    value = _setting(model, name)
    return value if isinstance(value, int) else default


def vocabulary_size(model: nn.Module) -> int:
    """Tokens that the model has a row for; 0 where it does not say."""
    found = getattr(_plain(model), "get_input_embeddings", None)
    table = found() if callable(found) else None
    return table.num_embeddings if isinstance(table, nn.Embedding) else _size(model, "vocab_size", 0)


def _check_temperature(temperature: float) -> None:
    if not temperature > 0:
        raise ValueError(f"temperature {temperature} is not positive; greedy decoding has no gradient")


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
