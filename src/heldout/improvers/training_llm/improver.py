"""The `training_llm` improver: any chat model diagnoses, weighs and builds, in at most two replies each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.improvers.asking import Asking, bound_of
from heldout.improvers.strategies import Library, library_for, load_library
from heldout.improvers.training_diagnosis import READ, diagnose, failures_of
from heldout.improvers.training_llm.digest import shown_failures
from heldout.improvers.training_llm.prompts import (
    build_question,
    build_rules,
    diagnosis_question,
    diagnosis_rules,
    research_question,
    research_rules,
)
from heldout.improvers.training_llm.replies import (
    MOST_EXAMPLES,
    SCRIPT,
    diagnosis_schema,
    read_built,
    read_diagnosis,
    read_table,
    table_schema,
)
from heldout.improvers.training_llm.settings import TrainingLlmOptions
from heldout.improvers.training_llm.table import choose
from heldout.improvers.training_roles import BuildView, Diagnosis, DiagnosisView, RecipePlan, Research, ResearchView
from heldout.improvers.training_weighing import COMBINED, weigh
from heldout.models.base import Model
from heldout.options import read_options

__all__ = ["TrainingLlm"]


class TrainingLlm:
    """A `TrainingImprover` over a chat model. Holds no state between calls.

    A reply that cannot be used is asked for once more, with its fault named; then it is an `ImproverError`. The model
    names data builders from a list and never a path of Python; a builder that it writes runs in the sandbox alone.
    """

    trains: ClassVar[bool] = True
    simulated: ClassVar[bool] = False
    uses_model: ClassVar[bool] = True

    def __init__(self, config: ImproverConfig, model: Model | None) -> None:
        if model is None:
            raise SetupError("improver.kind = 'training_llm' needs a model: set improver.model")
        self.options = read_options(TrainingLlmOptions, config.options, where=f"improver {config.kind!r}")
        if self.options.library:
            load_library(self.options.library)
        self.bound = bound_of(self.options, config.model)
        self._model = model

    def diagnose(self, view: DiagnosisView) -> Diagnosis:
        """The focal problem, as the model reads metrics and failures. Where nothing fails it is not asked."""
        if not view.clusters:
            return diagnose(view)
        asking = self._asking(view.seed, "diagnosis")
        shown = shown_failures(view.failures, view.clusters, self.options.failures)
        ids = [failed.task.id for failed in shown]
        found = asking.ask(
            diagnosis_rules(len(shown), READ),
            diagnosis_question(view, shown, limit=self.options.trace_chars),
            lambda text: read_diagnosis(text, clusters=view.clusters, shown=ids, least=READ),
            diagnosis_schema(),
        )
        return found.model_copy(update={"spend": asking.spend})

    def research(self, view: ResearchView) -> Research:
        """The model's table, strategies of its own included; the choice by `options.rule`."""
        asking = self._asking(view.seed, "table of strategies")
        library, rule = self._library([cluster.code for cluster in view.clusters]), self.options.rule
        weighed = weigh(view, library, "expected_gain_per_hour" if rule == "model" else rule)
        named, allowed = self._builders(library)
        shown = failures_of(view.focal, view.failures)[: self.options.failures]
        table = asking.ask(
            research_rules(view, named, by_model=rule == "model", scripts=self.options.scripts),
            research_question(view, weighed, shown, limit=self.options.trace_chars),
            lambda text: read_table(
                text,
                library=[strategy.id for strategy in library.strategies],
                builders=allowed,
                least=view.min_strategies,
            ),
            table_schema(),
        )
        return choose(table, weighed, view, rule).model_copy(update={"spend": asking.spend})

    def build(self, view: BuildView) -> RecipePlan:
        """The library's recipe as it is; for a strategy of its own, and for every repair, the recipe that the model
        writes."""
        if view.repair == 0 and (view.recipe.script or self._is_known(view)):
            return RecipePlan(recipe=view.recipe, note=f"{view.strategy} as the library has it")
        asking = self._asking(view.seed, f"recipe of {view.strategy}")
        named, allowed = self._builders(self._library([code for one in view.failures for code in one.faults]))
        built = asking.ask(
            build_rules(view, named, most=MOST_EXAMPLES, scripts=self.options.scripts),
            build_question(self._shortened(view), limit=self.options.trace_chars),
            lambda text: read_built(text, before=view.recipe, settings=view.settings, builders=allowed),
        )
        return RecipePlan(recipe=built.recipe, note=built.note, spend=asking.spend)

    def _asking(self, seed: int, what: str) -> Asking:
        return Asking(self._model, self.options, seed, what)

    def _library(self, codes: Sequence[str]) -> Library:
        return load_library(self.options.library or library_for(codes))

    def _is_known(self, view: BuildView) -> bool:
        """Whether the recipe is one of a library's own, and so needs nothing from the model."""
        names = [self.options.library] if self.options.library else ["formats", "generic"]
        known = [load_library(name).get(view.strategy) for name in names]
        return any(strategy is not None and strategy.recipe == view.recipe for strategy in known)

    def _builders(self, library: Library) -> tuple[list[str], list[str]]:
        """Names of the data builders that go with the library, and what a reply may name."""
        named = sorted({COMBINED, *(one.recipe.builder for one in library.strategies if one.recipe.builder)})
        return named, [*named, *([SCRIPT] if self.options.scripts else [])]

    def _shortened(self, view: BuildView) -> BuildView:
        return replace(view, failures=failures_of(view.focal, view.failures)[: self.options.failures])
