"""Roles: who gets which task, what a task set may hold, and what opening a role checks."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numbered_rows import body, row

from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError
from heldout.records import SelectTask, TrainTask
from heldout.tasks import SealedTask, TaskSet, load_tasks
from heldout.testing.object_graph import reachable_strings, reached

Write = Callable[..., str]


def config(path: str, **changes: Any) -> TasksConfig:
    sizes = {"train": 20, "select": 12, "audit": 16, "reports": {"gold": 12}}
    return TasksConfig.model_validate({"source": "jsonl", "path": path, **sizes, **changes})


@pytest.fixture
def path(write_tasks: Write) -> str:
    return write_tasks([row(number) for number in range(200)])


def ids(tasks: TaskSet) -> dict[str, tuple[str, ...]]:
    open_roles = {"train": tasks.train, "select": tasks.select, "spare": tasks.spare}
    return {name: tuple(task.id for task in members) for name, members in open_roles.items()} | {
        name: role.ids for name, role in tasks.sealed.items()
    }


def test_roles_are_disjoint_of_the_sizes_asked_for_and_of_different_types(path: str) -> None:
    tasks = load_tasks(config(path), fresh=6)
    assert tasks.sizes == {"train": 20, "select": 12, "spare": 6, "audit": 16, "gold": 12}
    everything = [name for members in ids(tasks).values() for name in members]
    assert len(set(everything)) == len(everything) == 66
    assert {type(task) for task in tasks.train} == {TrainTask}
    assert {type(task) for task in (*tasks.select, *tasks.spare)} == {SelectTask}
    assert {type(task) for task in tasks.open_role("audit").tasks} == {SealedTask}


def test_the_same_config_gives_the_same_division(path: str) -> None:
    assert load_tasks(config(path)) == load_tasks(config(path))


@pytest.mark.parametrize("change", [{"seed": 1}, {"stratify": False}])
def test_seed_and_stratification_change_every_role(path: str, change: dict[str, Any]) -> None:
    before, after = load_tasks(config(path)), load_tasks(config(path, **change))
    assert all(ids(before)[role] != ids(after)[role] for role in ("train", "select", "audit", "gold"))
    assert before.plan_digest != after.plan_digest


@pytest.mark.parametrize("key", ["train", "select", "audit"])
def test_every_size_changes_the_plan(path: str, key: str) -> None:
    assert load_tasks(config(path)).plan_digest != load_tasks(config(path, **{key: 24})).plan_digest


def test_the_division_does_not_depend_on_the_order_of_the_rows(write_tasks: Write) -> None:
    rows = [row(number) for number in range(200)]
    forward = load_tasks(config(write_tasks(rows, name="a.jsonl")))
    backward = load_tasks(config(write_tasks(rows[::-1], name="b.jsonl")))
    assert forward.plan_digest == backward.plan_digest


def test_smaller_select_is_the_beginning_of_larger_and_moves_nothing_else(path: str) -> None:
    small, large = ids(load_tasks(config(path, select=8))), ids(load_tasks(config(path, select=40)))
    assert small["select"] == large["select"][:8]
    assert [small[role] for role in ("train", "audit", "gold")] == [large[role] for role in ("train", "audit", "gold")]


def test_train_and_spare_move_no_other_role(path: str) -> None:
    small, large = ids(load_tasks(config(path, train=8))), ids(load_tasks(config(path, train=40), fresh=20))
    assert small["train"] == large["train"][:8]
    assert [small[role] for role in ("select", "audit", "gold")] == [
        large[role] for role in ("select", "audit", "gold")
    ]


def test_audit_is_nested_and_leaves_train_alone(path: str) -> None:
    small, large = ids(load_tasks(config(path))), ids(load_tasks(config(path, audit=40)))
    assert small["audit"] == large["audit"][:16]
    assert small["train"] == large["train"]


def test_each_role_has_the_mix_of_the_whole(path: str) -> None:
    # A quarter of the rows is of stratum a; a stretch of n holds n/4 of them, give or take one.
    for seed in range(20):
        for members in ids(load_tasks(config(path, seed=seed))).values():
            found = Counter(int(name[1:]) % 4 == 0 for name in members)
            assert abs(found[True] - len(members) / 4) <= 1


def test_a_rare_stratum_enters_a_small_role_as_often_as_its_share(write_tasks: Write) -> None:
    # 10 of 200 rows are rare, so 12 tasks hold 0.6 of them on average; the mean of 100 divisions has SE 0.05.
    path = write_tasks([row(number, stratum="rare" if number < 10 else "common") for number in range(200)])
    counts = [
        sum(int(name[1:]) < 10 for name in ids(load_tasks(config(path, seed=seed, audit=12)))["audit"])
        for seed in range(100)
    ]
    assert sum(counts) / len(counts) == pytest.approx(0.6, abs=0.15)


def test_no_group_is_in_two_roles(write_tasks: Write) -> None:
    path = write_tasks([row(number, group=f"g{number // 5}") for number in range(400)])
    tasks = load_tasks(config(path, split_by="group"), fresh=6)
    groups = {role: {int(name[1:]) // 5 for name in members} for role, members in ids(tasks).items()}
    assert sum(map(len, groups.values())) == len(set().union(*groups.values()))
    assert tasks.sizes == {"train": 20, "select": 12, "spare": 6, "audit": 16, "gold": 12}
    assert ids(tasks) != ids(load_tasks(config(path), fresh=6))
    longer = load_tasks(config(path, split_by="group", select=33), fresh=6)
    assert ids(tasks)["select"] == ids(longer)["select"][:12]


def test_groups_are_needed_to_split_by_them(path: str) -> None:
    with pytest.raises(SetupError, match="have no group"):
        load_tasks(config(path, split_by="group"))


def test_pooled_tasks_enter_only_the_report_of_their_name(write_tasks: Write) -> None:
    path = write_tasks([row(number, pool="ood" if number >= 170 else "") for number in range(200)])
    tasks = load_tasks(config(path, reports={"gold": 20, "ood": 30}))
    pooled = {f"t{number}" for number in range(170, 200)}
    assert set(ids(tasks)["ood"]) == pooled
    assert all(not pooled & set(members) for role, members in ids(tasks).items() if role != "ood")
    with pytest.raises(SetupError, match=r"pool 'ood': asked for 31, available 30"):
        load_tasks(config(path, reports={"ood": 31}))


@pytest.mark.parametrize("pool", ["audit", "train", "select", "spare"])
def test_rows_cannot_be_sent_to_a_role_that_is_dealt(write_tasks: Write, pool: str) -> None:
    path = write_tasks([row(number, pool=pool if number == 3 else "") for number in range(200)])
    with pytest.raises(SetupError, match=f"'t3' has the pool '{pool}'"):
        load_tasks(config(path))


def test_too_few_tasks_says_what_was_asked_and_what_is_there(path: str) -> None:
    with pytest.raises(SetupError) as caught:
        load_tasks(config(path, train=160), fresh=5)
    message = str(caught.value)
    assert "train 160 + select 12 + spare 5 + audit 16 + gold 12 = 205 tasks; available: 200" in message
    assert "too few for train" in message
    assert load_tasks(config(path, train=155), fresh=5).sizes["train"] == 155


@pytest.mark.parametrize("reports", [{"gold": 0}, {"gold": -1}, {"train": 5}, {"audit": 5}, {"": 5}])
def test_empty_and_taken_report_roles_are_refused(path: str, reports: dict[str, int]) -> None:
    with pytest.raises(SetupError, match=r"tasks\.reports"):
        load_tasks(config(path, reports=reports))


def test_duplicates_across_roles_stop_the_load(write_tasks: Write) -> None:
    rows = [row(number, input=f"{body(number // 2)}{'!' * (number % 2)}") for number in range(200)]
    path = write_tasks(rows)
    with pytest.raises(SetupError) as caught:
        load_tasks(config(path))
    message = str(caught.value)
    assert 'tasks.duplicates="drop"' in message
    assert "exact, 0 near" in message
    tasks = load_tasks(config(path, duplicates="drop"))
    assert tasks.dropped == 100
    members = [name for role in ids(tasks).values() for name in role]
    assert all(int(name[1:]) % 2 == 0 for name in members)


def test_near_duplicates_across_roles_stop_the_load(write_tasks: Write) -> None:
    rows = [row(number, input=f"{body(number // 2)}{'xyz' * (number % 2)}") for number in range(200)]
    with pytest.raises(SetupError, match=r"\(0 exact, \d+ near\)"):
        load_tasks(config(write_tasks(rows)))
    assert load_tasks(config(write_tasks(rows), duplicates="drop")).dropped == 100


def test_duplicates_within_one_role_stop_nothing(write_tasks: Write) -> None:
    rows = [row(number) for number in range(200)]
    train = ids(load_tasks(config(write_tasks(rows))))["train"]
    first, second = (int(name[1:]) for name in train[:2])
    rows[second] = rows[second] | {"input": rows[first]["input"]}
    assert ids(load_tasks(config(write_tasks(rows))))["train"] == train


def test_no_sealed_text_or_answer_is_reachable_from_a_task_set(path: str) -> None:
    tasks = load_tasks(config(path), fresh=6)
    sealed = {int(name[1:]) for role in tasks.sealed.values() for name in role.ids}
    unused = set(range(200)) - {int(name[1:]) for members in ids(tasks).values() for name in members}
    assert reached(tasks, [body(number) for number in sealed | unused]) == set()
    assert not {f"answer-{number}" for number in sealed | unused} & reachable_strings(tasks)
    assert len(reached(tasks, [body(number) for number in range(200)])) == 20 + 12 + 6


def test_select_tasks_carry_no_answer(path: str) -> None:
    tasks = load_tasks(config(path), fresh=6)
    assert not {f"answer-{n}" for n in range(200)} & reachable_strings((tasks.select, tasks.spare, tasks.sealed))


def test_grades_open_roles_only(path: str) -> None:
    tasks = load_tasks(config(path), fresh=2)
    for task in (*tasks.train, *tasks.select, *tasks.spare):
        assert tasks.grade(task.id, f"answer-{task.id[1:]}") == 1.0
        assert tasks.grade(task.id, "something else") == 0.0
        assert tasks.grade(task.id, None) == 0.0
    with pytest.raises(TaskError, match="not in train or select"):
        tasks.grade(tasks.sealed["audit"].ids[0], "answer")


def test_an_opened_role_has_bodies_and_grades(path: str) -> None:
    tasks = load_tasks(config(path))
    gold = tasks.open_role("gold")
    assert tuple(task.id for task in gold.tasks) == tasks.sealed["gold"].ids
    first = gold.tasks[0]
    assert first == SealedTask(id=first.id, input=body(int(first.id[1:])), role="gold")
    assert gold.grade(first.id, f"answer-{first.id[1:]}") == 1.0
    with pytest.raises(TaskError, match="not in the role 'gold'"):
        gold.grade(tasks.train[0].id, "x")
    with pytest.raises(SetupError, match="no sealed role 'train'; there is audit, gold"):
        tasks.open_role("train")


@pytest.mark.parametrize("field", ["input", "reference", "family"])
def test_opening_refuses_a_source_that_changed(path: str, write_tasks: Write, field: str) -> None:
    tasks = load_tasks(config(path))
    victim = int(tasks.sealed["audit"].ids[3][1:])
    rows = [row(number) for number in range(200)]
    rows[victim] = rows[victim] | {field: "changed"}
    write_tasks(rows)
    with pytest.raises(TaskError, match=f"1 of 16 audit tasks differ, the first is 't{victim}'"):
        tasks.open_role("audit")
    assert len(tasks.open_role("gold").tasks) == 12


def test_opening_refuses_a_source_that_lost_a_task(path: str, write_tasks: Write) -> None:
    tasks = load_tasks(config(path))
    write_tasks([row(number) for number in range(200) if f"t{number}" != tasks.sealed["audit"].ids[0]])
    with pytest.raises(TaskError, match="1 of 16 audit tasks differ"):
        tasks.open_role("audit")


def test_a_sealed_label_changes_only_the_plan(path: str, write_tasks: Write) -> None:
    before = load_tasks(config(path))
    sealed = {name for role in before.sealed.values() for name in role.ids}
    write_tasks([row(n) | ({"reference": "other"} if f"t{n}" in sealed else {}) for n in range(200)])
    after = load_tasks(config(path))
    assert (before.train, before.select, before.references) == (after.train, after.select, after.references)
    assert before.plan_digest != after.plan_digest


def test_the_configs_grader_wins(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_generous_grader.py").write_text("def grade(answer, reference):\n    return 0.75\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    tasks = load_tasks(config(path, grader="my_generous_grader:grade"))
    assert tasks.grade(tasks.train[0].id, "anything") == 0.75
    assert tasks.open_role("audit").grade(tasks.sealed["audit"].ids[0], "anything") == 0.75


def test_a_task_set_can_be_sent_to_a_worker(path: str) -> None:
    tasks = load_tasks(config(path))
    assert pickle.loads(pickle.dumps(tasks)) == tasks


def test_train_tasks_are_explained_and_no_others(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_telling_grader.py").write_text(
        "class Telling:\n"
        "    def __call__(self, answer, reference):\n        return float(answer == reference)\n"
        "    def explain(self, answer, reference):\n        return f'{answer} is not {reference}'\n"
        "telling = Telling()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    tasks = load_tasks(config(path, grader="my_telling_grader:telling"), fresh=2)
    first = tasks.train[0]
    assert tasks.explain(first.id, "x") == f"x is not {first.reference}"
    assert tasks.explain(first.id, None) == ""
    for name in (tasks.select[0].id, tasks.spare[0].id, tasks.sealed["audit"].ids[0], "unknown"):
        with pytest.raises(TaskError, match="not in train"):
            tasks.explain(name, "x")
    assert load_tasks(config(path)).explain(first.id, "x") == ""


def test_a_source_that_predates_environments_has_none(path: str) -> None:
    assert load_tasks(config(path)).environment is None
