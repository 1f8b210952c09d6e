"""The world `repair` as a task source, its division into roles, and where its tasks begin."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError
from heldout.loops.agents.smoking import WINDOW, words_shared
from heldout.records import Task
from heldout.tasks import Item, TaskSet, find_duplicates, load_source, load_tasks
from heldout.tasks.environment import read_changes
from heldout.tasks.sources import solution_text_of
from heldout.testing.object_graph import reached
from heldout.worlds.repair import RepairEnvironment, RepairSource, generate, read_reference
from heldout.worlds.repair.families import FAMILIES, OOD_FAMILIES

SIZES = {"train": 24, "select": 20, "audit": 120, "reports": {"ood": 60}}


def config(**changes: Any) -> TasksConfig:
    return TasksConfig.model_validate({"source": "repair", **SIZES, **changes})


@pytest.fixture(scope="module")
def items() -> Sequence[Item]:
    return RepairSource().items()


@pytest.fixture(scope="module")
def tasks() -> TaskSet:
    return load_tasks(config(), fresh=20)


def test_sizes_ids_and_pools(items: Sequence[Item]) -> None:
    assert len(items) == len({item.id for item in items}) == 481
    assert Counter(item.stratum for item in items if not item.pool) == dict.fromkeys(FAMILIES, 50)
    assert Counter(item.stratum for item in items if item.pool == "ood") == dict.fromkeys(OOD_FAMILIES, 27)
    assert {"repair-rounding-0017", "repair-sort-order-0026"} <= {item.id for item in items}


def test_reading_twice_gives_the_same_and_another_seed_gives_others(items: Sequence[Item]) -> None:
    assert RepairSource().items() == items
    assert not {item.input for item in RepairSource(seed=1).items()} & {item.input for item in items}


@pytest.mark.parametrize("seed", [0, 1])
def test_no_two_reports_are_near_duplicates(seed: int) -> None:
    assert find_duplicates(RepairSource(seed=seed).items(), threshold=0.75) == ()


def test_the_public_family_says_nothing_about_the_bug(items: Sequence[Item]) -> None:
    table = Counter((item.family, item.stratum) for item in items if not item.pool)
    assert len({family for family, _ in table}) == 12
    assert len(table) == 12 * 8
    assert max(table.values()) <= 6
    assert not {item.family for item in items} & {*FAMILIES, *OOD_FAMILIES}


def test_a_reference_regenerates_its_task(items: Sequence[Item]) -> None:
    for item in items[::40]:
        package = read_reference(item.reference).package()
        assert (package.id, package.issue) == (item.id, item.input)
        assert json.loads(item.reference) == {
            "seed": 0,
            "family": item.stratum,
            "number": int(item.id[-4:]),
            "nondeterminism": 0.15,
        }
        assert item.group == package.target.split("/")[0]


def test_there_are_enough_tasks_for_every_role(tasks: TaskSet) -> None:
    assert tasks.sizes == {"train": 24, "select": 20, "spare": 20, "audit": 120, "ood": 60}
    assert tasks.dropped == 0
    assert {name.rsplit("-", 1)[0].removeprefix("repair-") for name in tasks.sealed["ood"].ids} == set(OOD_FAMILIES)


def test_train_and_select_are_of_other_packages_when_divided_by_group() -> None:
    divided = load_tasks(config(split_by="group", audit=60, options={"count": 640}))
    folders = {item.id: item.group for item in RepairSource(count=640).items()}
    train, select = ({folders[task.id] for task in role} for role in (divided.train, divided.select))
    assert not train & select


def test_a_task_set_has_the_environment_and_reaches_no_sealed_text(tasks: TaskSet, items: Sequence[Item]) -> None:
    assert tasks.environment == RepairEnvironment(seed=0, nondeterminism=0.15)
    by_id = {item.id: item for item in items}
    sealed = [by_id[name] for role in tasks.sealed.values() for name in role.ids]
    secrets = [text for item in sealed for text in (item.input, item.reference)]
    fixes = [generate_of(item).fixed for item in items]
    assert reached(tasks, [*secrets, *fixes]) == set()
    assert reached(tasks, [by_id[task.id].input for task in tasks.train]) != set()
    assert pickle.loads(pickle.dumps(tasks)) == tasks


def generate_of(item: Item) -> Any:
    return read_reference(item.reference).package()


def test_the_solution_is_the_reference_patch_and_nothing_else(items: Sequence[Item]) -> None:
    source = RepairSource()
    for item in items[::50]:
        package = generate_of(item)
        assert read_changes(source.solution(item)) == dict(package.solution)


def test_an_edit_that_quotes_a_mended_place_is_found_to_quote_a_solution(items: Sequence[Item]) -> None:
    source = RepairSource()
    for item in items[::20]:
        package = generate_of(item)
        mended = package.solution[package.target].splitlines()
        first = package.files[package.target].partition(package.broken)[0].count("\n")
        last = first + len(package.fixed.splitlines())
        quoted = "\n".join(["Mend it like this:", *mended[max(0, first - 3) : last + 3]])
        told = solution_text_of(source, item)
        assert told in package.solution[package.target]
        assert words_shared(quoted, [told]) == (len(re.findall(r"\w+", told)) >= WINDOW)
        assert not words_shared("\n".join(mended[: max(0, first - 3)]), [told])


def test_a_scene_is_the_work_folder_with_the_seed_of_the_run(items: Sequence[Item]) -> None:
    environment = RepairEnvironment(seed=0, nondeterminism=0.15)
    for item in items[::23]:
        package = generate_of(item)
        scene = environment.scene(Task(id=item.id, input=item.input), seed=41)
        assert dict(scene.files) == dict(package.files)
        assert dict(scene.env) == {"RUN_SEED": "41"}
        secrets = [package.fixed, item.reference, *package.hidden.values(), *package.solution.values()]
        assert reached((scene, environment), secrets) == set()


def test_the_environment_can_be_sent_to_a_worker_and_tells_worlds_apart() -> None:
    environment = RepairEnvironment(seed=3, nondeterminism=0.3)
    assert pickle.loads(pickle.dumps(environment)) == environment
    others = (RepairEnvironment(seed=4, nondeterminism=0.3), RepairEnvironment(seed=3, nondeterminism=0.15))
    assert len({environment.fingerprint, *(other.fingerprint for other in others)}) == 3


@pytest.mark.parametrize(
    ("identity", "message"),
    [("q00001", "is not of the world"), ("repair-typo-0001", "is not of the world"), ("repair-rounding-0001", "text")],
)
def test_a_task_of_another_source_is_refused(identity: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        RepairEnvironment(seed=0, nondeterminism=0.15).scene(Task(id=identity, input="What is it?"), seed=0)


def test_a_task_of_another_seed_is_refused() -> None:
    package = generate(seed=1, family="rounding", number=2, nondeterminism=0.15)
    with pytest.raises(TaskError, match="another text than the world of seed 0"):
        RepairEnvironment(seed=0, nondeterminism=0.15).scene(Task(id=package.id, input=package.issue), seed=0)


def test_sizes_and_nondeterminism_are_options_and_others_are_refused() -> None:
    source = load_source(config(options={"count": 16, "ood": 3, "nondeterminism": 0.0}))
    assert len(source.items()) == 19
    assert not any(read_reference(item.reference).package().flaky for item in source.items())
    with pytest.raises(SetupError, match="allowed are count, ood, nondeterminism"):
        load_source(config(options={"counts": 16}))
    with pytest.raises(SetupError, match=r"reads no file, got tasks\.path = 'x'"):
        load_source(config(path="x"))


def test_the_start_instruction_names_no_remedy() -> None:
    words = RepairSource.instruction.lower()
    assert not [hint for hint in ("check", "test", "verify", "format", "traceback", "revert", "grep") if hint in words]
