"""Families that make another table: aggregate, pivot, unpivot."""

from __future__ import annotations

from heldout.worlds.tables.families.draw import CLEAN, Columns, Draw, Operation
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.plan import Call, Choice

__all__ = ["aggregate", "pivot", "unpivot"]

_NAMELESS = ("none", "not given", "nowhere", "left open")


def aggregate(draw: Draw) -> Operation:
    """A sum for each key."""
    amount, blank, counted = draw.theme.amount.header, draw.rng.choice(_NAMELESS), draw.flip()
    rule = f"rows in which it is missing count for “{blank}”" if counted else "rows in which it is missing do not count"

    def columns(count: int) -> Columns:
        pair, values = draw.theme.key, draw.words(count, draw.theme.values[:4])
        values[draw.number(1, count - 1)] = None
        return {
            pair.header: values,
            pair.lookalike: draw.words(count, draw.theme.values[:4]),
            amount: draw.as_text(draw.numbers(count)),
        }

    def call(role: Choice, _into: object) -> Call:
        options = {
            "by": role,
            "amount": amount,
            "blank": Choice(Part.OPERATION, blank if counted else None, None if counted else blank),
            "clean": CLEAN,
        }
        return Call("total_by", options, gives="result")

    return Operation(
        draw.theme.key,
        call,
        columns,
        {"amount": amount, "rule": rule},
        place="new",
        end="last",
        steps=3,
    )


def pivot(draw: Draw) -> Operation:
    """Sums, rows by columns."""
    amount, kind, zero = draw.theme.amount.header, draw.theme.kind, draw.flip()
    rule = "a 0 stands where there is nothing" if zero else "a cell with nothing to add up is empty"

    def columns(count: int) -> Columns:
        pair, values = draw.theme.key, draw.words(count, draw.theme.values[:4])
        return {
            pair.header: values,
            pair.lookalike: draw.words(count, draw.theme.values[:4]),
            kind: draw.words(count, draw.theme.kinds),
            amount: draw.as_text(draw.numbers(count)),
        }

    def call(role: Choice, _into: object) -> Call:
        options = {
            "down": role,
            "across": kind,
            "amount": amount,
            "empty": Choice(Part.OPERATION, 0 if zero else None, None if zero else 0),
            "clean": CLEAN,
        }
        return Call("total_grid", options, gives="result")

    return Operation(
        draw.theme.key,
        call,
        columns,
        {"amount": amount, "across": kind, "rule": rule},
        place="new",
        steps=4,
    )


def unpivot(draw: Draw) -> Operation:
    """Two columns as rows."""
    pair, headers, gaps = draw.theme.amount, draw.theme.stacked, draw.flip()
    a, b = pair.header, pair.lookalike
    rule = "an empty cell makes a row, too" if gaps else "an empty cell makes no row"

    def columns(count: int) -> Columns:
        key, values = draw.theme.key, draw.numbers(count)
        values[draw.number(0, count - 1)] = None
        return {
            key.header: draw.words(count, draw.theme.values),
            key.lookalike: draw.words(count, draw.theme.values),
            a: draw.as_text(values),
            b: draw.numbers(count),
        }

    def call(role: Choice, _into: object) -> Call:
        options = {
            "carry": role,
            "columns": [a, b],
            "headers": headers,
            "gaps": Choice(Part.OPERATION, gaps, not gaps),
            "clean": CLEAN,
        }
        return Call("stack", options, gives="result")

    told = f"“{headers[0]}” and “{headers[1]}”"
    return Operation(
        draw.theme.key,
        call,
        columns,
        {"told": told, "rule": rule, "upper": a, "lower": b},
        place="new",
        steps=3,
    )
