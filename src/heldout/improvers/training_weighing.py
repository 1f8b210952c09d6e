"""The table of strategies by rules: what each promises here, what it costs, and what stands against it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from heldout.improvers.strategies import Library, Strategy
from heldout.improvers.training_history import (
    KEPT,
    bar,
    pace,
    reproduces,
    tried_on_head,
)
from heldout.improvers.training_roles import Asset, Recipe, ResearchView
from heldout.store.training_events import WeighedStrategy

__all__ = [
    "KEPT_SHARE",
    "OVERHEAD",
    "Hindrance",
    "Rule",
    "Weighed",
    "combined",
    "hindered",
    "score_of",
    "too_long_for",
    "varied",
    "weigh",
]

Rule = Literal["expected_gain_per_hour", "expected_gain"]

Hindrance = Literal["", "fit", "data", "history", "budget"]
"""What keeps a strategy from being chosen."""

OVERHEAD: Mapping[str, float] = {"low": 0.05, "medium": 0.15, "high": 0.3}
"""What building a strategy adds to the cost of its training, by effort. A validated builder of its own takes all of it
away, one that makes a part of the data that part."""

COMBINED = "train:combined"
"""The builder that joins the data of several (`heldout.training.builders_train`)."""

KEPT_SHARE = 0.3
"""Share of a combined data set that validated builders make, all of them together."""
_KEPT_BUILDERS = 2
"""The newest ones."""
_VARIANTS = 2
"""How often a rejected strategy is tried again on one model, with more data each time."""
_MOST_EXAMPLES = 16_384
_NEEDS_ANSWERS = "train:"
"""Builders that train on the right answers of failed train tasks."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A strategy with its row of the table and the recipe that would be run."""

    row: WeighedStrategy
    recipe: Recipe
    hindrance: Hindrance = ""

    @property
    def open(self) -> bool:
        """Whether it may be chosen."""
        return self.row.score is not None and self.row.score > 0.0


def weigh(view: ResearchView, library: Library, rule: Rule) -> list[Weighed]:
    """Every strategy of the library, by id. A score is missing where the data, the budget or what happened before
    forbids it; `lost` then says why."""
    speed = pace(library, view.history)
    weighed = [_weighed(view, strategy, rule, speed) for strategy in library.strategies]
    return sorted(weighed, key=lambda one: one.row.id)


def hindered(weighed: Weighed, view: ResearchView, rule: Rule) -> Weighed:
    """With its score, or with what keeps it from being chosen."""
    hindrance, lost = _hindrance(weighed.row, view)
    score = None if hindrance else score_of(weighed.row, rule)
    return Weighed(weighed.row.model_copy(update={"score": score, "lost": lost}), weighed.recipe, hindrance)


def score_of(row: WeighedStrategy, rule: Rule) -> float:
    """fits · reported gain · P(reproduces), per hour of expected cost where the rule is per hour."""
    gain = row.fits * row.reported_gain * row.reproduces
    return gain / (row.cost_s / 3600.0) if rule == "expected_gain_per_hour" else gain


def combined(best: Weighed, view: ResearchView, library: Library, rule: Rule) -> Weighed | None:
    """`best` with a part of its data from the newest validated builders of accepted strategies, so that training on
    one problem loses less of what was won on others; None where there is none.

    What is reported for `best` is taken over; building only the new part makes it cheaper.
    """
    parts = _validated(best, view, library)
    strategy = library.get(best.row.id)
    if not parts or strategy is None or not best.recipe.builder:
        return None
    identity = f"{best.row.id}{KEPT}"
    recipe = _with_parts(best.recipe, [recipe for _, recipe in parts])
    names = ", ".join(name for name, _ in parts)
    training = best.row.cost_s / (1.0 + _overhead(strategy, view.assets))
    against = bar(identity, view.history)
    row = best.row.model_copy(
        update={
            "id": identity,
            "source": f"own combination of {best.row.id} with validated assets",
            "mechanism": f"{best.row.mechanism} {KEPT_SHARE:.0%} of the examples come from {names}, to keep what they "
            "taught.",
            "data": f"{best.row.data}; {names} (validated)",
            "cost_s": training * (1.0 + (1.0 - KEPT_SHARE) * _overhead(strategy, view.assets)),
            "lost": against,
        }
    )
    score = None if against else score_of(row, rule)
    return Weighed(row.model_copy(update={"score": score}), recipe, "history" if against else "")


def varied(weighed: Sequence[Weighed], view: ResearchView, rule: Rule) -> list[Weighed]:
    """Rejected strategies opened again with a changed recipe (twice the examples for each rejection); none where they
    had their chances."""
    opened = []
    for one in weighed:
        times = tried_on_head(one.row.id, view.history)
        count = min(_MOST_EXAMPLES, one.recipe.count * 2 ** max(0, times))
        fits = one.row.fits > 0.0 and one.row.data_available
        if not 0 < times <= _VARIANTS or not fits or count == one.recipe.count:
            continue
        if too_long := too_long_for(one.row.cost_s, view):
            opened.append(Weighed(one.row.model_copy(update={"lost": too_long}), one.recipe, "budget"))
            continue
        words = f"{one.row.mechanism} Again, with {count} examples instead of {one.recipe.count}."
        row = one.row.model_copy(update={"mechanism": words, "lost": "", "score": score_of(one.row, rule)})
        opened.append(Weighed(row, one.recipe.model_copy(update={"count": count})))
    return opened


def _weighed(view: ResearchView, strategy: Strategy, rule: Rule, speed: float) -> Weighed:
    row = WeighedStrategy(
        id=strategy.id,
        source=strategy.source,
        mechanism=strategy.mechanism,
        reported_gain=strategy.reported_gain,
        reported_on=strategy.reported_on,
        fits=strategy.fit(view.focal),
        reproduces=reproduces(strategy, view.history),
        data=strategy.data,
        data_available=_has_data(strategy, view),
        implementation=strategy.implementation,
        cost_s=strategy.cost_s * speed * (1.0 + _overhead(strategy, view.assets)),
        risk=strategy.risk,
    )
    return hindered(Weighed(row, strategy.recipe), view, rule)


def _hindrance(row: WeighedStrategy, view: ResearchView) -> tuple[Hindrance, str]:
    """What forbids this row, and in words."""
    if row.fits <= 0.0:
        return "fit", f"does not fit {view.focal!r}"
    if not row.data_available:
        return "data", "needs right answers of failed train tasks, and none is known"
    barred = bar(row.id, view.history)
    if barred:  # a larger budget would not open it
        return "history", barred
    too_long = too_long_for(row.cost_s, view)
    return ("budget", too_long) if too_long else ("", "")


def too_long_for(cost_s: float, view: ResearchView) -> str:
    """Why the budget has no room for so many seconds; empty where it has."""
    if view.budget_s is None or cost_s <= view.budget_s:
        return ""
    return f"would take about {cost_s:.1f} s, and {max(0.0, view.budget_s):.1f} s are left"


def _has_data(strategy: Strategy, view: ResearchView) -> bool:
    if not strategy.recipe.builder.startswith(_NEEDS_ANSWERS):
        return True
    return any(failed.solution.strip() for failed in view.failures)


def _overhead(strategy: Strategy, assets: Sequence[Asset]) -> float:
    """Of building it: nothing where a validated builder of this strategy can be used again."""
    built = any(asset.kind == "data_builder" and asset.strategy == strategy.id for asset in assets)
    return 0.0 if built else OVERHEAD[strategy.implementation]


def _validated(best: Weighed, view: ResearchView, library: Library) -> list[tuple[str, Recipe]]:
    """Id and recipe of the validated builders to keep, the newest first: of strategies that were accepted, and that
    build other data than `best` does."""
    accepted = {one.strategy for one in view.history if one.status == "accepted"}
    found: dict[str, Recipe] = {}
    for asset in reversed(view.assets):
        recipe = _recipe_of(asset, library)
        taken = {best.recipe.builder, *(one.builder for one in found.values())}
        usable = recipe is not None and recipe.builder and recipe.builder not in (*taken, COMBINED)
        if recipe is not None and usable and asset.kind == "data_builder" and asset.strategy in accepted:
            found.setdefault(asset.strategy.removesuffix(KEPT), recipe)
    return list(found.items())[:_KEPT_BUILDERS]


def _recipe_of(asset: Asset, library: Library) -> Recipe | None:
    """The recipe that lies in an asset as `recipe.json`, else the library's own of its strategy."""
    try:
        return Recipe.model_validate(json.loads(asset.files["recipe.json"]))
    except (KeyError, ValueError, ValidationError):
        strategy = library.get(asset.strategy.removesuffix(KEPT))
        return None if strategy is None else strategy.recipe


def _with_parts(recipe: Recipe, kept: Sequence[Recipe]) -> Recipe:
    """The recipe over the builder `train:combined`, with each kept builder as an equal part of `KEPT_SHARE`."""
    share = KEPT_SHARE / len(kept)
    parts = [{"builder": recipe.builder, "weight": 1.0 - KEPT_SHARE, "params": dict(recipe.params)}]
    parts += [{"builder": one.builder, "weight": share, "params": dict(one.params)} for one in kept]
    return recipe.model_copy(update={"builder": COMBINED, "params": {"parts": parts}})
