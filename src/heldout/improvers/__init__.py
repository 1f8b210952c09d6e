"""Improvers: what proposes changed candidates."""

from __future__ import annotations

from collections.abc import Mapping

from heldout import registry
from heldout.config import ImproverConfig
from heldout.improvers.base import Attempt, Failure, Improver, View
from heldout.models.base import Model

__all__ = ["IMPROVERS", "Attempt", "Failure", "Improver", "View", "make_improver"]

IMPROVERS: Mapping[str, str] = {
    "demonstrations": "heldout.improvers.demonstrations:DemonstrationsImprover",
    "rewrite": "heldout.improvers.rewrite:RewriteImprover",
    "simulated": "heldout.improvers.simulated:SimulatedImprover",
}
"""Short names of the built-in improvers."""


def make_improver(config: ImproverConfig, *, model: Model | None = None) -> Improver:
    """The improver that `improver.kind` names; every class, built-in or plug-in, is called with (config, model)."""
    made: Improver = registry.load(config.kind, among=IMPROVERS, what="improver")(config, model)
    return made
