"""What is compared: worlds, rules and sizes of the simulated loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from heldout.config import GateConfig
from heldout.gates import Gate, make_gate

__all__ = ["EXTRA_RULES", "RULES", "STRICT_RULES", "WORLDS", "Arm", "World"]

RULES = ("greedy", "mcnemar", "pace", "select_confirm", "bayes")
"""Those of the reference table. `bayes` is `bayes_pilot` with the true prior: that of first rewrites until the first
commit, and that of later ones afterwards, which is what reproduces the specification's row."""

STRICT_RULES = RULES[1:]

EXTRA_RULES = ("bayes_online", "ladder", "fresh")
"""The paper's rule without a pilot, and two of ours. `repeats` has no arm: a deterministic solver repeats itself."""


@dataclass(frozen=True, slots=True)
class World:
    """How skill changes; (mean, standard deviation) of true gains."""

    start: float = 0.40
    first: tuple[float, float] = (0.12, 0.08)
    """Until the first commit."""
    later: tuple[float, float] = (-0.05, 0.03)
    redraw: float = 1.0
    """Share of items whose luck a rewrite draws anew."""


WORLDS: Mapping[str, World] = MappingProxyType(
    {
        "standard": World(),
        "alike": World(redraw=0.3),
        "strong": World(start=0.75, first=(-0.05, 0.03)),
        "plain": World(first=(0.12, 0.01), later=(0.0, 0.0)),
    }
)
"""`standard` is the specification's. `alike`: rewrites keep 70 % of the outcomes. `strong`: the useful first step is
already taken, so that every rewrite is a later one. `plain`: first rewrites are equally good and later ones do
nothing, so that there is no choice to make well."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One cell of the study."""

    rule: str
    n: int
    world_name: str = "standard"
    generations: int = 20
    candidates: int = 4
    budget: int | None = None
    """Evaluations after which no generation begins."""

    @property
    def world(self) -> World:
        return WORLDS[self.world_name]

    def gate(self, *, committed: bool) -> Gate:
        """The real gate; only `bayes` depends on whether there was a commit."""
        return _gate(self.rule, self.world.later if committed else self.world.first)


@lru_cache(maxsize=64)
def _gate(rule: str, prior: tuple[float, float]) -> Gate:
    if rule == "bayes":
        return make_gate(GateConfig(kind="bayes_pilot", prior=prior))
    return make_gate(GateConfig(kind=rule))
