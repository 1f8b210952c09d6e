"""How much is run: sizes of a run, and of a whole part of the study. All of it was fixed before any arm was run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from heldout.worlds.formats.job import Fault
from heldout.worlds.formats.learning import CAPS

__all__ = [
    "POCKET",
    "POCKET_PLAN",
    "POCKET_QUICK_PLAN",
    "QUICK_PLAN",
    "SIMULATED",
    "STARTS",
    "TRAINED",
    "Plan",
    "Sizes",
    "Start",
]

Start = Literal["base", "instruct", "trained"]
"""What a run begins with; `trained` exists in the simulation alone."""

STARTS: tuple[Start, ...] = ("base", "instruct")
"""The starts that every arm is run from."""

TRAINED: Mapping[str, float] = MappingProxyType({name: CAPS[name] for name in Fault})
"""Skills of the start `trained`: it has learned what can be learned, so that a training can only spoil something."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of one run. The defaults are those of the simulation."""

    simulated: bool = True
    train: int = 100
    select: int = 100
    audit: int = 400
    retain: int = 60
    items: int = 700
    """Tasks that are drawn for the ordinary roles."""
    budget_s: float = 4500.0
    """Processor seconds of a run's search, trainings, preflights and evaluations together."""
    steps: int = 300
    """Of a full training."""
    short: int = 30
    """Of the short run in preflight."""
    trainings: int = 4
    """Full trainings, with their preflights, that the budget is made for."""
    examples: float = 1 / 32
    """Examples of a training, as a share of what the library of strategies says."""
    most_rounds: int = 20
    """No arm gets there: the budget ends them before."""
    step_s: float = 3.0
    """Seconds of a step that costs are reckoned by, and that a simulated one takes: long, so that the real seconds of
    building and answering, which differ from run to run, decide nothing."""
    speed: float = 25.4
    """Divides every τ of the simulated learning: what 32 times fewer examples of a training teach in all is as much
    as the world's own constants let the library's full data teach."""
    forgetting: float = 0.011
    """ψ, for the same reason: fewer examples are seen more often, which counts against other skills."""


SIMULATED = Sizes()
_SIMULATED_QUICK = Sizes(audit=100, train=60, select=60, budget_s=2300.0, trainings=2, items=400, retain=30)

POCKET = Sizes(
    simulated=False,
    train=100,
    select=100,
    audit=300,
    retain=120,
    items=700,
    budget_s=70.0,
    steps=100,
    short=15,
    trainings=4,
    examples=0.5,
    step_s=0.13,
)
_POCKET_QUICK = Sizes(
    simulated=False,
    train=60,
    select=60,
    audit=150,
    retain=60,
    items=400,
    budget_s=25.0,
    steps=40,
    short=10,
    trainings=3,
    examples=0.25,
    step_s=0.13,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Of a part of the study."""

    sizes: Sizes = field(default_factory=Sizes)
    seeds: int = 100
    """Of every arm from every start. In the simulation that makes 200 runs of an arm."""
    first_seed: int = 100
    """Those below were used for trials, by which sizes were set."""
    tables: int = 1000
    """Gate tables of a training without effect."""
    workers: int = 2
    quick: bool = False
    few_arms: tuple[str, ...] = ()
    """Names of the arms that are run; all of them where there is none."""


QUICK_PLAN = Plan(sizes=_SIMULATED_QUICK, seeds=3, tables=40, quick=True)

POCKET_PLAN = Plan(sizes=POCKET, seeds=5)

POCKET_QUICK_PLAN = Plan(
    sizes=_POCKET_QUICK,
    seeds=2,
    quick=True,
    few_arms=("full", "strategy at random", "fixed recipe repeated", "final without the start"),
)
"""Three arms are run, and the fourth takes the models of the first."""
