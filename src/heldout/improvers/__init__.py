"""Improvers: what proposes changed candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heldout import registry
from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.improvers.agent import AgentImprover
from heldout.improvers.base import Attempt, Failure, Improver, View
from heldout.improvers.skill_roles import SkillImprover
from heldout.improvers.training_roles import TrainingImprover
from heldout.models.base import Model

__all__ = [
    "AGENT_IMPROVERS",
    "IMPROVERS",
    "SKILL_IMPROVERS",
    "TRAINING_IMPROVERS",
    "AgentImprover",
    "Attempt",
    "Failure",
    "Improver",
    "SkillImprover",
    "TrainingImprover",
    "View",
    "edits_skills",
    "edits_weights",
    "improver_class",
    "is_agent",
    "make_agent_improver",
    "make_improver",
    "make_skill_improver",
    "make_training_improver",
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

SKILL_IMPROVERS: Mapping[str, str] = {
    "skill_catalog": "heldout.improvers.skill_catalog:SkillCatalog",
    "skill_llm": "heldout.improvers.skill_llm:SkillLlm",
}
"""Short names of the built-in improvers of skills, and of guides for writing them."""

TRAINING_IMPROVERS: Mapping[str, str] = {
    "training_catalog": "heldout.improvers.training_catalog:TrainingCatalog",
    "training_llm": "heldout.improvers.training_llm:TrainingLlm",
}
"""Short names of the built-in improvers of weights."""

_EDITS: Mapping[str, str] = {
    "prompts": "prompts",
    "agents": "agent harnesses",
    "skills": "skills",
    "weights": "a model's weights",
}
_LOOPS: Mapping[str, str] = {
    "prompts": "winners_curse",
    "agents": "verse",
    "skills": "gso",
    "weights": "improve_any_task",
}


def make_improver(config: ImproverConfig, *, model: Model | None = None) -> Improver:
    """The improver of prompts that `improver.kind` names; every class, built-in or plug-in, is called with
    (config, model)."""
    made: Improver = _made(config, model)
    _check(config, made, wanted="prompts", names=IMPROVERS)
    return made


def make_agent_improver(config: ImproverConfig, *, model: Model | None = None) -> AgentImprover:
    """The improver of agent harnesses that `improver.kind` names, called like the others."""
    made: AgentImprover = _made(config, model)
    _check(config, made, wanted="agents", names=AGENT_IMPROVERS, own=", or a class of your own with agent = True")
    return made


def make_skill_improver(config: ImproverConfig, *, model: Model | None = None) -> SkillImprover:
    """The improver of skills and guides that `improver.kind` names, called like the others."""
    made: SkillImprover = _made(config, model)
    _check(config, made, wanted="skills", names=SKILL_IMPROVERS, own=", or a class of your own with skills = True")
    return made


def make_training_improver(config: ImproverConfig, *, model: Model | None = None) -> TrainingImprover:
    """The improver of weights that `improver.kind` names, called like the others."""
    made: TrainingImprover = _made(config, model)
    _check(config, made, wanted="weights", names=TRAINING_IMPROVERS, own=", or a class of your own with trains = True")
    lacks = [name for name in ("uses_model", "bound", "diagnose", "research", "build") if not hasattr(made, name)]
    if lacks:
        raise SetupError(
            f"improver {config.kind!r} trains and lacks {', '.join(lacks)}: it needs the methods diagnose, research "
            "and build, uses_model (False where it asks no language model) and bound (heldout.records.Spend: the most "
            "that one call may cost; Spend() where it asks none)"
        )
    return made


def is_agent(improver: object) -> bool:
    """Whether it is an `AgentImprover`; classes from before that seam lack the flag."""
    return bool(getattr(improver, "agent", False))


def edits_skills(improver: object) -> bool:
    """Whether it is a `SkillImprover`, or the class of one."""
    return bool(getattr(improver, "skills", False))


def edits_weights(improver: object) -> bool:
    """Whether it is a `TrainingImprover`, or the class of one."""
    return bool(getattr(improver, "trains", False))


def improver_class(kind: str) -> Any:
    """The class that `improver.kind` names."""
    known = {**IMPROVERS, **AGENT_IMPROVERS, **SKILL_IMPROVERS, **TRAINING_IMPROVERS}
    return registry.load(kind, among=known, what="improver")


def _made(config: ImproverConfig, model: Model | None) -> Any:
    return improver_class(config.kind)(config, model)


def _check(config: ImproverConfig, made: object, *, wanted: str, names: Mapping[str, str], own: str = "") -> None:
    """`SetupError` for an improver of something else, with those that fit and the loop that it is for."""
    edits = "skills" if edits_skills(made) else "agents" if is_agent(made) else "prompts"
    edits = "weights" if edits_weights(made) else edits
    if edits != wanted:
        loop = f"; {config.kind!r} itself goes with loop = {_LOOPS[edits]!r}"
        raise SetupError(
            f"improver {config.kind!r} edits {_EDITS[edits]}, and this loop edits {_EDITS[wanted]}; take one of "
            f"{', '.join(sorted(names))}{own}{loop}"
        )
