"""Families that change or add a column: fill, recode, split, join, formula; and running, which is only in `ood`."""

from __future__ import annotations

from typing import Any

from heldout.worlds.tables.families.draw import CLEAN, Columns, Draw, Operation
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.plan import Call, Choice
from heldout.worlds.tables.toolbox.table import Cell, Table

__all__ = ["fill", "formula", "join", "recode", "running", "split"]

_UNKNOWN = ("unknown", "nobody knows", "to be asked", "open")
_OTHER = ("rest", "other", "all else", "various")


def fill(draw: Draw) -> Operation:
    """Gaps take the value of the nearest row above or below."""
    up = draw.flip()
    side, away = ("below", "under") if up else ("above", "over")

    def gapped(count: int) -> list[Cell]:
        values = draw.words(count, draw.theme.values)
        for place in draw.places(3, range(1, count - 1)):
            values[place] = None
        return values

    def columns(count: int) -> Columns:
        pair, values = draw.theme.key, gapped(count)
        blanks = [place for place, value in enumerate(values) if value is None]
        if draw.untidy:
            values[blanks[0]] = "  "
        return {pair.header: values, pair.lookalike: gapped(count), draw.theme.amount.header: draw.numbers(count)}

    def call(role: Choice, into: Any) -> Call:
        options = {"column": role, "upwards": Choice(Part.OPERATION, up, not up), "clean": CLEAN, "into": into}
        return Call("fill_gaps", options, gives="result")

    return Operation(
        draw.theme.key,
        call,
        columns,
        {"side": side, "away": away},
        place="same",
        into="may",
        steps=2,
    )


def recode(draw: Draw) -> Operation:
    """Values replaced by a list."""
    listed, stays, other = draw.rng.sample(draw.theme.values, 3), draw.flip(), draw.rng.choice(_OTHER)
    letter = draw.rng.choice("KQXZ")
    codes = {value: f"{letter}{place}" for place, value in enumerate(listed, start=draw.number(1, 6))}
    told = ", ".join(f"{value} → {code}" for value, code in codes.items())
    rule = "any other value remains what it is" if stays else f"any other value turns into “{other}”"

    def columns(count: int) -> Columns:
        pair, values = draw.theme.key, draw.words(count, draw.theme.values)
        a, b = draw.places(2, range(count))
        values[a] = draw.rng.choice(listed)
        values[b] = draw.rng.choice([value for value in draw.theme.values if value not in listed])
        kinds = draw.words(count, draw.theme.values)
        return {
            pair.header: draw.spelled(values, first=a),
            pair.lookalike: kinds,
            draw.theme.amount.header: draw.numbers(count),
        }

    def call(role: Choice, into: Any) -> Call:
        rest = Choice(Part.OPERATION, None if stays else other, other if stays else None)
        return Call(
            "recode", {"column": role, "codes": codes, "other": rest, "clean": CLEAN, "into": into}, gives="result"
        )

    return Operation(
        draw.theme.key,
        call,
        columns,
        {"told": told, "rule": rule},
        place="same",
        into="may",
        steps=2,
    )


def split(draw: Draw) -> Operation:
    """Names divided at the first or the last blank."""
    last = draw.flip()
    rule = "the last word of a name" if last else "all that follows the first word of a name"

    def columns(count: int) -> Columns:
        pair = draw.theme.person
        return {
            pair.header: draw.spelled(draw.words(count, draw.theme.people), case=False),
            pair.lookalike: draw.words(count, draw.theme.people),
            draw.theme.kind: draw.words(count, draw.theme.kinds),
        }

    def call(role: Choice, into: Any) -> Call:
        options = {"column": role, "into": into, "last": Choice(Part.OPERATION, last, not last), "clean": CLEAN}
        return Call("split_last", options, gives="result")

    return Operation(
        draw.theme.person,
        call,
        columns,
        {"rule": rule},
        place="same",
        into="always",
        where="directly to the right of the old one",
        steps=2,
    )


def join(draw: Draw) -> Operation:
    """A further column from a second table."""
    name, by, take = draw.theme.lookup
    known, missing, stays = draw.theme.values[:-1], draw.rng.choice(_UNKNOWN), draw.flip()
    rule = f"get “{missing}”" if stays else "are taken out"

    def columns(count: int) -> Columns:
        pair, values = draw.theme.key, draw.words(count, known)
        a, b = draw.places(2, range(count))
        values[a] = draw.theme.values[-1]
        return {
            pair.header: draw.spelled(values, first=b),
            pair.lookalike: draw.words(count, draw.theme.values),
            draw.theme.amount.header: draw.numbers(count),
        }

    def second(table: Table) -> Table:
        del table
        zones = (*draw.theme.zones, draw.rng.choice(draw.theme.zones))
        rows = list(zip(known, draw.rng.sample(zones, len(known)), strict=True))
        draw.rng.shuffle(rows)
        return Table((by, take), tuple(rows))

    def call(role: Choice, into: Any) -> Call:
        rest = Choice(Part.OPERATION, missing if stays else None, None if stays else missing)
        options = {"column": role, "missing": rest, "into": into, "clean": CLEAN}
        return Call("attach", options, on=("rows", "other"), gives="result")

    return Operation(
        draw.theme.key,
        call,
        columns,
        {"name": name, "take": take, "rule": rule},
        place="any",
        into="may",
        plain_header=take,
        end="last",
        second=second,
        steps=4,
    )


def formula(draw: Draw) -> Operation:
    """A column of live formulas."""
    limit, factor, inclusive = draw.number(35, 70), draw.number(2, 5), draw.flip()
    bound = f"{limit} or more" if inclusive else f"more than {limit}"
    slip = draw.number(1, 5)

    def columns(count: int) -> Columns:
        pair, values = draw.theme.amount, draw.numbers(count)
        values[draw.number(0, count - 1)] = limit
        return {
            pair.header: values,
            pair.lookalike: draw.numbers(count),
            draw.theme.key.header: draw.words(count, draw.theme.values),
        }

    def call(role: Choice, into: Any) -> Call:
        options = {
            "column": role,
            "limit": limit,
            "factor": factor,
            "inclusive": Choice(Part.OPERATION, inclusive, not inclusive),
            "into": into,
            "slip": Choice(Part.STEPS, None, slip),
        }
        return Call("add_formula", options, gives="result")

    return Operation(
        draw.theme.amount,
        call,
        columns,
        {"factor": str(factor), "bound": bound},
        place="same",
        into="always",
        untidy=False,
        workbook=True,
        slips=False,
        steps=3,
    )


def running(draw: Draw) -> Operation:
    """A running total for each key."""
    amount, inclusive = draw.theme.amount.header, draw.flip()
    rule = "the row itself included" if inclusive else "not counting the row itself, so that it begins with 0"

    def columns(count: int) -> Columns:
        pair = draw.theme.key
        return {
            pair.header: draw.words(count, draw.theme.values[:3]),
            pair.lookalike: draw.words(count, draw.theme.values[:3]),
            amount: draw.as_text(draw.numbers(count), first=0),
        }

    def call(role: Choice, into: Any) -> Call:
        options = {
            "by": role,
            "amount": amount,
            "into": into,
            "inclusive": Choice(Part.OPERATION, inclusive, not inclusive),
            "clean": CLEAN,
        }
        return Call("add_running_total", options, gives="result")

    return Operation(
        draw.theme.key,
        call,
        columns,
        {"amount": amount, "rule": rule},
        place="same",
        into="always",
        steps=3,
    )
