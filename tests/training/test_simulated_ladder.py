"""The preflight ladder on simulated weights: good recipes pass, and each bad one dies where it should."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from heldout.config import ModelConfig
from heldout.errors import TrainingError
from heldout.models import Message, Request
from heldout.models.base import Reply
from heldout.store.weights import WeightsOrigin, WeightsStore
from heldout.tasks.examples import BuildRequest
from heldout.training import Example, Fitted, Provenance, TrainConfig, TrainingJob, Watch
from heldout.training.builders import load_builder
from heldout.training.preflight import stage_a, stage_b
from heldout.training.simulated import SimulatedTrainer
from heldout.worlds.formats import FormatsLearner

FOREIGN = "{% for message in messages %}### {{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"


def failed_checks(tmp_path: Path, start: str, builder: str, changes: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Names of the checks that fail at stage a, and at stage b."""
    model = FormatsLearner(ModelConfig(name=f"simulated_formats:{start}"))
    store = WeightsStore(tmp_path / "weights")
    parent = model.serve(store)
    pairs = load_builder(f"formats:{builder}")(BuildRequest(count=1024))
    data = [
        Example(prompt=p.prompt, completion=p.completion, provenance=Provenance(task="b", role="built")) for p in pairs
    ]
    config = TrainConfig.model_validate(changes)
    (tmp_path / "work").mkdir()
    job = TrainingJob(store.path(parent), tuple(data), config, seed=1, work=tmp_path / "work", steps=30)

    def answers(folder: Path, count: int) -> Sequence[Reply]:
        weights = store.add(folder, WeightsOrigin(parent=parent))
        turns = [(Message(role="user", content=example.prompt),) for example in data[:count]]
        return model.complete_batch([Request(messages=turn, weights=weights) for turn in turns])

    run: Fitted | TrainingError
    try:
        run = SimulatedTrainer().fit(job, Watch())
    except TrainingError as fault:
        run = fault
    ladder = (stage_a(store.path(parent), data, config), stage_b(run, answers, config))
    a, b = ({check.name for check in stage if not check.passed} for stage in ladder)
    return a, b


@pytest.mark.parametrize("start", ["base", "instruct"])
@pytest.mark.parametrize("builder", ["end", "wrapper", "count", "case", "word", "carry", "mixture"])
def test_good_recipes_pass_both_stages(tmp_path: Path, start: str, builder: str) -> None:
    assert failed_checks(tmp_path, start, builder, {}) == (set(), set())


@pytest.mark.parametrize(
    ("changes", "dies_in_a", "dies_in_b"),
    [
        ({"template": FOREIGN}, "template", "stops"),
        ({"end_token": False}, "end token", "stops"),
        ({"optimiser": {"learning_rate": 0.05}}, None, "loss falls"),
        ({"optimiser": {"learning_rate": 0.5}}, None, "finite loss"),
    ],
)
def test_bad_recipes_die_in_their_check(
    tmp_path: Path, changes: dict[str, Any], dies_in_a: str | None, dies_in_b: str
) -> None:
    a, b = failed_checks(tmp_path, "instruct", "mixture", changes)
    assert (dies_in_a in a) if dies_in_a else not a
    assert dies_in_b in b
