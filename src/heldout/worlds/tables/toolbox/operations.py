"""What can be done with a table. Every operation gives a new table; `clean` says whether values are understood (numbers
that are stored as text, keys in another spelling) or taken exactly as they are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cmp_to_key

from heldout.worlds.tables.toolbox.table import Cell, Formula, Table, is_gap, number_of, word_of

__all__ = [
    "add_formula",
    "add_running_total",
    "attach",
    "differing",
    "distinct",
    "fill_gaps",
    "keep_from",
    "largest",
    "lose_row",
    "misread_cell",
    "recode",
    "rename",
    "sort_by",
    "split_last",
    "stack",
    "total_by",
    "total_grid",
]


def keep_from(table: Table, *, column: str, limit: int, inclusive: bool, up: bool, clean: bool) -> Table:
    """The rows whose number reaches `limit` upwards or downwards; the limit itself counts where `inclusive`."""

    def keeps(number: int) -> bool:
        value = number_of(table.rows[number][place], clean=clean)
        if value is None:
            return False
        return (inclusive and value == limit) or (value > limit if up else value < limit)

    place = table.place(column)
    return table.where(keeps)


def largest(table: Table, *, column: str, count: int, ties: bool, clean: bool) -> Table:
    """The rows with the largest numbers, where they stand; with `ties` also those as large as the last of them."""
    values = [number_of(value, clean=clean) for value in table.column(column)]
    ranked = sorted((number for number, value in enumerate(values) if value is not None), key=lambda n: -_at(values, n))
    kept = set(ranked[:count])
    if ties and kept:
        least = min(_at(values, number) for number in kept)
        kept.update(number for number in ranked if _at(values, number) == least)
    return table.where(kept.__contains__)


def _at(values: Sequence[int | float | None], number: int) -> int | float:
    value = values[number]
    return 0 if value is None else value


def distinct(table: Table, *, column: str, last: bool, clean: bool) -> Table:
    """One row of each key, the first or the last one."""
    keys = [word_of(value, clean=clean) for value in table.column(column)]
    order = range(len(keys)) if last else range(len(keys) - 1, -1, -1)
    chosen = {keys[number]: number for number in order}
    return table.where(set(chosen.values()).__contains__)


def sort_by(table: Table, *, column: str, descending: bool, ties: str | None = None, clean: bool) -> Table:
    """The rows in the order of a number; equal ones in the order of the words in `ties`, or as they stood. What is no
    number comes last."""
    place = table.place(column)
    second = None if ties is None else table.place(ties)

    def before(a: tuple[Cell, ...], b: tuple[Cell, ...]) -> int:
        x, y = (number_of(row[place], clean=clean) for row in (a, b))
        if x is None or y is None:
            return (x is None) - (y is None)
        if x != y:
            return -1 if (x > y) == descending else 1
        if second is None:
            return 0
        v, w = word_of(a[second], clean=True), word_of(b[second], clean=True)
        return (v > w) - (v < w)

    return Table(table.headers, tuple(sorted(table.rows, key=cmp_to_key(before))))


def fill_gaps(table: Table, *, column: str, upwards: bool, clean: bool, into: str | None = None) -> Table:
    """Gaps of a column take the value of the nearest row above that has one, or below where `upwards`."""
    values = table.column(column)
    order = range(len(values) - 1, -1, -1) if upwards else range(len(values))
    last: Cell = None
    for number in order:
        if is_gap(values[number], clean=clean):
            values[number] = last
        else:
            last = values[number]
    return _placed(table, column, values, into)


def recode(
    table: Table,
    *,
    column: str,
    codes: Mapping[str, str],
    other: str | None = None,
    clean: bool,
    into: str | None = None,
) -> Table:
    """Values of a column replaced by a list; what is not listed becomes `other`, or stays where that is None."""
    listed = {word_of(key, clean=clean): value for key, value in codes.items()}
    values = [
        listed.get(word_of(value, clean=clean), value if other is None else other) for value in table.column(column)
    ]
    return _placed(table, column, values, into)


def split_last(table: Table, *, column: str, into: str, last: bool, clean: bool) -> Table:
    """Words of a column divided at the last blank, or at the first; what follows it goes into a new column beside."""
    heads: list[Cell] = []
    tails: list[Cell] = []
    for value in table.column(column):
        text = "" if value is None else str(value)
        text = text.strip() if clean else text
        head, _, tail = text.rpartition(" ") if last else text.partition(" ")
        heads.append(head or None)
        tails.append(tail or None)
    return table.changed(column, heads).widened(into, tails, after=column)


def _placed(table: Table, column: str, values: Sequence[Cell], into: str | None) -> Table:
    return table.changed(column, values) if into is None else table.widened(into, values)


def attach(table: Table, other: Table, *, column: str, into: str, clean: bool, missing: str | None = None) -> Table:
    """A further column with what the second column of another table says of each row's key, which stands in its first;
    rows whose key is not there get `missing`, or go where that is None."""
    by, take = other.headers
    found = dict(zip((word_of(key, clean=clean) for key in other.column(by)), other.column(take), strict=True))
    keys = [word_of(value, clean=clean) for value in table.column(column)]
    wide = table.widened(into, [found.get(key, missing) for key in keys])
    return wide if missing is not None else wide.where(lambda number: keys[number] in found)


def differing(table: Table, other: Table, *, column: str, by: str, missing: bool, clean: bool) -> Table:
    """The rows whose number is not the one that another table has beside the same code; with `missing` also those whose
    code is not there."""
    told = dict(zip(other.column(by), other.column(other.headers[1]), strict=True))

    def differs(number: int) -> bool:
        code, value = table.rows[number][codes], table.rows[number][place]
        if code not in told:
            return missing
        a, b = number_of(value, clean=clean), number_of(told[code], clean=clean)
        return value != told[code] if a is None or b is None else a != b

    codes, place = table.place(by), table.place(column)
    return table.where(differs)


def total_by(table: Table, *, by: str, amount: str, blank: str | None = None, clean: bool) -> Table:
    """The sum of a column for each key, in the order in which keys first come; rows without a key count for `blank`, or
    not at all where that is None."""
    totals: dict[Cell, int | float] = {}
    for key, value in zip(table.column(by), table.column(amount), strict=True):
        name = blank if key is None else key
        if name is not None:
            totals[name] = totals.get(name, 0) + (number_of(value, clean=clean) or 0)
    return Table((by, amount), tuple(totals.items()))


def total_grid(table: Table, *, down: str, across: str, amount: str, empty: int | None = None, clean: bool) -> Table:
    """Sums of a column, a row for each key and a column for each value of another one, both in the order in which they
    first come; `empty` where there is nothing to add up."""
    sums: dict[tuple[Cell, Cell], int | float] = {}
    for key, kind, value in zip(table.column(down), table.column(across), table.column(amount), strict=True):
        sums[key, kind] = sums.get((key, kind), 0) + (number_of(value, clean=clean) or 0)
    keys, kinds = (list(dict.fromkeys(table.column(header))) for header in (down, across))
    rows = tuple((key, *(sums.get((key, kind), empty) for kind in kinds)) for key in keys)
    return Table((down, *(str(kind) for kind in kinds)), rows)


def stack(
    table: Table, *, carry: str, columns: Sequence[str], headers: tuple[str, str], gaps: bool, clean: bool
) -> Table:
    """Some columns as rows: what is carried along, the header, and the value. Empty cells give a row where `gaps`."""
    rows: list[tuple[Cell, ...]] = []
    for number, row in enumerate(table.rows):
        for header in columns:
            value = row[table.place(header)]
            if not gaps and is_gap(value, clean=True):
                continue
            known = number_of(value, clean=clean)
            rows.append((table.column(carry)[number], header, value if known is None else known))
    return Table((carry, *headers), tuple(rows))


def add_running_total(table: Table, *, by: str, amount: str, into: str, inclusive: bool, clean: bool) -> Table:
    """A further column with the sum so far of each key, the row itself included or not."""
    sums: dict[Cell, int | float] = {}
    told: list[Cell] = []
    for key, value in zip(table.column(by), table.column(amount), strict=True):
        before = sums.get(key, 0)
        sums[key] = before + (number_of(value, clean=clean) or 0)
        told.append(sums[key] if inclusive else before)
    return table.widened(into, told)


def add_formula(
    table: Table,
    *,
    column: str,
    limit: int,
    factor: int,
    inclusive: bool,
    into: str,
    slip: int | None = None,
) -> Table:
    """A further column of live formulas: the number of a column, times `factor` where it reaches `limit`. The table
    begins in the first row of its sheet; the formula of the row `slip` looks at the row before it."""
    values = [number_of(value, clean=True) or 0 for value in table.column(column)]
    letter, sign = chr(ord("A") + table.place(column)), ">=" if inclusive else ">"
    told: list[Cell] = []
    for number in range(len(values)):
        seen = number - 1 if number == slip else number
        value, cell = values[seen], f"{letter}{seen + 2}"
        reached = value > limit or (inclusive and value == limit)
        told.append(Formula(f"=IF({cell}{sign}{limit},{cell}*{factor},{cell})", value * factor if reached else value))
    return table.widened(into, told)


def rename(table: Table, *, column: int, to: str) -> Table:
    """Another header for a column, which is counted from 0, or from the end where negative."""
    headers = list(table.headers)
    headers[column] = to
    return Table(tuple(headers), table.rows)


def lose_row(table: Table, *, row: int) -> Table:
    """A slip: one row is not there."""
    lost = row % max(1, len(table.rows))
    return table.where(lambda number: number != lost)


def misread_cell(table: Table, *, row: int, column: int) -> Table:
    """A slip: one value is off, a number by 1, a word by a letter."""
    changed = [list(line) for line in table.rows]
    if changed:
        line = changed[row % len(changed)]
        value = line[column]
        line[column] = value + 1 if isinstance(value, int | float) else f"{_word(value)}e"
    return Table(table.headers, tuple(map(tuple, changed)))


def _word(value: Cell) -> str:
    return "" if value is None or isinstance(value, Formula) else str(value)
