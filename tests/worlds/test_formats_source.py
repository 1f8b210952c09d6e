"""The world `formats` as a source: families, pools, options, and that its texts are read back to their jobs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from heldout.config import TasksConfig
from heldout.errors import SetupError
from heldout.tasks.base import Item
from heldout.tasks.check import check_source
from heldout.tasks.duplicates import find_duplicates
from heldout.worlds.formats import Constraint, FormatsSource, Job, read_job
from heldout.worlds.formats.generator import PLAIN_SKILLS, draw_focused, draw_simple, draw_skill, draw_task
from heldout.worlds.formats.wording import WORDING


@pytest.fixture(scope="module")
def items() -> Sequence[Item]:
    return FormatsSource().items()


def test_it_has_the_asked_sizes_with_a_family_for_every_set_of_constraints(items: Sequence[Item]) -> None:
    ordinary = [item for item in items if not item.pool]
    retain = [item for item in items if item.pool == "retain"]
    assert 2380 <= len(ordinary) <= 2400
    assert 590 <= len(retain) <= 600
    assert ordinary[0].id == "f0001"
    families = Counter(item.family for item in ordinary)
    assert len(families) == 25
    assert set(Counter(item.family for item in retain)) == {"copy", "reverse", "sort"}
    for item in ordinary[:200]:
        assert item.family == "+".join(Job.model_validate_json(item.reference).constraints) == item.stratum


def test_the_source_checks_and_divides_into_the_roles_of_the_specification() -> None:
    config = TasksConfig(source="formats", train=200, select=200, audit=800, reports={"retain": 200})
    report = check_source(config)
    assert report.failures == ()
    assert report.exact_duplicates == report.near_duplicates == 0
    assert report.gold_right == report.wrong_refused == report.items
    assert sum(report.roles["retain"].values()) == 200
    assert set(report.roles["retain"]) == {"copy", "reverse", "sort"}


def test_the_same_seed_gives_the_same_tasks_and_another_seed_others(items: Sequence[Item]) -> None:
    assert FormatsSource().items() == items
    other = {item.input for item in FormatsSource(seed=1).items()}
    assert len(other & {item.input for item in items}) < 10


def test_options_draw_narrow_families_and_drop_what_is_too_alike() -> None:
    source = FormatsSource(constraints=["case"], items=2000, retain=0)
    found = source.items()
    assert {item.family for item in found} == {"case"}
    assert find_duplicates(found, threshold=0.75) == ()
    pair = FormatsSource(constraints=["count", "carry"], items=300).items()
    assert {item.family for item in pair if not item.pool} == {"count", "carry", "count+carry"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"constraints": []}, "at least one"),
        ({"constraints": ["case", "case"]}, "each once"),
        ({"constraints": ["colour"]}, "constraints"),
        ({"items": 3}, "items"),
        ({"size": 3}, "allowed are items, retain, constraints"),
        ({"path": "x.csv"}, "reads no file"),
    ],
)
def test_wrong_options_are_told(options: dict[str, object], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        FormatsSource(**options)  # type: ignore[arg-type]


def test_every_text_is_read_back_to_its_job() -> None:
    rng = random.Random(0)
    jobs = [draw_task(rng) for _ in range(1500)]
    jobs += [draw_skill(rng, skill) for skill in PLAIN_SKILLS for _ in range(100)]
    jobs += [draw_simple(rng) for _ in range(200)]
    assert [read_job(job.text) for job in jobs] == jobs


@pytest.mark.parametrize(
    "text",
    [
        "",
        "What is a heron?",
        "List these words: amber, cedar, lily, maple. Leave out olive.",
        "List these words: amber, cedar, amber.",
        "List these words: amber, cedar, lily. Answer as JSON. Answer in tags.",
        "List these words: amber, cedar, lily. Leave out amber. Include cedar.",
        "List these words: amber, cedar, lily. Use upper case. Give exactly 2 words.",
        "List these words: amber, cedar, lily. Thank you.",
        "Write down these words: amber, cedar, lily. Use upper case.",
        "List these words: " + "amber, " * 100_000,
    ],
)
def test_a_text_that_is_no_task_is_no_job(text: str) -> None:
    assert read_job(text) is None


def test_focused_tasks_have_their_constraint_and_simple_ones_ask_for_little() -> None:
    rng = random.Random(1)
    for constraint in Constraint:
        drawn = [draw_focused(rng, constraint) for _ in range(60)]
        assert all(constraint in job.constraints and len(job.constraints) <= 3 for job in drawn)
        assert {len(job.constraints) for job in drawn} == {1, 2, 3}
    simple = [draw_simple(rng).constraints for _ in range(60)]
    assert set(simple) == {(), (Constraint.CASE,), (Constraint.WORD,)}
    assert {draw_task(rng).wording for _ in range(60)} == set(range(len(WORDING)))
