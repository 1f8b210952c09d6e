"""A model whose weights lie in the run's folder, so that a loop can train them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from heldout.loops import TrainingGround
from heldout.models import Model, WeightsModel
from heldout.records import Candidate
from heldout.store import RunFolder, WeightsStore

__all__ = ["Served", "serve_weights", "with_weights"]


@dataclass(frozen=True, slots=True)
class Served:
    """Where the weights lie, and the digest of those that the model begins with."""

    ground: TrainingGround
    weights: str


def serve_weights(model: Model, folder: RunFolder) -> Served | None:
    """Hand the run's weights to a model that serves weights; None for any other."""
    if not getattr(model, "serves_weights", False):
        return None
    serving = cast(WeightsModel, model)
    store = WeightsStore(folder.weights)
    return Served(TrainingGround(store, folder.work, serving.trainer), serving.serve(store))


def with_weights(start: Candidate, served: Served | None) -> Candidate:
    """The start with the model's own weights, where they are a part of candidates."""
    return start if served is None else Candidate(files=start.files, weights=served.weights)
