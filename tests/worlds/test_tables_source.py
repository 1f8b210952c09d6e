"""The world `tables` as a task source: what it holds, who gets which names, and where its tasks begin."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest

from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError
from heldout.records import Task
from heldout.sandbox import make_sandboxes
from heldout.tasks import Item, TaskSet, check_source, find_duplicates, load_source, load_tasks
from heldout.tasks.environment import read_changes
from heldout.tasks.sources import solution_text_of
from heldout.testing.object_graph import reached
from heldout.worlds.tables import (
    FAMILIES,
    OOD_FAMILIES,
    TablesEnvironment,
    TablesSource,
    carried_out,
    job_of,
    read_origin,
)

SIZES = {"train": 40, "select": 20, "audit": 200, "reports": {"ood": 60}}


def config(**changes: Any) -> TasksConfig:
    return TasksConfig.model_validate({"source": "tables", **SIZES, **changes})


def vocabulary(item: Item) -> str:
    return read_origin(item.reference).vocabulary


@pytest.fixture(scope="module")
def items() -> Sequence[Item]:
    return TablesSource().items()


@pytest.fixture(scope="module")
def tasks() -> TaskSet:
    return load_tasks(config(), fresh=20)


def test_sizes_families_and_vocabularies(items: Sequence[Item]) -> None:
    ordinary = [item for item in items if not item.pool]
    assert len(items) == len({item.id for item in items}) == 864 + 80
    assert Counter(item.family for item in ordinary) == dict.fromkeys(FAMILIES, 72)
    assert Counter(map(vocabulary, ordinary)) == {"A": 216, "B": 216, "C": 432}
    assert Counter(item.family for item in items if item.pool == "ood") == dict.fromkeys(OOD_FAMILIES, 40)
    assert {vocabulary(item) for item in items if item.pool} == {"C"}


def test_reading_twice_gives_the_same_and_another_seed_gives_others(items: Sequence[Item]) -> None:
    assert TablesSource().items() == items
    assert not {item.input for item in TablesSource(seed=1).items()} & {item.input for item in items}


def test_a_smaller_world_is_part_of_a_larger_one(items: Sequence[Item]) -> None:
    assert {*TablesSource(count=96, ood=10).items()} <= {*items}


@pytest.mark.parametrize("seed", [0, 1])
def test_no_two_requests_are_near_duplicates(seed: int) -> None:
    assert find_duplicates(TablesSource(seed=seed).items()) == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 16))
def test_no_two_requests_of_a_larger_world_are_near_duplicates(seed: int) -> None:
    assert find_duplicates(TablesSource(seed=seed, count=1440, ood=200).items()) == ()


def test_train_is_named_from_the_first_vocabulary_and_audit_from_another(tasks: TaskSet, items: Sequence[Item]) -> None:
    of = {item.id: vocabulary(item) for item in items}
    assert tasks.sizes == {"train": 40, "select": 20, "spare": 20, "audit": 200, "ood": 60}
    assert {of[task.id] for task in tasks.train} == {"A"}
    assert {of[name] for role in tasks.sealed.values() for name in role.ids} == {"C"}


@pytest.mark.parametrize("seed", range(3))
def test_select_is_half_of_one_vocabulary_and_half_of_another(seed: int) -> None:
    division = load_tasks(config(seed=seed, audit=40, options={"count": 288}))
    of = {item.id: vocabulary(item) for item in TablesSource(seed=seed, count=288).items()}
    counts = Counter(of[task.id] for task in division.select)
    assert counts.keys() == {"A", "B"}
    assert 7 <= counts["A"] <= 13


def test_names_of_train_recur_and_none_of_them_is_in_audit(items: Sequence[Item], tasks: TaskSet) -> None:
    jobs = {item.id: job_of(read_origin(item.reference)) for item in items}
    names = Counter(name for task in tasks.train for name in jobs[task.id].literals)
    sealed = {name for role in tasks.sealed.values() for task in role.ids for name in jobs[task].literals}
    assert sum(count > 4 for count in names.values()) > len(names) / 2
    assert not sealed & names.keys()


def test_the_default_sizes_of_a_run_fit() -> None:
    sizes = load_tasks(TasksConfig(source="tables"), fresh=64).sizes
    assert sizes == {"train": 128, "select": 64, "spare": 64, "audit": 200}


def test_every_family_is_in_every_role(tasks: TaskSet) -> None:
    families = {item.id: item.family for item in TablesSource().items()}
    for ids in ([task.id for task in tasks.train], tasks.sealed["audit"].ids):
        assert {families[name] for name in ids} == set(FAMILIES)


def test_a_task_set_has_the_environment_and_reaches_no_sealed_text(tasks: TaskSet, items: Sequence[Item]) -> None:
    assert tasks.environment == TablesEnvironment(seed=0)
    by_id = {item.id: item for item in items}
    sealed = [by_id[name] for role in tasks.sealed.values() for name in role.ids]
    assert reached(tasks, [text for item in sealed for text in (item.input, item.reference)]) == set()
    assert pickle.loads(pickle.dumps(tasks)) == tasks


def test_the_solution_is_what_the_right_program_leaves(items: Sequence[Item]) -> None:
    source = TablesSource()
    for item in items[::97]:
        job = job_of(read_origin(item.reference))
        changed = read_changes(source.solution(item))
        assert {**job.files, **changed} == carried_out(job)
        assert changed


def test_the_solution_as_text_is_the_program(items: Sequence[Item]) -> None:
    text = solution_text_of(TablesSource(), items[0])
    assert text.startswith("# simulated decisions: outputs ok")
    assert "wrong" not in text
    assert "keep_from(" in text


def test_the_check_passes() -> None:
    fault = make_sandboxes("bubblewrap").fault()
    if fault is not None:
        pytest.skip(fault)
    report = check_source(TasksConfig(source="tables"), sample=12)
    assert (report.ok, report.gold_right, report.wrong_refused, report.copies) == (True, 12, 12, 0), report.failures


class TestEnvironment:
    def test_a_scene_has_the_files_of_the_job_and_nothing_of_the_answer(self, items: Sequence[Item]) -> None:
        environment = TablesEnvironment(seed=0)
        for item in items[::61]:
            job = job_of(read_origin(item.reference))
            scene = environment.scene(Task(id=item.id, input=item.input), seed=3)
            assert dict(scene.files) == dict(job.files)
            assert scene.encoded == (".xlsx",)
            assert scene.env == {"PYTHONPATH": "/tables"}
            assert sorted(point.rpartition("/")[2] for point in scene.mounts.values()) == [
                "et_xmlfile",
                "openpyxl",
                "toolbox",
            ]
            made = {name: text for name, text in carried_out(job).items() if job.files.get(name) != text}
            assert not {*made.values()} & {*scene.files.values()}
            assert item.reference not in scene.model_dump_json()

    def test_it_makes_the_scene_anew_from_the_id_alone(self, items: Sequence[Item]) -> None:
        item = items[100]
        environment = pickle.loads(pickle.dumps(TablesEnvironment(seed=0)))
        job_of.cache_clear()
        scene = environment.scene(Task(id=item.id, input=item.input), seed=0)
        assert dict(scene.files) == dict(job_of(read_origin(item.reference)).files)

    def test_a_world_of_other_shares_has_other_tasks_and_its_environment_knows_them(self) -> None:
        source = TablesSource(seed=2, decoy=0.9, summary=0.0)
        for item in source.items()[::101]:
            assert source.environment.scene(Task(id=item.id, input=item.input), seed=0).files

    @pytest.mark.parametrize("name", ["tables-1", "repair-rounding-0017", "tables-12345", "tables-x"])
    def test_ids_of_other_sources_are_refused(self, name: str) -> None:
        with pytest.raises(TaskError, match=r"not of the world 'tables'; its ids are like 'tables-0417'"):
            TablesEnvironment(seed=0).scene(Task(id=name, input="x"), seed=0)

    def test_another_text_is_refused(self, items: Sequence[Item]) -> None:
        with pytest.raises(TaskError, match="has another text than the world of seed 1 gives it"):
            TablesEnvironment(seed=1).scene(Task(id=items[0].id, input=items[0].input), seed=0)

    def test_every_id_is_some_task_or_refused(self) -> None:
        environment = TablesEnvironment(seed=0)
        for number in range(0, 10000, 97):
            with pytest.raises(TaskError):
                environment.scene(Task(id=f"tables-{number:04d}", input="x"), seed=0)

    def test_fingerprints_differ_by_settings(self) -> None:
        made = [TablesEnvironment(seed=0), TablesEnvironment(seed=1), TablesEnvironment(seed=0, decoy=0.5)]
        assert all(a.fingerprint != b.fingerprint for a, b in combinations(made, 2))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"path": "x.xlsx"}, "generated and reads no file"),
        ({"options": {"count": 12}}, "count"),
        ({"options": {"summary": 2.0}}, "summary"),
        ({"options": {"decoys": 0.2}}, "decoys"),
    ],
)
def test_wrong_options_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        load_source(config(**changes))


def test_too_few_tasks_for_train_says_where_tasks_may_go() -> None:
    with pytest.raises(SetupError, match=r"too few for train\n(.*\n)*.*12 may enter train: the source says"):
        load_tasks(config(options={"count": 48, "ood": 60}, train=20, select=4, audit=10))
