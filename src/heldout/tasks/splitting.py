"""The division of items into roles: a pure function of the items and the config.

Sealed roles are dealt first (audit, then reports), then select, then spare, from the front of one
seeded order; train is dealt from its back. So the sealed roles do not depend on the sizes of select
and train, train depends on no other size, and a smaller role is the beginning of a larger one. Items
that say which roles they may enter (`Item.roles`) keep their place in the order, and other roles
pass over them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heldout.config import TasksConfig
from heldout.errors import SetupError
from heldout.tasks.base import REPORT_ROLES, Item
from heldout.tasks.duplicates import DuplicatePair, clusters, find_duplicates

__all__ = ["RESERVED_ROLES", "Division", "divide"]

RESERVED_ROLES = ("train", "select", "spare", "audit")
"""Names that a report role may not have."""

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Division:
    """Items by role. `spare` is there when it was asked for; every other role is never empty."""

    roles: Mapping[str, tuple[Item, ...]]
    dropped: int
    """Items left out because another of their duplicate cluster was kept."""


def divide(items: Sequence[Item], config: TasksConfig, *, fresh: int = 0) -> Division:
    """Deal `items` into roles; `fresh` is the size of `spare`, further select tasks for confirmation.

    `SetupError` where there are too few items, or where duplicates would stand in two roles and
    `duplicates` is `stop`.
    """
    _check_report_names(config)
    _check_pool_names(items)
    _check_role_names(items, config)
    kept = _without_copies(items) if config.duplicates == "drop" else tuple(items)
    roles = _deal(kept, config, fresh=fresh)
    if config.duplicates == "stop":
        _refuse_shared_texts(roles)
    return Division(roles, dropped=len(items) - len(kept))


def _check_report_names(config: TasksConfig) -> None:
    for name, size in config.reports.items():
        if not name or name in RESERVED_ROLES:
            raise SetupError(f"tasks.reports.{name}: the name is taken; set tasks.{name}, or choose another name")
        if size < 1:
            raise SetupError(f"tasks.reports.{name} = {size}: an empty role reports nothing; ask for at least 1 task")


def _check_pool_names(items: Sequence[Item]) -> None:
    """A pool is a report role of its own; rows that ask for `audit` would go nowhere."""
    wrong = next((item for item in items if item.pool in RESERVED_ROLES), None)
    if wrong is not None:
        raise SetupError(
            f"task {wrong.id!r} has the pool {wrong.pool!r}, but {', '.join(RESERVED_ROLES)} are dealt by seed; "
            "a pool names a report role (tasks.reports), and most tasks have none"
        )


def _check_role_names(items: Sequence[Item], config: TasksConfig) -> None:
    known = {*RESERVED_ROLES, REPORT_ROLES, *config.reports}
    for item in items:
        if item.roles and item.pool:
            raise SetupError(
                f"task {item.id!r} has both the pool {item.pool!r} and the roles {', '.join(item.roles)}; a task of a "
                "pool enters the report role of that name and no other"
            )
        if item.roles and not known.intersection(item.roles):
            raise SetupError(
                f"task {item.id!r} may only enter {', '.join(map(repr, item.roles))}, and there is no such role; there "
                f"is {', '.join(sorted(known))}"
            )


def _may_enter(item: Item, role: str) -> bool:
    """Whether a task may stand in a role; `spare` holds further select tasks."""
    wanted = {role, "select"} if role == "spare" else {role} if role in RESERVED_ROLES else {role, REPORT_ROLES}
    return not item.roles or not wanted.isdisjoint(item.roles)


def _deal(items: Sequence[Item], config: TasksConfig, *, fresh: int) -> dict[str, tuple[Item, ...]]:
    pools = {item.pool for item in items}
    deck = _Deck(_in_order([item for item in items if not item.pool], config))
    roles = {"audit": deck.front("audit", config.audit)}
    for name, size in sorted(config.reports.items()):
        source = _Deck(_in_order([item for item in items if item.pool == name], config)) if name in pools else deck
        roles[name] = source.front(name, size)
    roles["select"] = deck.front("select", config.select)
    if fresh:
        roles["spare"] = deck.front("spare", fresh)
    roles["train"] = deck.back("train", config.train)
    _refuse_shortage(roles, items, config, fresh=fresh)
    return roles


@dataclass(slots=True)
class _Deck:
    """Units (single items, or whole groups) that are dealt once. A unit that was begun goes to no other role, and a
    group goes only where all of its items may."""

    units: list[tuple[Item, ...]]

    def front(self, role: str, size: int) -> tuple[Item, ...]:
        return self._deal(role, size, self.units)

    def back(self, role: str, size: int) -> tuple[Item, ...]:
        return self._deal(role, size, self.units[::-1])

    def _deal(self, role: str, size: int, ordered: Sequence[tuple[Item, ...]]) -> tuple[Item, ...]:
        taken: list[Item] = []
        begun: set[str] = set()
        for unit in ordered:
            if len(taken) >= size:
                break
            if all(_may_enter(item, role) for item in unit):
                taken.extend(unit)
                begun.add(unit[0].id)
        self.units = [unit for unit in self.units if unit[0].id not in begun]
        return tuple(taken[:size])


def _in_order(items: Sequence[Item], config: TasksConfig) -> list[tuple[Item, ...]]:
    """Systematic sampling with a random start in each stratum: any stretch has nearly the mix of the whole.

    Item j of the m in a stratum stands at (j + u) / m, u uniform for the stratum. Every item has the
    same chance to enter a role, rare strata included, and stretches are nested. (The largest-remainder
    rule gives neither: it leaves out rare strata, and a larger role may hold fewer of a stratum.)
    """
    units = sorted(_units(items, config), key=lambda unit: _draw(config.seed, "unit", unit[0].id))
    strata: dict[str, list[tuple[Item, ...]]] = {}
    for unit in units:
        strata.setdefault(_stratum(unit) if config.stratify else "", []).append(unit)
    placed: list[tuple[float, str, tuple[Item, ...]]] = []
    for name, members in strata.items():
        total = sum(map(len, members))
        start = _draw(config.seed, "stratum", name)
        before = 0
        for unit in members:
            placed.append(((before + start * len(unit)) / total, name, unit))
            before += len(unit)
    return [unit for _, _, unit in sorted(placed, key=lambda entry: entry[:2])]


def _units(items: Sequence[Item], config: TasksConfig) -> list[tuple[Item, ...]]:
    if config.split_by == "text":
        return [(item,) for item in items]
    if items and not any(item.group for item in items):
        raise SetupError(f"tasks.split_by = 'group', but the tasks of {config.source!r} have no group")
    groups: dict[tuple[str, str], list[Item]] = {}
    for item in sorted(items, key=lambda item: _draw(config.seed, "item", item.id)):
        groups.setdefault((item.group, "" if item.group else item.id), []).append(item)
    return [tuple(group) for group in groups.values()]


def _stratum(unit: Sequence[Item]) -> str:
    """The commonest stratum of a unit; the first by name among equals."""
    counts = Counter(item.stratum for item in unit)
    return min(counts, key=lambda name: (-counts[name], name))


def _draw(seed: int, *words: str) -> float:
    """A uniform number in [0, 1) that depends on nothing but its arguments (nor on a numpy version)."""
    digest = hashlib.sha256("\n".join((str(seed), *words)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _refuse_shortage(
    roles: Mapping[str, Sequence[Item]], items: Sequence[Item], config: TasksConfig, *, fresh: int
) -> None:
    asked = {"train": config.train, "select": config.select, "spare": fresh, "audit": config.audit, **config.reports}
    short = [name for name, size in asked.items() if len(roles.get(name, ())) < size]
    if not short:
        return
    pools = Counter(item.pool for item in items)
    shared = {name: size for name, size in asked.items() if size and name not in pools}
    sizes = " + ".join(f"{name} {size}" for name, size in shared.items())
    lines = [
        f"the tasks of {config.source!r} are too few for {', '.join(short)}",
        f"asked for: {sizes} = {sum(shared.values())} tasks; available: {pools['']}",
        *(
            f"pool {name!r}: asked for {size}, available {pools[name]}"
            for name, size in sorted(config.reports.items())
            if name in pools
        ),
    ]
    if any(item.roles for item in items):
        lines += [
            f"of those available, {len(_eligible(items, name))} may enter {name}: the source says where they may go"
            for name in short
            if name not in pools
        ]
    if config.split_by == "group":
        lines.append("groups are never divided between roles, so what remains of a group is lost to the others")
    raise SetupError("\n  ".join([*lines, "lower tasks.audit, tasks.reports, tasks.select or tasks.train"]))


def _eligible(items: Sequence[Item], role: str) -> list[Item]:
    return [item for item in items if not item.pool and _may_enter(item, role)]


def _without_copies(items: Sequence[Item]) -> tuple[Item, ...]:
    """The first item of every duplicate cluster, in the order of the source."""
    place = {item.id: index for index, item in enumerate(items)}
    copies: set[str] = set()
    for cluster in clusters(find_duplicates(items)):
        copies.update(sorted(cluster, key=place.__getitem__)[1:])
    return tuple(item for item in items if item.id not in copies)


def _refuse_shared_texts(roles: Mapping[str, Sequence[Item]]) -> None:
    role_of = {item.id: role for role, members in roles.items() for item in members}
    text_of = {item.id: item.input for members in roles.values() for item in members}
    everything = [item for members in roles.values() for item in members]
    crossing = [pair for pair in find_duplicates(everything) if role_of[pair.a] != role_of[pair.b]]
    if not crossing:
        return
    exact = sum(pair.exact for pair in crossing)
    lines = [
        f"{len(crossing)} pairs of tasks with the same or nearly the same text would stand in two roles "
        f"({exact} exact, {len(crossing) - exact} near)",
        *(_example(pair, role_of, text_of) for pair in crossing[:_EXAMPLES]),
        'set tasks.duplicates="drop" to keep one task of each cluster, or remove them from the source',
    ]
    raise SetupError("\n  ".join(lines))


def _example(pair: DuplicatePair, role_of: Mapping[str, str], text_of: Mapping[str, str]) -> str:
    ends: Iterable[str] = (
        f"{role_of[name]} {name!r} {' '.join(text_of[name].split())[:60]!r}" for name in (pair.a, pair.b)
    )
    return f"{' ~ '.join(ends)} ({pair.similarity:.2f})"
