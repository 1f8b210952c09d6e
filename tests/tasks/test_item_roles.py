"""Items that say which roles they may enter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from numbered_rows import body

from heldout.config import TasksConfig
from heldout.errors import SetupError
from heldout.tasks import Division, Item, divide
from heldout.tasks.base import REPORT_ROLES

LETTERS = {"a": ("train", "select"), "b": ("select",), "c": ("audit", REPORT_ROLES)}
"""First letter of an id to the roles of the item."""


def items(*, count: int = 60, roles: bool = True) -> list[Item]:
    return [
        Item(
            id=f"{letter}{number:03d}",
            input=body(1000 * place + number),
            reference="x",
            stratum=f"{letter}{number % 3}",
            roles=allowed if roles else (),
        )
        for place, (letter, allowed) in enumerate(LETTERS.items())
        for number in range(count)
    ]


def config(**changes: Any) -> TasksConfig:
    sizes = {"source": "jsonl", "train": 20, "select": 20, "audit": 30, "reports": {"gold": 10}}
    return TasksConfig.model_validate({**sizes, **changes})


def ids(members: Iterable[Item]) -> list[str]:
    return [item.id for item in members]


def letters(members: Iterable[Item]) -> Counter[str]:
    return Counter(item.id[0] for item in members)


def test_every_item_stands_only_in_roles_that_it_may_enter() -> None:
    for seed in range(6):
        roles = divide(items(), config(seed=seed), fresh=12).roles
        assert set(letters(roles["train"])) == {"a"}
        assert set(letters(roles["select"])) == set(letters(roles["spare"])) == {"a", "b"}
        assert set(letters(roles["audit"])) == set(letters(roles["gold"])) == {"c"}
        everything = [name for members in roles.values() for name in ids(members)]
        assert len(set(everything)) == len(everything) == 92


def test_as_many_items_of_two_kinds_make_a_role_half_and_half() -> None:
    for seed in range(12):
        assert abs(letters(divide(items(), config(seed=seed)).roles["select"])["a"] - 10) <= 2


def test_a_smaller_role_is_the_beginning_of_a_larger_one_among_those_that_may_enter() -> None:
    small, large = (divide(items(), config(select=size)).roles for size in (8, 24))
    assert ids(large["select"])[:8] == ids(small["select"])
    assert all(ids(small[name]) == ids(large[name]) for name in ("train", "audit", "gold"))


def test_train_is_dealt_from_the_back_and_depends_on_no_other_size() -> None:
    roles = divide(items(), config()).roles
    longer = divide(items(), config(train=30, select=5, audit=12, reports={})).roles["train"]
    assert ids(longer)[:20] == ids(roles["train"])
    order = ids(divide(items(), config(train=1, select=59)).roles["select"])
    places = [order.index(name) for name in ids(roles["train"]) if name in order]
    assert places == sorted(places, reverse=True)


def _dealt_before_there_were_roles(division: Division) -> dict[str, list[str]]:
    return {name: ids(members) for name, members in division.roles.items()}


def test_items_without_roles_are_divided_as_if_every_role_were_open_to_them() -> None:
    everywhere = ("train", "select", "spare", "audit", "gold")
    named = [item.model_copy(update={"roles": everywhere}) for item in items(roles=False)]
    plain = divide(items(roles=False), config(), fresh=10)
    assert _dealt_before_there_were_roles(plain) == _dealt_before_there_were_roles(divide(named, config(), fresh=10))
    # Computed before items had roles, with this source and config.
    assert ids(plain.roles["audit"])[:3] == AUDIT
    assert ids(plain.roles["train"])[:3] == TRAIN


AUDIT = ["b042", "b014", "b007"]
TRAIN = ["c013", "a003", "c023"]


def test_a_shortage_says_how_many_may_enter() -> None:
    with pytest.raises(SetupError, match=r"too few for train\n.*available: 180\n.*60 may enter train: the source says"):
        divide(items(), config(train=61))


def test_what_may_not_enter_does_not_fill_a_role() -> None:
    with pytest.raises(
        SetupError, match=r"too few for audit, gold\n(.*\n)*.*40 may enter audit.*\n.*40 may enter gold"
    ):
        divide(items(count=40), config(audit=45))


def test_a_report_role_may_be_named_alone() -> None:
    pool = [*items(), *(_only("gold", number) for number in range(5))]
    roles = divide(pool, config(reports={"gold": 30, "far": 10}, audit=15)).roles
    assert letters(roles["gold"])["g"] > 0
    assert letters(roles["far"])["g"] == letters(roles["audit"])["g"] == 0


def _only(role: str, number: int) -> Item:
    return Item(id=f"g{number}", input=body(5000 + number), reference="x", stratum="g", roles=(role,))


def test_a_role_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SetupError, match="'g1' may only enter 'golden', and there is no such role; there is audit"):
        divide([*items(), _only("golden", 1)], config())


def test_a_pool_and_roles_exclude_each_other() -> None:
    both = Item(id="both", input="both", reference="x", pool="gold", roles=("audit",))
    with pytest.raises(SetupError, match="'both' has both the pool 'gold' and the roles audit"):
        divide([*items(), both], config())


def test_a_group_goes_only_where_all_of_it_may() -> None:
    def grouped(members: Sequence[Item]) -> list[Item]:
        return [item.model_copy(update={"group": f"g{item.id[1:]}"}) for item in members]

    pairs = grouped([item for item in items(count=90) if item.id[0] in "ab"])
    alone = [item.model_copy(update={"group": item.id}) for item in items(count=90) if item.id[0] == "c"]
    trains = [item.model_copy(update={"group": f"t{number // 2}"}) for number, item in enumerate(_trains())]
    roles = divide([*pairs, *alone, *trains], config(split_by="group")).roles
    assert set(letters(roles["train"])) == {"t"}
    assert set(letters(roles["select"])) == {"a", "b"}


def _trains() -> list[Item]:
    return [Item(id=f"t{n:03d}", input=body(6000 + n), reference="x", stratum="t", roles=("train",)) for n in range(40)]
