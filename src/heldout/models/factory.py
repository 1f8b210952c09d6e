"""From a config to a model."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from heldout.config import ModelConfig
from heldout.errors import SetupError
from heldout.models.base import Model
from heldout.registry import load

__all__ = ["SIMULATIONS", "check_simulation", "make_model"]

SIMULATIONS = frozenset({"simulated", "simulated_coder", "simulated_tables", "simulated_formats"})
"""Models that are given an answer key, since they simulate a solver of known skill."""

_PLAYS = MappingProxyType({"simulated_coder": "repair", "simulated_tables": "tables", "simulated_formats": "formats"})
"""Simulations that know one world, and its source."""

_MODELS = MappingProxyType(
    {
        "simulated": "heldout.models.simulated:SimulatedModel",
        "simulated_coder": "heldout.worlds.repair.coder:SimulatedCoder",
        "simulated_tables": "heldout.worlds.tables.worker:TableWorker",
        "simulated_formats": "heldout.worlds.formats.learner:FormatsLearner",
        "pocket": "heldout.training.pocket:PocketModel",
        "local": "heldout.models.local_transformers:LocalTransformersModel",
        "smollm2": "heldout.models.smollm2:SmolLM2Model",
        "openai": "heldout.models.openai_compatible:OpenAICompatibleModel",
        "anthropic": "heldout.models.anthropic:AnthropicModel",
    }
)


def check_simulation(name: str, *, source: str, in_folders: bool) -> None:
    """`SetupError` for a simulation that cannot play the tasks of this built-in source; `in_folders` says whether
    they are worked on in a folder, with commands. Sources of a user's own are not known here."""
    played = _PLAYS.get(name.partition(":")[0])
    foreign = played is not None and ":" not in source and source != played
    if foreign or (name == "simulated" and in_folders):
        what = f"plays the tasks of {played!r} and no others" if foreign else "answers questions and runs no command"
        fits = "".join(f", or {one} for {its}" for one, its in _PLAYS.items() if its == source)
        raise SetupError(
            f"solver.model.name = {name!r} is a simulation that {what}, and tasks.source = {source!r}: name a model, "
            f"for example solver.model.name=openai:MODEL with solver.model.url{fits}"
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
