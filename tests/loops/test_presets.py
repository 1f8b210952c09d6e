"""What a preset says, and what it leaves to tasks of another source."""

from __future__ import annotations

from typing import Any

import pytest

from heldout.config import load_config
from heldout.loops import preset


@pytest.mark.parametrize("layer", [{}, {"tasks": {"train": 8}}, {"tasks": {"source": "repair", "train": 8}}])
def test_tasks_of_its_own_source_keep_its_report_roles(layer: dict[str, Any]) -> None:
    assert load_config([preset("verse", "small", layer), layer]).tasks.reports == {"ood": 12}


@pytest.mark.parametrize("layers", [[{"tasks": {"source": "harbor"}}, {}], [{}, {"tasks": {"source": "harbor"}}]])
def test_tasks_of_another_source_have_only_the_report_roles_that_they_ask_for(layers: list[dict[str, Any]]) -> None:
    assert load_config([preset("verse", "small", *layers), *layers]).tasks.reports == {}
    asked = {"tasks": {"reports": {"test": 5}}}
    assert load_config([preset("verse", "small", *layers), *layers, asked]).tasks.reports == {"test": 5}
    assert load_config([preset("verse", "small", *layers), *layers]).tasks.train == 12


def test_a_broken_table_of_tasks_is_refused_where_every_table_is_checked() -> None:
    assert preset("verse", "small", {"tasks": 3})["tasks"]["reports"] == {"ood": 12}
