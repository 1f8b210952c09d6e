"""A model's recipe brings no chat template: it would be rendered in the run's own process, for as long as it likes."""

from __future__ import annotations

import json

import pytest

from heldout.improvers.training_llm.replies import read_built
from heldout.improvers.training_roles import Recipe
from heldout.training import TrainConfig

ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize("template", [ENDLESS, "{{ 'a' * 10000000000 }}"])
def test_a_template_of_a_models_own_is_no_recipe(template: str) -> None:
    text = json.dumps({"builder": "formats:end", "train": {"template": template, "steps": 9}})
    found = read_built(text, before=Recipe(builder="formats:end"), settings=TrainConfig(), builders=["formats:end"])
    assert found.value is None
    assert "train.template is null" in found.fault


def test_the_template_of_evaluation_may_be_asked_for() -> None:
    text = json.dumps({"builder": "formats:end", "train": {"template": None, "steps": 9}})
    before = Recipe(builder="formats:end", train={"template": ENDLESS})
    found = read_built(text, before=before, settings=TrainConfig(), builders=["formats:end"])
    assert found.value is not None
    assert found.value.recipe is not None
    assert dict(found.value.recipe.train) == {"template": None, "steps": 9}
