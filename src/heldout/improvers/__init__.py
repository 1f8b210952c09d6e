"""Improvers: what proposes changed candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heldout import registry
from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.improvers.agent import AgentImprover
from heldout.improvers.base import Attempt, Failure, Improver, View
from heldout.models.base import Model

__all__ = [
    "AGENT_IMPROVERS",
    "IMPROVERS",
    "AgentImprover",
    "Attempt",
    "Failure",
    "Improver",
    "View",
    "improver_class",
    "is_agent",
    "make_agent_improver",
    "make_improver",
]

IMPROVERS: Mapping[str, str] = {
    "demonstrations": "heldout.improvers.demonstrations:DemonstrationsImprover",
    "rewrite": "heldout.improvers.rewrite:RewriteImprover",
    "simulated": "heldout.improvers.simulated:SimulatedImprover",
}
"""Short names of the built-in improvers of prompts."""

AGENT_IMPROVERS: Mapping[str, str] = {
    "catalog": "heldout.improvers.catalog:CatalogImprover",
    "llm": "heldout.improvers.llm:LlmImprover",
}
"""Short names of the built-in improvers of agent harnesses."""


def make_improver(config: ImproverConfig, *, model: Model | None = None) -> Improver:
    """The improver of prompts that `improver.kind` names; every class, built-in or plug-in, is called with
    (config, model)."""
    made: Improver = _made(config, model)
    if is_agent(made):
        raise SetupError(
            f"improver {config.kind!r} edits agent harnesses, and this loop edits prompts; take one of "
            f"{', '.join(sorted(IMPROVERS))}, or loop = 'verse'"
        )
    return made


def make_agent_improver(config: ImproverConfig, *, model: Model | None = None) -> AgentImprover:
    """The improver of agent harnesses that `improver.kind` names, called like the others."""
    made: AgentImprover = _made(config, model)
    if not is_agent(made):
        raise SetupError(
            f"improver {config.kind!r} edits prompts, and this loop edits agent harnesses; take one of "
            f"{', '.join(sorted(AGENT_IMPROVERS))}, or a class of your own with agent = True"
        )
    return made


def is_agent(improver: object) -> bool:
    """Whether it is an `AgentImprover`; classes from before that seam lack the flag."""
    return bool(getattr(improver, "agent", False))


def improver_class(kind: str) -> Any:
    """The class that `improver.kind` names."""
    return registry.load(kind, among={**IMPROVERS, **AGENT_IMPROVERS}, what="improver")


def _made(config: ImproverConfig, model: Model | None) -> Any:
    return improver_class(config.kind)(config, model)
