"""The data builders for any task set with reference answers, and the one that joins several."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from heldout.errors import ImproverError
from heldout.records import TrainTask
from heldout.tasks.examples import BuildRequest
from heldout.training.builders import load_builder
from heldout.training.builders_train import combined, failures, references


def task(number: int, family: str = "a", reference: str = "right") -> TrainTask:
    """A failed train task."""
    return TrainTask(id=f"{family}{number}", input=f"question {family}{number}", reference=reference, family=family)


TASKS = (*(task(number) for number in range(10)), *(task(number, "b") for number in range(2)))


def request(count: int = 100, **changes: Any) -> BuildRequest:
    """For twelve failures of two families, unless told otherwise."""
    given = {"count": count, "seed": 3, "failures": TASKS, **changes}
    return BuildRequest(**{"solutions": {one.id: one.reference for one in given["failures"]}, **given})


def test_references_gives_every_failure_once_with_its_answer_and_its_task() -> None:
    pairs = references(request())
    assert {pair.task for pair in pairs} == {one.id for one in TASKS}
    assert len(pairs) == 12
    assert {(pair.completion, pair.score) for pair in pairs} == {("right", 1.0)}
    assert all(pair.prompt == f"question {pair.task}" for pair in pairs)


def test_references_are_in_an_order_that_the_seed_draws_and_no_more_than_are_wanted() -> None:
    first, again, other = (references(request(seed=seed)) for seed in (3, 3, 4))
    assert list(first) == list(again) != list(other)
    assert list(references(request(count=4))) == list(first)[:4]


def test_failures_are_balanced_over_families_and_take_turns() -> None:
    pairs = failures(request())
    assert Counter(pair.task[0] for pair in pairs) == {"a": 4, "b": 2}, "at most twice as many as of the rarest"
    assert [pair.task[0] for pair in pairs] == ["a", "b", "a", "b", "a", "a"]
    assert Counter(pair.task[0] for pair in failures(request(params={"ratio": 1.0}))) == {"a": 2, "b": 2}


@pytest.mark.parametrize("name", ["train:references", "train:failures"])
def test_without_any_known_answer_there_is_nothing_to_train_on(name: str) -> None:
    with pytest.raises(ImproverError, match="none of 1 failed train tasks has a known answer"):
        load_builder(name)(request(failures=(task(1, reference=" "),)))


@pytest.mark.parametrize("name", ["train:references", "train:failures"])
def test_what_is_learned_is_the_answer_and_not_the_rule_of_the_grader(name: str) -> None:
    rule = task(1, reference='{"rules": ["at most five words"]}')
    pairs = load_builder(name)(request(failures=(rule, task(2)), solutions={rule.id: " Four words will do. "}))
    assert [(pair.task, pair.completion) for pair in pairs] == [(rule.id, "Four words will do.")]


def test_params_are_checked() -> None:
    with pytest.raises(ImproverError, match=r"'train:failures': times: Extra.*allowed are ratio"):
        failures(request(params={"times": 3}))
    with pytest.raises(ImproverError, match=r"'train:references'"):
        references(request(params={"times": 3}))
    with pytest.raises(ImproverError, match=r"'train:combined': parts: Field required"):
        combined(request())


def parts(*builders: tuple[str, float]) -> dict[str, Any]:
    """Params of a joined data set."""
    return {"parts": [{"builder": name, "weight": weight} for name, weight in builders]}


def test_a_joined_data_set_has_each_part_in_its_share_and_mixed() -> None:
    pairs = combined(request(10, params=parts(("formats:end", 0.7), ("train:references", 0.3))))
    own = [bool(pair.task) for pair in pairs]
    assert (len(own), sum(own)) == (10, 3)
    assert sorted(own) != own, "mixed"
    assert list(pairs) == list(combined(request(10, params=parts(("formats:end", 0.7), ("train:references", 0.3)))))


def test_what_is_left_over_goes_to_the_first_parts_and_two_equal_builders_draw_differently() -> None:
    pairs = combined(request(7, params=parts(("formats:end", 1.0), ("formats:end", 1.0))))
    assert len({pair.prompt for pair in pairs}) == 7


@pytest.mark.parametrize("name", ["train:combined", "os:system", "package.module:function", "formats:magic"])
def test_a_part_is_a_builder_with_a_short_name_and_never_a_path_of_python(name: str) -> None:
    with pytest.raises(ImproverError, match=rf"'{name}' cannot be a part of 'train:combined'; there is formats:carry"):
        combined(request(params=parts(("formats:end", 1.0), (name, 1.0))))
