"""The builder by rules: what is changed in a recipe for each check of the preflight that it failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from heldout.config import merge
from heldout.improvers.training_roles import BuildView, Recipe, RecipePlan
from heldout.improvers.training_weighing import COMBINED
from heldout.training import TrainConfig
from heldout.training.builders import BUILDERS

__all__ = ["build", "settings_of"]

_BEYOND_REPAIR = ("data", "schema")
"""Checks that a change of the config does not pass."""
_RATE_STEP = 4.0
_END_SHARE = 0.5
"""Share of a data set that is made of tasks with end tokens, where answers did not stop."""

Change = tuple[Recipe, str]
"""A changed recipe, and in words what was changed."""
_Repair = Callable[[Recipe, TrainConfig], "Change | None"]
"""None where there is nothing to change."""


def build(view: BuildView) -> RecipePlan:
    """The recipe as it is, or for a repair with a change for every failed check; None where no rule knows one."""
    if view.repair == 0:
        return RecipePlan(recipe=view.recipe, note=f"{view.strategy} as the library has it")
    failed = [check.name for check in view.failed_checks if not check.passed]
    if any(name in _BEYOND_REPAIR for name in failed):
        return RecipePlan(recipe=None, note=f"no rule mends {', '.join(failed)}")
    if any("finite" in error for error in view.errors):
        failed.append("finite loss")
    recipe, changes = view.recipe, []
    for name in (name for name in _REPAIRS if name in failed):
        found = _REPAIRS[name](recipe, settings_of(recipe, view.settings))
        if found is not None:
            recipe, said = found
            changes.append(f"{said} (check {name!r})")
    if not changes and "stops" in failed:
        recipe, said = _faster(recipe, settings_of(recipe, view.settings))
        changes.append(f"{said} (check 'stops')")
    if not changes:
        return RecipePlan(recipe=None, note=f"no rule mends {', '.join(failed or view.errors) or 'this'}")
    return RecipePlan(recipe=recipe, note=f"repair {view.repair}: {'; '.join(changes)}")


def settings_of(recipe: Recipe, settings: TrainConfig) -> TrainConfig:
    """The run's training config with the recipe's changes."""
    return TrainConfig.model_validate(merge(settings.model_dump(), recipe.train))


def _changed(recipe: Recipe, train: Mapping[str, Any], said: str) -> Change:
    return recipe.model_copy(update={"train": merge(recipe.train, train)}), said


def _own_template(recipe: Recipe, settings: TrainConfig) -> Change | None:
    if settings.template is None:
        return None
    return _changed(recipe, {"template": None}, "the template of evaluation instead of its own")


def _end_token(recipe: Recipe, settings: TrainConfig) -> Change | None:
    if settings.end_token:
        return None
    return _changed(recipe, {"end_token": True}, "with the end token")


def _slower(recipe: Recipe, settings: TrainConfig) -> Change:
    rate = settings.optimiser.learning_rate / _RATE_STEP
    return _changed(recipe, {"optimiser": {"learning_rate": rate}}, f"learning rate {rate:g}, a quarter of it")


def _faster(recipe: Recipe, settings: TrainConfig) -> Change:
    rate = settings.optimiser.learning_rate * 2.0
    return _changed(recipe, {"optimiser": {"learning_rate": rate}}, f"learning rate {rate:g}, twice of it")


def _all_weights(recipe: Recipe, settings: TrainConfig) -> Change | None:
    if settings.method == "full":
        return None
    return _changed(recipe, {"method": "full"}, "all weights instead of adapters")


def _stops(recipe: Recipe, settings: TrainConfig) -> Change | None:
    return _end_token(recipe, settings) or _end_data(recipe)


def _end_data(recipe: Recipe) -> Change | None:
    """Half of the data from the same world's builder of whole tasks with end tokens."""
    own: list[dict[str, Any]] = [{"builder": recipe.builder, "weight": 1.0, "params": dict(recipe.params)}]
    if recipe.builder == COMBINED:
        own = [dict(part) for part in recipe.params["parts"]]
    end = f"{str(own[0]['builder']).partition(':')[0]}:end"
    if end not in BUILDERS or any(part["builder"] == end for part in own):
        return None
    weight = sum(float(part["weight"]) for part in own) * _END_SHARE / (1.0 - _END_SHARE)
    joined = [*own, {"builder": end, "weight": weight, "params": {}}]
    changed = recipe.model_copy(update={"builder": COMBINED, "params": {"parts": joined}})
    return changed, f"half of the examples from {end}"


def _micro_batches(recipe: Recipe, settings: TrainConfig) -> Change | None:
    if settings.accumulate * 2 > settings.batch:
        return None
    return _changed(recipe, {"accumulate": settings.accumulate * 2}, f"{settings.accumulate * 2} micro-batches a step")


def _fewer_steps(recipe: Recipe, settings: TrainConfig) -> Change | None:
    if settings.steps < 2:
        return None
    return _changed(recipe, {"steps": settings.steps // 2}, f"{settings.steps // 2} steps, half of them")


def _longer(recipe: Recipe, settings: TrainConfig) -> Change:
    length = settings.max_length * 2
    return _changed(recipe, {"max_length": length}, f"room for {length} tokens, so that fewer examples are dropped")


_REPAIRS: Mapping[str, _Repair] = {
    "template": _own_template,
    "round trip": _own_template,
    "labels": _own_template,
    "mask": _own_template,
    "end token": _end_token,
    "finite loss": _slower,
    "loss falls": _slower,
    "loads": _all_weights,
    "stops": _stops,
    "memory": _micro_batches,
    "time": _fewer_steps,
    "length": _longer,
}
"""By the name of the check (`heldout.training.preflight`), causes before their consequences."""
