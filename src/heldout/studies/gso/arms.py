"""What is compared: arms, worlds and sizes, and the run config that each of them stands for (spec §7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal

from heldout.config import RunConfig, load_config

__all__ = [
    "ARMS",
    "BARE",
    "FACTORIAL",
    "FROM_RULES",
    "GATED",
    "NO_SKILL",
    "PERSISTENT",
    "QUICK",
    "RIVALS",
    "VARIANTS",
    "Arm",
    "Sizes",
    "World",
    "available",
    "base_of",
    "run_config",
]

Gate = Literal["gso", "strict", "more_repairs", "two", "tolerance"]

NO_SKILL = "no skill"
"""The arm that gains are counted from."""

_JUDGED = "heldout.studies.gso.judged:JudgedGso"

FROM_RULES = "persistent, start guide's rules"
"""A persistent skill that begins with the start guide's own sentences: gso's beginning, without fresh skills."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: a loop that searches, or a candidate that is measured as it is."""

    loop: str = ""
    """Empty: nothing is searched."""
    gate: Gate = "gso"
    guide: bool = True
    """Whether it begins with the start guide; else without a skill."""
    rules: bool = False
    """It begins with the start guide's own sentences as one skill."""
    recovery: bool = True
    any_module: bool = False
    iterate: bool = True
    """False: every edit is one of the start, scored once, and one choice is made at the end."""
    of: str = ""
    """Name of the arm whose final is measured, for what searches nothing."""
    flattened: bool = False
    """Measured as one skill for all tasks that holds the guide's own sentences."""
    more_rounds: int = 0
    """Beyond the rounds that every arm has; may be negative."""

    def lengthened(self, rounds: int) -> Arm:
        """The same arm with so many rounds more."""
        return replace(self, more_rounds=self.more_rounds + rounds)


ARMS: Mapping[str, Arm] = MappingProxyType(
    {
        NO_SKILL: Arm(guide=False),
        "no skill, no recovery": Arm(guide=False, recovery=False),
        "one-shot": Arm("one_shot_skill", guide=False, recovery=False),
        "one-shot + recovery": Arm("one_shot_skill", guide=False),
        "persistent, strict gate": Arm("persistent_skill", gate="strict", guide=False),
        FROM_RULES: Arm("persistent_skill", gate="strict", guide=False, rules=True),
        "persistent, GSO gate": Arm("persistent_skill", guide=False),
        "EvoSkill-like": Arm("skill_frontier", gate="strict", guide=False),
        "Trace2Skill-like": Arm("merged_patches", gate="tolerance", guide=False),
        "GEPA": Arm("gepa", gate="strict", guide=False),
        "best-of-N guides": Arm("gso", iterate=False),
        "start guide": Arm(),
        "start guide, no recovery": Arm(recovery=False),
        "gso": Arm("gso"),
        "gso, no recovery": Arm(of="gso", recovery=False),
        "gso, any module": Arm("gso", any_module=True),
        "gso, R > B": Arm("gso", gate="more_repairs"),
        "gso, u ≥ 2": Arm("gso", gate="two"),
        "gso, judge alone": Arm(_JUDGED),
        "gso's rules as one skill": Arm(of="gso", flattened=True),
    }
)
"""By the name that tables use."""

PERSISTENT = ("persistent, strict gate", "persistent, GSO gate", "EvoSkill-like", "Trace2Skill-like", "GEPA")
"""Arms that keep one skill for all tasks and edit it."""

RIVALS = (NO_SKILL, "one-shot", "one-shot + recovery", *PERSISTENT, "best-of-N guides", "start guide")
"""What gso is compared with as a whole: other methods, the start among them; `FROM_RULES` has rows of its own."""

VARIANTS = (
    "no skill, no recovery",
    "start guide, no recovery",
    "gso, no recovery",
    "gso, any module",
    "gso, R > B",
    "gso, u ≥ 2",
    "gso, judge alone",
    "gso's rules as one skill",
)
"""Ablations: gso, or a rival, with one thing changed."""

BARE: Mapping[str, Arm] = MappingProxyType(
    {f"{name}, no recovery": Arm(guide=False, of=name, recovery=False) for name in PERSISTENT}
)
"""Their finals, measured without a recovery: in the paper no method but gso has one."""

FACTORIAL: Mapping[str, Arm] = MappingProxyType(
    {
        "start's rules as one skill": Arm(of="start guide", flattened=True),
        "start's rules as one skill, no recovery": Arm(of="start guide", flattened=True, recovery=False),
        "gso's rules as one skill, no recovery": Arm(of="gso", flattened=True, recovery=False),
    }
)
"""What the ablation by ingredients measures besides `ARMS`."""

GATED = ("gso", "gso, any module", "gso, R > B", "gso, u ≥ 2")
"""Arms whose guide is decided on by a rule on repairs and breaks."""


@dataclass(frozen=True, slots=True)
class World:
    """How unreliably the solver works."""

    slip: float = 0.02
    """ε: the chance that a step of a task slips."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of one run; the defaults are the embedded sizes of the specification."""

    train: int = 40
    select: int = 20
    audit: int = 200
    ood: int = 60
    rounds: int = 20
    batch: int = 8
    small: int = 40
    """Audit tasks, the first of them, that the paper's size would have had."""
    world: tuple[int, int] = (864, 80)
    """Ordinary tasks, and those of other operations, that roles are drawn from."""


QUICK = Sizes(train=12, select=10, audit=40, ood=12, rounds=4, batch=4, small=12, world=(240, 24))

WORLDS_FROM = 500
"""The world of a run has the run's seed and this, so that no draw of the run is one of its world."""

_SHADOW = "heldout.studies.gso.shadow"
_RULES_SHADOW = "heldout.studies.gso.from_rules:RulesShadow"
_GATES: Mapping[Gate, Mapping[str, Any]] = {
    "gso": {"kind": "repairs_over_regressions"},
    "strict": {"kind": "greedy"},
    "more_repairs": {"kind": "net"},
    "two": {"kind": "repairs_over_regressions", "options": {"min_u": 2}},
    "tolerance": {"kind": "tolerance", "tolerance": 0.001},
}


def available(arms: Mapping[str, Arm]) -> dict[str, Arm]:
    """Those that can run here: GEPA, and what measures its final, only where its package is installed."""
    there = find_spec("gepa") is not None
    return {name: arm for name, arm in arms.items() if there or "GEPA" not in (name, arm.of)}


def base_of(arm: Arm) -> Arm | None:
    """The arm whose final an arm measures, or None."""
    return ARMS[arm.of] if arm.of else None


def run_config(arm: Arm, world: World, sizes: Sizes, *, seed: int) -> RunConfig:
    """The real loop in the shadow world; of an arm that searches nothing, that of `gso` with its harness.

    The seeds of run and world vary together, so that arms of a seed share their tasks and, where they run the same
    candidate, its draws. Every round is run: no arm stops early.
    """
    changed: Mapping[str, Any] = {
        "loop": arm.loop or "gso",
        "seed": seed,
        "tasks": {
            "source": "tables",
            "grader": f"{_SHADOW}:shadow_grade",
            "seed": seed + WORLDS_FROM,
            "train": sizes.train,
            "select": sizes.select,
            "audit": sizes.audit,
            "reports": {"ood": sizes.ood},
            "options": {"count": sizes.world[0], "ood": sizes.world[1]},
        },
        "solver": {
            "model": {"name": "simulated_tables", "options": {"slip": world.slip}},
            "harness": _RULES_SHADOW if arm.rules else f"{_SHADOW}:ShadowHarness",
            "options": {"max_turns": 8, "recovery": arm.recovery, "start": "guide" if arm.guide else "none"},
        },
        "improver": {"kind": "skill_catalog"},
        "search": {"generations": max(1, sizes.rounds + arm.more_rounds), "candidates": 1, "iterate": arm.iterate},
        "gate": _GATES[arm.gate],
        "noise": {"tasks": sizes.select, "simulations": 100, "disagreement": 0.02},
        "executor": {"kind": "inline"},
        "options": _options(arm, sizes),
    }
    return load_config([changed])


def _options(arm: Arm, sizes: Sizes) -> Mapping[str, Any]:
    """Retention is measured by the study itself, for every arm alike."""
    options: dict[str, Any] = {"batch": sizes.batch, "stop_after": 0, "retention": False}
    return options | {"modules": "any"} if arm.any_module else options
