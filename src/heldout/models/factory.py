"""From a config to a model."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from heldout.config import ModelConfig
from heldout.models.base import Model
from heldout.registry import load

__all__ = ["SIMULATIONS", "make_model"]

SIMULATIONS = frozenset({"simulated", "simulated_coder"})
"""Models that are given an answer key, since they simulate a solver of known skill."""

_MODELS = MappingProxyType(
    {
        "simulated": "heldout.models.simulated:SimulatedModel",
        "simulated_coder": "heldout.worlds.repair.coder:SimulatedCoder",
        "smollm2": "heldout.models.smollm2:SmolLM2Model",
        "openai": "heldout.models.openai_compatible:OpenAICompatibleModel",
        "anthropic": "heldout.models.anthropic:AnthropicModel",
    }
)


def make_model(config: ModelConfig, **extra: Any) -> Model:
    """The model that `config.name` means: `kind`, `kind:model`, or a plug-in `package.module:Class`.

    The class is called with the config; `extra` is for the simulated model, which needs an `answer_key`.
    Nothing is started or connected yet.
    """
    kind = config.name.partition(":")[0]
    factory = load(kind if kind in _MODELS else config.name, among=_MODELS, what="model")
    model: Model = factory(config, **extra)
    return model
