"""The `training_catalog` improver: diagnostician, researcher and builder by rules, over a library of strategies."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.improvers.strategies import LIBRARIES, Library, library_for, load_library
from heldout.improvers.training_diagnosis import FocalChoice, diagnose
from heldout.improvers.training_repair import build
from heldout.improvers.training_research import check_choice, research
from heldout.improvers.training_roles import BuildView, Diagnosis, DiagnosisView, RecipePlan, Research, ResearchView
from heldout.improvers.training_weighing import Rule
from heldout.models.base import Model
from heldout.options import read_options
from heldout.records import Record, Spend

__all__ = ["TrainingCatalog", "TrainingCatalogOptions"]


class TrainingCatalogOptions(Record):
    """`improver.options` of `training_catalog`."""

    library: str = ""
    """`formats`, `generic`, or the path of a .toml file of your own. Empty takes the one whose fault codes are those of
    the failures."""
    only: tuple[str, ...] = ()
    """Ids of strategies: no others are weighed."""
    without: tuple[str, ...] = ()
    """Ids of strategies that are left out."""
    rule: Rule = "expected_gain_per_hour"
    """How strategies are ranked: fits · reported gain · P(reproduces), per hour of expected cost or not."""
    focal: FocalChoice = "largest"
    """The focal problem: the one with the most recoverable points, or `random`."""
    strategy: str = "best"
    """The choice: `best`, `random`, `repeat_first` (the first accepted one in every later round), or a strategy's id
    (that one in every round)."""
    explore: float = Field(default=0.0, ge=0.0, le=1.0)
    """Chance that a round takes any open strategy instead of the best."""
    examples: float = Field(default=1.0, gt=0.0, le=16.0)
    """Size of every recipe's data, as a share of what the library says."""
    steps: float = Field(default=1.0, gt=0.0, le=16.0)
    """Length of the recipes that name their own number of steps, and costs, as a share of what the library says: less
    where `options.train.steps` is less than the 300 that it was written for."""
    seconds: float = Field(default=1.0, gt=0.0, le=1000.0)
    """How many times as long a step takes here as the library says; what was timed in a run mends it."""


class TrainingCatalog:
    """A `TrainingImprover` without a language model. Same view, same answer."""

    trains: ClassVar[bool] = True
    simulated: ClassVar[bool] = False
    uses_model: ClassVar[bool] = False
    bound: ClassVar[Spend] = Spend()

    def __init__(self, config: ImproverConfig, model: Model | None = None) -> None:
        del model
        self.options = read_options(TrainingCatalogOptions, config.options, where=f"improver {config.kind!r}")
        self._check_ids()

    def diagnose(self, view: DiagnosisView) -> Diagnosis:
        """Fix rates from what happened so far, and the cluster with the most recoverable points."""
        return diagnose(view, focal=self.options.focal)

    def research(self, view: ResearchView) -> Research:
        """The library weighed for the focal problem, and the strategy with the largest score."""
        library = self._library(self.options.library or library_for([one.code for one in view.clusters]))
        return research(
            view,
            library,
            rule=self.options.rule,
            strategy=self.options.strategy,
            explore=self.options.explore,
        )

    def build(self, view: BuildView) -> RecipePlan:
        """The recipe as the library has it, repaired by rules where a preflight failed."""
        return build(view)

    def _library(self, name: str) -> Library:
        narrowed = load_library(name).narrowed(only=self.options.only, without=self.options.without)
        chosen = self.options
        return narrowed.scaled(examples=chosen.examples, steps=chosen.steps, seconds=chosen.seconds)

    def _check_ids(self) -> None:
        """`SetupError` before anything is spent, for ids that no library in question has."""
        faults = []
        for name in [self.options.library] if self.options.library else sorted(LIBRARIES):
            try:
                check_choice(self.options.strategy, self._library(name))
                return
            except SetupError as fault:
                faults.append(fault)
        raise faults[0]
