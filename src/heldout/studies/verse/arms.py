"""What is compared: arms, worlds and sizes, and the run config that each of them stands for (spec §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from heldout.config import RunConfig, load_config
from heldout.loops import preset

__all__ = ["ARMS", "FOUR", "QUICK", "Arm", "Sizes", "World", "run_config"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: what of VERSE is switched on, and how much is tried."""

    verify: Literal["none", "run_episode", "full"]
    self_edit: bool
    attribution: bool = True
    ledger: bool = True
    schedule: Literal["chosen", "random", "fixed"] = "chosen"
    iterate: bool = True
    more_candidates: int = 0
    """Beyond the candidates that a round has in every arm."""
    more_rounds: int = 0

    def widened(self, *, candidates: int = 0, rounds: int = 0) -> Arm:
        """The same arm with more to try."""
        return replace(
            self,
            more_candidates=self.more_candidates + candidates,
            more_rounds=self.more_rounds + rounds,
        )


FOUR: Mapping[str, Arm] = MappingProxyType(
    {
        "none": Arm("none", self_edit=False),
        "none, self-edit": Arm("none", self_edit=True),
        "full": Arm("full", self_edit=False),
        "full, self-edit": Arm("full", self_edit=True),
    }
)
"""Verification by self-edit, without the simple kind: what the interaction rests on."""

ARMS: Mapping[str, Arm] = MappingProxyType(
    {
        "none": FOUR["none"],
        "none, self-edit": FOUR["none, self-edit"],
        "run_episode": Arm("run_episode", self_edit=False),
        "run_episode, self-edit": Arm("run_episode", self_edit=True),
        "full": FOUR["full"],
        "full, self-edit": FOUR["full, self-edit"],
        "− attribution": Arm("full", self_edit=True, attribution=False),
        "− ledger": Arm("full", self_edit=True, ledger=False),
        "random schedule": Arm("full", self_edit=True, schedule="random"),
        "fixed schedule": Arm("full", self_edit=True, schedule="fixed"),
        "best of N": Arm("none", self_edit=False, iterate=False),
    }
)
"""By the name that tables use; the last rows but one differ from `full, self-edit` in one thing each."""


@dataclass(frozen=True, slots=True)
class World:
    """How hard it is to read a failure, and how much two runs of the same thing differ."""

    error: float = 0.4
    """ε: the chance that the improver reads a signature wrongly."""
    nondeterminism: float = 0.15
    """ν: the share of tasks whose outcome also depends on the run's own seed."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of one run; the defaults are the embedded sizes of the specification."""

    train: int = 24
    select: int = 20
    audit: int = 120
    ood: int = 60
    rounds: int = 4
    candidates: int = 3
    screen: int = 12
    canaries: int = 2
    units: int = 8
    """Of the pool, for each candidate of a round."""


QUICK = Sizes(train=12, select=10, audit=32, ood=12, rounds=2, candidates=2, screen=6, canaries=1, units=4)

_SHADOW = "heldout.studies.verse.shadow"


def run_config(arm: Arm, world: World, sizes: Sizes, *, seed: int) -> RunConfig:
    """The real loop in the shadow world; both the run's and the tasks' seed vary, so arms of a seed share tasks."""
    changed: Mapping[str, Any] = {
        "loop": "verse",
        "seed": seed,
        "tasks": {
            "grader": f"{_SHADOW}:shadow_grade",
            "seed": seed,
            "train": sizes.train,
            "select": sizes.select,
            "audit": sizes.audit,
            "reports": {"ood": sizes.ood},
            "options": {"nondeterminism": world.nondeterminism},
        },
        "solver": {"harness": f"{_SHADOW}:ShadowHarness"},
        "improver": {"options": {"error": world.error}},
        "search": {
            "generations": sizes.rounds + arm.more_rounds,
            "candidates": sizes.candidates + arm.more_candidates,
            "iterate": arm.iterate,
        },
        "noise": {"tasks": sizes.select, "simulations": 100},
        "executor": {"kind": "inline"},
        "options": _options(arm, sizes),
    }
    return load_config([preset("verse", "default"), changed])


def _options(arm: Arm, sizes: Sizes) -> Mapping[str, Any]:
    attribute: dict[str, Any] = {"ledger": arm.ledger}
    if not arm.attribution:
        attribute |= {"failures": 0, "successes": 0}
    return {
        "method": {"self_edit": arm.self_edit},
        "probe": {"verify": arm.verify, "schedule": arm.schedule, "units": sizes.units},
        "attribute": attribute,
        "screen": {"tasks": sizes.screen, "canaries": sizes.canaries},
    }
