"""The size of a library's recipes, for models and budgets smaller or larger than those that it was written for."""

from __future__ import annotations

import pytest

from heldout.improvers.strategies import load_library


def test_examples_steps_and_costs_follow_their_shares_and_nothing_else_changes() -> None:
    library = load_library("formats")
    scaled = library.scaled(examples=0.25, steps=0.2, seconds=3.0)
    for before, after in zip(library.strategies, scaled.strategies, strict=True):
        assert after.recipe.count == round(before.recipe.count / 4)
        assert after.cost_s == pytest.approx(0.6 * before.cost_s)
        rest = {"recipe", "cost_s"}
        assert after.model_dump(exclude=rest) == before.model_dump(exclude=rest)
    curriculum = scaled.get("carry_curriculum")
    assert curriculum is not None
    assert curriculum.recipe.train == {"steps": 90}
    end_token = scaled.get("end_token")
    assert end_token is not None
    assert "steps" not in end_token.recipe.train  # the run's own number, which `options.train.steps` says


def test_a_recipe_keeps_one_example_and_one_step() -> None:
    smallest = load_library("formats").scaled(examples=1e-9, steps=1e-9).get("long_training")
    assert smallest is not None
    assert (smallest.recipe.count, smallest.recipe.train["steps"]) == (1, 1)


def test_the_library_as_it_is() -> None:
    library = load_library("generic")
    assert library.scaled() == library
