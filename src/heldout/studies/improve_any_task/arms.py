"""What is compared: arms, and the run config that each of them stands for (spec §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from heldout.config import RunConfig, load_config
from heldout.studies.improve_any_task.plans import TRAINED, Sizes, Start

__all__ = [
    "ARMS",
    "AS_DIAGNOSED",
    "FIXED",
    "FULL",
    "HARMFUL",
    "MIXTURE",
    "NO_PREFLIGHT",
    "RANDOM_FOCAL",
    "RANDOM_STRATEGY",
    "RANDOM_UNCHECKED",
    "TWICE",
    "WITHOUT_START",
    "Arm",
    "arms_of",
    "budget_s",
    "run_config",
]

FULL = "full"
RANDOM_FOCAL = "focal problem at random"
RANDOM_STRATEGY = "strategy at random"
NO_PREFLIGHT = "no preflight"
RANDOM_UNCHECKED = "strategy at random, no preflight"
FIXED = "fixed recipe repeated"
MIXTURE = "mixture at once"
AS_DIAGNOSED = "diagnosis = select"
WITHOUT_START = "final without the start"
HARMFUL = "harmful recipe alone"
TWICE = "one recipe trained twice"


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: the loop with one thing changed."""

    focal: Literal["largest", "random"] = "largest"
    strategy: Literal["best", "random", "repeat_first", "mixture_all", "long_training"] = "best"
    preflight: bool = True
    assets: bool = True
    decide_on: Literal["select", "train"] = "select"
    at_once: bool = False
    """One training for the whole budget, on the data of all its rounds."""
    rounds: int | None = None
    """So many, and no budget, for what is compared with no other arm."""
    twice: bool = False
    """The recipe of the first round is trained with two seeds."""
    of: str = ""
    """Name of the arm whose models are taken, with the final chosen as in the paper: without the start."""


ARMS: Mapping[str, Arm] = MappingProxyType(
    {
        FULL: Arm(),
        RANDOM_FOCAL: Arm(focal="random"),
        RANDOM_STRATEGY: Arm(strategy="random"),
        NO_PREFLIGHT: Arm(preflight=False),
        RANDOM_UNCHECKED: Arm(strategy="random", preflight=False),
        FIXED: Arm(strategy="repeat_first"),
        MIXTURE: Arm(strategy="mixture_all", at_once=True),
        "no assets": Arm(assets=False),
        AS_DIAGNOSED: Arm(decide_on="train"),
        WITHOUT_START: Arm(of=FULL),
    }
)
"""By the name that tables use."""

_HARMFUL: Mapping[str, Arm] = MappingProxyType(
    {
        HARMFUL: Arm(strategy="long_training", rounds=2),
        f"{HARMFUL}, without the start": Arm(of=HARMFUL),
    }
)

WORLDS_FROM = 500
"""The world of a run has the run's seed and this, so that no draw of the run is one of its world."""

_CAREFUL = 1.3
"""A long training is reserved at more than it will cost, which the limit of the arm that has one must allow."""


def arms_of(start: Start, *, few: tuple[str, ...] = ()) -> dict[str, Arm]:
    """The arms that are run from a start: those of `few`, or all."""
    if start == "trained":
        return {name: ARMS[name] for name in (FULL, WITHOUT_START)} | dict(_HARMFUL)
    chosen = {name: arm for name, arm in ARMS.items() if not few or name in few}
    return chosen | (dict(_HARMFUL) if start == "instruct" else {}) | {TWICE: Arm(twice=True, rounds=1)}


def budget_s(arm: Arm, sizes: Sizes) -> float | None:
    """Processor seconds that a run of an arm may spend on its search; None where its number of rounds ends it."""
    if arm.rounds:
        return None
    return sizes.budget_s * (_CAREFUL if arm.at_once else 1.0)


def run_config(arm: Arm, start: Start, sizes: Sizes, *, seed: int) -> RunConfig:
    """The real loop; the seeds of run, world and learner vary together, so that arms of a seed share their tasks."""
    tasks = {
        "source": "formats",
        "seed": seed + WORLDS_FROM,
        "train": sizes.train,
        "select": sizes.select,
        "audit": sizes.audit,
        "reports": {"retain": sizes.retain},
        "options": {"items": sizes.items, "retain": sizes.retain + sizes.retain // 2},
    }
    cpu_s = budget_s(arm, sizes)
    changed: Mapping[str, Any] = {
        "loop": "improve_any_task",
        "seed": seed,
        "tasks": tasks,
        "solver": {"model": _model(start, sizes, seed), "harness": "completion"},
        "improver": {"kind": "training_catalog", "options": _improver(arm, sizes)},
        "search": {"generations": 1 if arm.at_once else arm.rounds or sizes.most_rounds, "candidates": 1},
        "gate": {"kind": "net"},
        "noise": {"tasks": min(20, sizes.select), "simulations": 100, "disagreement": 0.1},
        "executor": {"kind": "inline"},
        "budget": {} if cpu_s is None else {"cpu_s": cpu_s},
        "options": _options(arm, sizes),
    }
    return load_config([changed])


def _model(start: Start, sizes: Sizes, seed: int) -> Mapping[str, Any]:
    """Answers of 48 tokens at most, as in the presets."""
    if not sizes.simulated:
        return {"name": f"pocket:{start}", "max_tokens": 48}
    learning = {"speed": sizes.speed, "forgetting": sizes.forgetting, "step_s": sizes.step_s}
    options: dict[str, Any] = {"seed": seed, "learning": learning}
    if start == "trained":
        options["skills"] = dict(TRAINED)
    name = "simulated_formats:instruct" if start == "trained" else f"simulated_formats:{start}"
    return {"name": name, "max_tokens": 48, "options": options}


def _improver(arm: Arm, sizes: Sizes) -> Mapping[str, Any]:
    """Recipes that name their own number of steps are shortened as all others are. The library's costs are those of
    300 steps in 20 seconds."""
    return {
        "library": "formats",
        "focal": arm.focal,
        "strategy": arm.strategy,
        "examples": sizes.examples * (sizes.trainings if arm.at_once else 1),
        "steps": sizes.steps / 300,
        "seconds": sizes.step_s * 15.0,
    }


def _options(arm: Arm, sizes: Sizes) -> Mapping[str, Any]:
    """The training at once has the steps of all trainings, and those of the preflights that it does not need."""
    steps = sizes.trainings * (sizes.steps + sizes.short) - sizes.short if arm.at_once else sizes.steps
    return {
        "train": {"steps": steps},
        "preflight": {"enabled": arm.preflight, "steps": sizes.short},
        "decide_on": arm.decide_on,
        "assets": arm.assets,
        "training_noise": arm.twice,
    }
