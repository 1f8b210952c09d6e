"""Policy-gradient steps on a causal language model: PPO's clipped loss on rollouts, with what a method adds to it.

A method turns its rollouts into rows with advantages (`advantages`) and calls `update` with one term per loss:

    trainer.update(
        PolicyTerm("actor", rows, LossSettings(kl=0.01, dual_clip=3.0)),
        PolicyTerm("proposal", proposals, LossSettings(kl=0.02, aggregation="sequence"), weight=0.5),
        AuxiliaryTerm("support", decisions, support_loss, weight=0.005),
    )
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from heldout.errors import BudgetExhausted, SetupError, StoreError, TrainingError, boundary
from heldout.records import Record, Spend, digest_of
from heldout.training.data import AdmissionPolicy
from heldout.training.metering import Meter
from heldout.training.policy_rows import PolicyRow, Scoring, row_fault
from heldout.training.policy_terms import LossTerm, ReadyTerm, TermReport, merged
from heldout.training.settings import OptimiserSettings
from heldout.training.token_scores import TokenScorer, evaluating, vocabulary_size

__all__ = ["PolicyTrainer", "UpdateReport", "UpdateSettings"]


class UpdateSettings(Record):
    """How the rows of an update become optimiser steps."""

    epochs: int = Field(default=1, ge=1)
    """Times that all rows are gone through (`ppo_epochs`)."""
    minibatch: int | None = Field(default=None, ge=1)
    """Rows of the largest term per optimiser step, about; the other terms are split into as many parts. None: all."""
    old: Literal["recompute", "sampler"] = "recompute"
    """Log-probabilities of the policy that sampled: from the weights as they are before the update, by the code that
    trains, or as the sampler gave them."""
    temperature: float = Field(default=1.0, gt=0.0)
    """That the rollouts were sampled with; a row that tells another one is refused."""
    tokens_per_forward: int = Field(default=2048, ge=1)
    """Tokens of one forward pass, about; several passes make up one step, whose loss does not depend on this."""
    share_prefixes: bool = True
    """Run what several rows begin with once, where the model allows it."""


class UpdateReport(Record):
    """What an update did."""

    terms: tuple[TermReport, ...]
    """As given, over all mini-batches and epochs."""
    steps: int
    """Optimiser steps."""
    skipped: int
    """Mini-batches in which no token had a weight with an advantage or a divergence, and no other loss a gradient: the
    optimiser was not asked, and its momentum moved nothing."""
    gradient_norm: float | None
    """Mean over the steps, before clipping."""
    learning_rate: float
    """Of the last step."""
    spend: Spend = Spend()
    """Of the whole update. It alone differs between two updates that are the same."""

    def measures(self) -> dict[str, float]:
        """Every number that there is, by name: what a journal or a chart takes."""
        own = self.model_dump(exclude={"terms", "spend"}) | self.spend.model_dump(include={"wall_s", "cpu_s", "gpu_s"})
        for term in self.terms:
            own |= {f"{term.name}/{name}": value for name, value in term.model_dump(exclude={"name"}).items()}
        return {name: float(value) for name, value in own.items() if value is not None}


class PolicyTrainer:
    """AdamW on the sum of several loss terms. The model's weights are the caller's to save; `save` keeps the rest.

    The model is trained without dropout, so that unchanged weights give ratios of exactly 1. Equal weights, optimiser
    state, seed and rows give equal weights on the CPU, where torch gets one thread.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        seed: int,
        optimiser: OptimiserSettings | None = None,
        settings: UpdateSettings | None = None,
        reference: nn.Module | None = None,
        horizon: int | None = None,
    ) -> None:
        """`reference` is only read; `horizon` is the number of optimiser steps after which a falling rate is 0.
        `SetupError` for weights that are not float32, and for a reference that moves or knows fewer tokens."""
        self.settings = settings or UpdateSettings()
        self._rate = optimiser or OptimiserSettings(learning_rate=1e-6, schedule="constant", warmup=0.0)
        if horizon is None and (self._rate.schedule != "constant" or self._rate.warmup):
            raise SetupError(f"a {self._rate.schedule} rate with warm-up {self._rate.warmup} needs a horizon in steps")
        self._model, self._reference, self._seed, self._horizon = model, reference, seed, horizon
        self._names = _trainable(model)
        if reference is not None:
            _check_reference(model, reference, self._names.values())
        if next(iter(self._names.values())).device.type == "cpu" and torch.get_num_threads() != 1:
            # Sums over threads depend on their number, and busy threads make small models slower.
            torch.set_num_threads(1)
        self._optimiser = _adamw(self._names, self._rate)
        self._scorer = TokenScorer(
            model,
            temperature=self.settings.temperature,
            tokens_per_forward=self.settings.tokens_per_forward,
            trees=None if self.settings.share_prefixes else False,
        )
        self._updates = self._steps = 0

    @property
    def scorer(self) -> TokenScorer:
        """Scores tokens with the policy as it is, by the code that trains it."""
        return self._scorer

    def update(
        self, *terms: LossTerm, admission: AdmissionPolicy | None = None, stop: Callable[[], str] | None = None
    ) -> UpdateReport:
        """Optimiser steps on the sum of the terms. `TrainingError` for a loss or gradient that is not finite, before
        the step that it would spoil.

        `SetupError` for rows sampled at another temperature, and for rows whose origins `admission` does not let be
        learned from together: by default one model for the step, and one harness for each term. That no text of theirs
        is sealed, only `heldout.training.data.check_rollouts` can tell. `stop` is asked before each mini-batch why the
        update must end now; what it says is raised as `BudgetExhausted`, and the weights are then between two steps.
        """
        meter = Meter(accelerators=int(next(iter(self._names.values())).device.type != "cpu"))
        of_policy = [[row for row in term.rows if isinstance(row, PolicyRow)] for term in terms]
        if fault := row_fault(of_policy, admission or AdmissionPolicy(), self.settings.temperature):
            raise SetupError(fault)
        parts = self._split(terms)
        with evaluating(self._model):
            scoring = Scoring(self._model, self._scorer, self._old(len(parts)), self._reference)
            ready = [[term.ready(scoring) for term in part] for part in parts]
            norms: list[float] = []
            for part in ready * self.settings.epochs:
                if stop is not None and (why := stop()):
                    raise BudgetExhausted(why)
                if self._accumulate(part):
                    norms.append(self._step())
        self._updates += 1
        return UpdateReport(
            terms=tuple(merged([part[number].report() for part in ready]) for number in range(len(terms))),
            steps=len(norms),
            skipped=len(ready) * self.settings.epochs - len(norms),
            gradient_norm=sum(norms) / len(norms) if norms else None,
            learning_rate=self._optimiser.param_groups[0]["lr"],
            spend=meter.spend(),
        )

    def save(self, file: Path) -> None:
        """The optimiser's state as safetensors, the same bytes for the same state. The weights that it belongs to are
        the caller's to save at the same moment; their digest is kept."""
        from safetensors.torch import save_file

        tensors = {"updates": torch.tensor(self._updates), "steps": torch.tensor(self._steps)}
        for name, parameter in self._names.items():
            state = self._optimiser.state.get(parameter, {})
            tensors |= {f"{key}:{name}": value.detach().cpu().contiguous() for key, value in state.items()}
        with boundary(StoreError, f"cannot write the optimiser's state {file.name}"):
            # One entry: safetensors writes several in an order of its own.
            save_file(tensors, file, metadata={"of": json.dumps(self._identity(), sort_keys=True)})

    def load(self, file: Path) -> None:
        """Go on from where `save` was called. `SetupError` where the state is of another model, of other weights of
        this one, or of another seed or other settings."""
        from safetensors import safe_open
        from safetensors.torch import load_file

        with boundary(StoreError, f"cannot read the optimiser's state {file.name}"):
            tensors = load_file(file)
            with safe_open(file, framework="pt") as opened:
                saved: dict[str, str] = json.loads((opened.metadata() or {}).get("of", "{}"))
            counts = {name: int(tensors.pop(name)) for name in ("updates", "steps")}
        self._check_fits(tensors, file)
        if other := [name for name, digest in self._identity().items() if saved.get(name) != digest]:
            raise SetupError(
                f"{file.name} is the optimiser's state of a trainer that differs in {', '.join(other)}: load the "
                "weights that were saved at the same moment, and give the seed and the settings of then"
            )
        for name, parameter in self._names.items():
            found = {key: tensors[f"{key}:{name}"] for key in _STATE if f"{key}:{name}" in tensors}
            if found:
                self._optimiser.state[parameter] = {key: one.to(parameter.device) for key, one in found.items()}
        self._updates, self._steps = counts["updates"], counts["steps"]

    def _check_fits(self, tensors: Mapping[str, torch.Tensor], file: Path) -> None:
        for full, tensor in tensors.items():
            key, _, name = full.partition(":")
            parameter = self._names.get(name)
            if parameter is None or (key != "step" and parameter.shape != tensor.shape):
                raise SetupError(f"{file.name} is the optimiser's state of another model: {name!r} does not fit")

    def _identity(self) -> dict[str, str]:
        """Digests of what an optimiser's state belongs to."""
        weights = hashlib.sha256()
        for name, parameter in self._names.items():
            weights.update(f"{name} {tuple(parameter.shape)}\n".encode())
            weights.update(parameter.detach().cpu().contiguous().numpy().tobytes())
        return {
            "seed": digest_of(self._seed),
            "optimiser": digest_of([self._rate.model_dump(mode="json"), self._horizon]),
            "update": digest_of(self.settings.model_dump(mode="json")),
            "weights": weights.hexdigest(),
        }

    def _split(self, terms: Sequence[LossTerm]) -> list[list[LossTerm]]:
        if not terms:
            raise ValueError("an update without terms")
        rows, size = max(len(term.rows) for term in terms), self.settings.minibatch
        count = max(1, math.ceil(rows / size)) if size else 1
        if count == 1:
            return [list(terms)]
        order = np.random.default_rng([self._seed, self._updates])
        return [list(part) for part in zip(*(term.split(count, order) for term in terms), strict=True)]

    def _old(self, parts: int) -> Literal["current", "recompute", "sampler"]:
        if self.settings.old == "sampler":
            return "sampler"
        # In a single step the policy that sampled is the one that learns: nothing needs to be recomputed.
        return "current" if parts * self.settings.epochs == 1 else "recompute"

    def _accumulate(self, part: Sequence[ReadyTerm]) -> bool:
        self._optimiser.zero_grad()
        learning = 0
        try:
            learning = sum(term.backward() for term in part)
        finally:
            if not learning:
                self._optimiser.zero_grad()
        return learning > 0

    def _step(self) -> float:
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate.learning_rate * _share(self._rate, self._steps, self._horizon)
        norm = float(nn.utils.clip_grad_norm_(self._names.values(), self._rate.clip or math.inf))
        if not math.isfinite(norm):
            self._optimiser.zero_grad()
            raise TrainingError(f"the norm of the gradient is {norm} at optimiser step {self._steps + 1}")
        self._optimiser.step()
        self._optimiser.zero_grad()
        self._steps += 1
        return norm


_STATE = ("step", "exp_avg", "exp_avg_sq")


def _trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The weights that are to be trained, by name."""
    found = {name: one for name, one in model.named_parameters() if one.requires_grad}
    if not found:
        raise SetupError("no weight of the model is to be trained")
    for name, one in found.items():
        if one.dtype != torch.float32:
            raise SetupError(
                f"the weight {name!r} is to be trained and is {one.dtype}, which rounds small steps away: "
                'load the model with load_checkpoint(..., dtype="float32")'
            )
    return found


def _check_reference(model: nn.Module, reference: nn.Module, trained: Iterable[nn.Parameter]) -> None:
    if {id(one) for one in trained} & {id(one) for one in reference.parameters()}:
        raise SetupError(
            "the reference is the model itself, or holds weights that are trained, and moves with it: load the "
            "checkpoint once more"
        )
    own, known = vocabulary_size(model), vocabulary_size(reference)
    if own and known and known < own:
        raise SetupError(f"the reference knows {known} tokens, and the model {own}: they have not one tokenizer")


def _adamw(parameters: Mapping[str, nn.Parameter], rate: OptimiserSettings) -> torch.optim.AdamW:
    """Matrices decay; biases and gains do not."""
    matrices = [one for one in parameters.values() if one.ndim >= 2]
    vectors = [one for one in parameters.values() if one.ndim < 2]
    return torch.optim.AdamW(
        [
            {"params": group, "weight_decay": decay}
            for group, decay in ((matrices, rate.weight_decay), (vectors, 0.0))
            if group
        ],
        lr=rate.learning_rate,
        betas=rate.betas,
        fused=True,
    )


def _share(rate: OptimiserSettings, step: int, horizon: int | None) -> float:
    """Share of the learning rate at optimiser step `step`, from 0: linear warm-up, then as the schedule says."""
    if horizon is None:
        return 1.0
    warm = round(rate.warmup * horizon)
    if step < warm:
        return (step + 1) / (warm + 1)
    progress = min(1.0, (step - warm) / max(1, horizon - warm))
    if rate.schedule == "linear":
        return 1.0 - progress
    return 0.5 * (1.0 + math.cos(math.pi * progress)) if rate.schedule == "cosine" else 1.0
