"""Data builders of `formats`: what each draws, that answers are right, and that a leak is one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from heldout.errors import ImproverError
from heldout.records import TrainTask
from heldout.tasks.examples import BuildRequest, Pair
from heldout.tasks.overlap import OverlapIndex, overlap_of
from heldout.training.builders import BUILDERS, load_builder, replay_builder
from heldout.worlds.formats import Constraint, FormatsSource, Job, grade, read_job
from heldout.worlds.formats.builders import carry, mixture, narrow

NAMES = sorted(name for name in BUILDERS if name.startswith("formats:"))
FRESH = sorted(set(NAMES) - {"formats:leak", "formats:paraphrase"})


@pytest.fixture(scope="module")
def failures() -> tuple[TrainTask, ...]:
    items = [item for item in FormatsSource().items() if item.family in ("count+carry", "word+case")][:60]
    return tuple(TrainTask(id=item.id, input=item.input, reference=item.reference) for item in items)


def build(name: str, failures: Sequence[TrainTask] = (), *, count: int = 120, seed: int = 0) -> Sequence[Pair]:
    request = BuildRequest(count=count, seed=seed, failures=tuple(failures))
    return load_builder(name)(request)


def jobs(pairs: Sequence[Pair]) -> list[Job]:
    found = [read_job(pair.prompt) for pair in pairs]
    assert None not in found
    return [job for job in found if job is not None]


def share(pairs: Sequence[Pair], constraint: Constraint) -> float:
    return sum(constraint in job.constraints for job in jobs(pairs)) / len(pairs)


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_right_and_says_so(name: str, failures: Sequence[TrainTask]) -> None:
    pairs = build(name, failures)
    assert len(pairs) == 120
    for pair, job in zip(pairs, jobs(pairs), strict=True):
        assert grade(pair.completion, job.model_dump_json()) == 1.0 == pair.score
        assert pair.completion == job.ideal


@pytest.mark.parametrize("name", NAMES)
def test_one_request_gives_one_data_set_and_another_seed_another(name: str, failures: Sequence[TrainTask]) -> None:
    assert build(name, failures) == build(name, failures)
    if name != "formats:paraphrase":
        again = {pair.prompt for pair in build(name, failures, seed=1)}
        assert len(again & {pair.prompt for pair in build(name, failures)}) < 12


@pytest.fixture(scope="module")
def every_task() -> OverlapIndex:
    return overlap_of((item.id, item.input) for item in FormatsSource().items())


@pytest.mark.parametrize("name", FRESH)
def test_fresh_words_do_not_meet_the_tasks_of_any_role(
    name: str, failures: Sequence[TrainTask], every_task: OverlapIndex
) -> None:
    """Sentences of the wordings may make a 13-gram with few words of the list in it: one or two in a thousand."""
    pairs = build(name, failures, count=500)
    assert sum(every_task.hits(pair.prompt) is not None for pair in pairs) <= 5


def test_a_leak_is_the_runs_own_tasks_and_the_contamination_check_catches_it() -> None:
    source = FormatsSource(items=400)
    index = overlap_of((item.id, item.input) for item in source.items()[:200])
    drawn = {"count": 300, "source_options": {"items": 400}}
    pairs = load_builder("formats:leak")(BuildRequest(**drawn))
    assert {pair.prompt for pair in pairs} <= {item.input for item in source.items()}
    assert sum(index.hits(pair.prompt) == "text" for pair in pairs) > 0.3 * len(pairs)
    assert all(not pair.task for pair in pairs)
    other = load_builder("formats:leak")(BuildRequest(**drawn, source_seed=1))
    assert not any(index.hits(pair.prompt) for pair in other)


@pytest.mark.parametrize("constraint", list(Constraint))
def test_focused_data_have_their_constraint_and_the_others_seldom(constraint: Constraint) -> None:
    pairs = build(f"formats:{constraint}", count=400)
    assert share(pairs, constraint) == 1.0
    assert all(0.15 < share(pairs, other) < 0.35 for other in Constraint if other is not constraint)


def test_end_data_have_every_form_and_little_of_what_is_difficult() -> None:
    pairs = build("formats:end", count=800)
    assert all(0.05 < share(pairs, constraint) < 0.15 for constraint in Constraint)
    skills = Counter(job.skill for job in jobs(pairs))
    assert min(skills[skill] for skill in ("copy", "reverse", "sort")) > 40
    assert {job.wrapper for job in jobs(pairs)} == {"plain", "json", "tags"}


def test_the_mixture_is_balanced() -> None:
    pairs = mixture(BuildRequest(count=250))
    sets = Counter(job.constraints for job in jobs(pairs))
    assert len(sets) == 25
    assert set(sets.values()) == {10}
    assert {share(pairs, constraint) for constraint in Constraint} == {0.44}


def test_replay_is_plain_skills_and_lists_that_ask_for_little() -> None:
    found = jobs(build("formats:replay", count=400))
    plain = [job for job in found if job.skill != "list"]
    assert 0.65 < len(plain) / len(found) < 0.85
    assert {job.constraints for job in found if job.skill == "list"} == {(), (Constraint.CASE,), (Constraint.WORD,)}


def test_a_curriculum_goes_from_sums_without_a_carry_to_large_ones() -> None:
    sums = [job.addends for job in jobs(carry(BuildRequest(count=300)))]
    carries = [a % 10 + b % 10 >= 10 for a, b in filter(None, sums)]
    totals = [a + b for a, b in filter(None, sums)]
    assert not any(carries[:100])
    assert all(carries[100:])
    assert max(totals[100:200]) < 100 <= min(totals[200:])
    mixed = jobs(carry(BuildRequest(count=300, params={"curriculum": False})))
    assert sum(a % 10 + b % 10 >= 10 for a, b in filter(None, (job.addends for job in mixed))) > 220


def test_hard_examples_ask_for_what_the_failures_ask_for(failures: Sequence[TrainTask]) -> None:
    found = Counter(job.constraints for job in jobs(build("formats:hard", failures, count=200)))
    assert set(found) == {job.constraints for job in map(read_job, (task.input for task in failures)) if job}
    assert not {pair.prompt for pair in build("formats:hard", failures)} & {task.input for task in failures}
    assert build("formats:hard") == ()


def test_a_paraphrase_says_the_failures_again_and_names_them(failures: Sequence[TrainTask]) -> None:
    pairs = build("formats:paraphrase", failures, count=1000)
    assert len(pairs) == 2 * len(failures)
    assert Counter(pair.task for pair in pairs) == dict.fromkeys((task.id for task in failures), 2)
    assert not {pair.prompt for pair in pairs} & {task.input for task in failures}
    right = {task.id: Job.model_validate_json(task.reference).ideal for task in failures}
    assert all(pair.completion == right[pair.task] for pair in pairs)


def test_narrow_data_repeat_a_few_examples_of_the_commonest_failures(failures: Sequence[TrainTask]) -> None:
    pairs = narrow(BuildRequest(count=450, failures=failures[:1], params={"distinct": 100}))
    assert set(Counter(pair.prompt for pair in pairs).values()) == {4, 5}
    asked = read_job(failures[0].input)
    assert asked is not None
    assert {(job.constraints, job.wording) for job in jobs(pairs)} == {(asked.constraints, 0)}
    assert {job.constraints for job in jobs(narrow(BuildRequest(count=5)))} == {(Constraint.WRAPPER,)}
    cased = narrow(BuildRequest(count=5, params={"constraints": ["case"]}))
    assert {job.constraints for job in jobs(cased)} == {(Constraint.CASE,)}


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("formats:end", {"size": 3}, "size"),
        ("formats:carry", {"curriculum": "perhaps"}, "curriculum"),
        ("formats:leak", {"colour": 1}, "colour"),
        ("formats:narrow", {"distinct": 0}, "distinct"),
    ],
)
def test_wrong_params_are_the_improvers_fault(name: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(ImproverError, match=said):
        load_builder(name)(BuildRequest(count=5, params=params))


def test_failures_of_another_source_are_refused() -> None:
    foreign = TrainTask(id="q1", input="What is a heron?", reference="entity")
    for name in ("formats:hard", "formats:paraphrase", "formats:narrow"):
        with pytest.raises(ImproverError, match=r"'q1' is none of the source 'formats'"):
            build(name, (foreign,))


def test_every_name_leads_to_a_builder_and_others_are_refused_with_what_there_is() -> None:
    assert all(callable(load_builder(name)) for name in BUILDERS)
    assert replay_builder("formats") == "formats:replay"
    assert replay_builder("gsm8k") == "train:references"
    for name in ("formats:everything", "mixture"):
        with pytest.raises(ImproverError, match=rf"no data builder '{name}'; there is formats:end, formats:wrapper"):
            load_builder(name)
    with pytest.raises(ImproverError, match="cannot import"):
        load_builder("no_such_package:build")
    with pytest.raises(ImproverError, match="is not a function"):
        load_builder("heldout.worlds.formats.wording:WORDS")
