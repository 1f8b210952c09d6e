"""What loops over model weights are told beyond the common config: the table `options` of a run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from heldout.records import Record
from heldout.training.preflight import PreflightOptions
from heldout.training.settings import TrainConfig

__all__ = ["ImproveOptions", "RetainOptions"]


class RetainOptions(Record):
    """Other abilities, which training may spoil. Every report role is measured before and after, at the end."""

    role: str = "retain"
    """The report role that the floor is about."""
    floor: float | None = Field(default=None, le=0.0)
    """Points: a child that loses more than this on the role is not kept. The role then takes part in decisions, is
    measured for every child that the gate would accept and every other finalist, and the report says so; None leaves it
    sealed until the end."""


class ImproveOptions(Record):
    """`options` of the loop `improve_any_task` (arXiv 2610.06347)."""

    train: TrainConfig = TrainConfig()
    """Training of a recipe that says nothing else."""
    backend: str | None = None
    """`transformers`, `trl` (large models on a GPU), `simulated`, or `package.module:Class`; None takes the model's."""
    preflight: PreflightOptions = PreflightOptions()
    """The ladder of checks before a full training."""
    min_strategies: int = Field(default=3, ge=1, le=100)
    """Strategies that are weighed in each round."""
    max_hits: float = Field(default=0.05, ge=0.0, le=1.0)
    """Share of built examples that may meet a select, audit or report task (those are removed); above it the whole
    data set is void."""
    decide_on: Literal["select", "train"] = "select"
    """`train` decides on the tasks that are diagnosed too, as the paper does (an ablation)."""
    training_noise: bool = True
    """Train the first recipe that passes preflight twice, with two seeds: the noise of training."""
    assets: bool = True
    """Offer builders and configs of completed trainings to later rounds."""
    keep_start: bool = True
    """The start competes in the final selection; False is the paper's rule (an ablation)."""
    keep_weights: Literal["all", "finalists"] = "all"
    """Checkpoints on disk once the search has ended: `finalists` deletes all but the start's, the head's and the
    finalists', and what these descend from. Digests, origins and outcomes stay; what was deleted cannot be measured
    again."""
    retain: RetainOptions = RetainOptions()
    """Other abilities."""
    target_gain: float | None = Field(default=None, gt=0.0)
    """Points that the select set must resolve (two standard errors); where it cannot, the run is refused at once."""
    allowed_bases: tuple[str, ...] = ()
    """Digests of the weights that all others must descend from; none means the start's alone."""
