"""Families that choose rows: filter, deduplicate, top, sort; and reconcile, which is only in `ood`."""

from __future__ import annotations

from heldout.worlds.tables.families.draw import CLEAN, Columns, Draw, Operation
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.plan import Call, Choice
from heldout.worlds.tables.toolbox.table import Cell, Table, number_of

__all__ = ["deduplicate", "keep", "reconcile", "sort", "top"]


def keep(draw: Draw) -> Operation:
    """Keep the rows whose number reaches a limit."""
    limit, up, inclusive = draw.number(35, 70), draw.flip(), draw.flip()
    bound = {
        (True, True): f"at least {limit}",
        (True, False): f"more than {limit}",
        (False, True): f"at most {limit}",
        (False, False): f"less than {limit}",
    }[up, inclusive]

    def columns(count: int) -> Columns:
        values = draw.numbers(count)
        at, beyond = draw.places(2, range(count))
        values[at], values[beyond] = limit, limit + (9 if up else -9)
        pair = draw.theme.amount
        return {pair.header: draw.as_text(values, first=beyond), pair.lookalike: draw.numbers(count)}

    def call(role: Choice, _into: object) -> Call:
        edge = Choice(Part.OPERATION, inclusive, not inclusive)
        return Call(
            "keep_from", {"column": role, "limit": limit, "inclusive": edge, "up": up, "clean": CLEAN}, gives="result"
        )

    return Operation(
        draw.theme.amount,
        call,
        columns,
        {"bound": bound},
        place="any",
        steps=2,
    )


def deduplicate(draw: Draw) -> Operation:
    """One row of each person."""
    last = draw.flip()
    one, others = ("last", "earlier") if last else ("first", "later")

    def columns(count: int) -> Columns:
        pair, few = draw.theme.person, draw.theme.people[: max(3, count // 2)]
        values = draw.words(count, few)
        a, b = sorted(draw.places(2, range(count)))
        values[b] = values[a]
        return {
            pair.header: draw.spelled(values, first=b if draw.flip() else a),
            pair.lookalike: draw.words(count, draw.theme.people),
            draw.theme.amount.header: draw.numbers(count),
        }

    def call(role: Choice, _into: object) -> Call:
        return Call(
            "distinct",
            {"column": role, "last": Choice(Part.OPERATION, last, not last), "clean": CLEAN},
            gives="result",
        )

    return Operation(
        draw.theme.person,
        call,
        columns,
        {"one": one, "others": others},
        place="any",
        steps=2,
    )


def top(draw: Draw) -> Operation:
    """The rows with the largest numbers."""
    wanted, ties = draw.number(3, 4), draw.flip()
    rule = (
        "those as large as the last of them stay as well"
        if ties
        else "of equally large ones, the upper rows are preferred, so that it is exactly that many"
    )

    def columns(count: int) -> Columns:
        pair, values = draw.theme.amount, draw.numbers(count)
        ranked = sorted(range(count), key=lambda place: -_plain(values[place]))
        values[ranked[wanted]] = values[ranked[wanted - 1]]
        return {pair.header: draw.as_text(values, first=ranked[0]), pair.lookalike: draw.numbers(count)}

    def call(role: Choice, _into: object) -> Call:
        both = Choice(Part.OPERATION, ties, not ties)
        return Call("largest", {"column": role, "count": wanted, "ties": both, "clean": CLEAN}, gives="result")

    return Operation(
        draw.theme.amount,
        call,
        columns,
        {"wanted": str(wanted), "rule": rule},
        place="any",
        steps=3,
    )


def sort(draw: Draw) -> Operation:
    """The rows in the order of a number, and of the code among equals."""
    falling, code = draw.flip(), draw.theme.code
    first = "largest" if falling else "smallest"

    def columns(count: int) -> Columns:
        pair, values = draw.theme.amount, draw.numbers(count)
        for a, b in (draw.places(2, range(count)), draw.places(2, range(count))):
            values[b] = values[a]
        return {
            pair.header: draw.as_text(values),
            pair.lookalike: draw.numbers(count),
            draw.theme.person.header: draw.words(count, draw.theme.people),
        }

    def call(role: Choice, _into: object) -> Call:
        options = {
            "column": role,
            "descending": falling,
            "ties": Choice(Part.OPERATION, code, None),
            "clean": CLEAN,
        }
        return Call("sort_by", options, gives="result")

    return Operation(
        draw.theme.amount,
        call,
        columns,
        {"code": code, "begins": first},
        place="any",
        steps=2,
    )


def reconcile(draw: Draw) -> Operation:
    """The rows whose number is not the one of a check list."""
    missing, theme = draw.flip(), draw.theme
    name, code, checked = theme.lookup[0], theme.code, theme.stacked[1]
    rule = "count as different" if missing else "are of no interest"

    def columns(count: int) -> Columns:
        pair = theme.amount
        return {pair.header: draw.as_text(draw.numbers(count)), pair.lookalike: draw.numbers(count)}

    def second(table: Table) -> Table:
        told = [number_of(value, clean=True) for value in table.column(theme.amount.header)]
        off = draw.places(3, range(len(told)))
        for place in off[:2]:
            told[place] = (told[place] or 0) + draw.number(1, 6)
        rows: list[tuple[Cell, ...]] = [
            (code, value)
            for place, (code, value) in enumerate(zip(table.column(code), told, strict=True))
            if place != off[2]
        ]
        draw.rng.shuffle(rows)
        return Table((code, checked), tuple(rows))

    def call(role: Choice, _into: object) -> Call:
        options = {"column": role, "by": code, "missing": Choice(Part.OPERATION, missing, not missing), "clean": CLEAN}
        return Call("differing", options, on=("rows", "other"), gives="result")

    return Operation(
        theme.amount,
        call,
        columns,
        {"name": name, "code": code, "checked": checked, "rule": rule},
        place="any",
        second=second,
        steps=4,
    )


def _plain(value: Cell) -> int | float:
    return number_of(value, clean=True) or 0
