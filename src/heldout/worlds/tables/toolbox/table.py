"""A table in memory, and how its values are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Cell", "Formula", "Table", "is_gap", "number_of", "word_of"]

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Formula:
    """A live formula, and the value that it has; two formulas of the same value are the same."""

    text: str = field(compare=False)
    value: int | float


Cell = int | float | str | Formula | None
"""What stands in a cell; None where it is empty."""


@dataclass(frozen=True)
class Table:
    """Headers, and rows as long as they."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def column(self, header: str) -> list[Cell]:
        """The values of a column, from above."""
        place = self.place(header)
        return [row[place] for row in self.rows]

    def place(self, header: str) -> int:
        """Where a column stands, from 0."""
        return self.headers.index(header)

    def where(self, keep: Callable[[int], bool]) -> Table:
        """The rows whose number, from 0, is to be kept."""
        return Table(self.headers, tuple(row for number, row in enumerate(self.rows) if keep(number)))

    def changed(self, header: str, values: Sequence[Cell]) -> Table:
        """The table with other values in one column."""
        place = self.place(header)
        pairs = zip(self.rows, values, strict=True)
        return Table(self.headers, tuple((*row[:place], value, *row[place + 1 :]) for row, value in pairs))

    def widened(self, header: str, values: Sequence[Cell], *, after: str | None = None) -> Table:
        """The table with a further column, right of another or last."""
        place = len(self.headers) if after is None else self.place(after) + 1
        pairs = zip(self.rows, values, strict=True)
        return Table(
            (*self.headers[:place], header, *self.headers[place:]),
            tuple((*row[:place], value, *row[place:]) for row, value in pairs),
        )

    def narrowed(self, headers: Sequence[str]) -> Table:
        """Only some columns, in the order of the table."""
        places = [place for place, header in enumerate(self.headers) if header in headers]
        return Table(
            tuple(self.headers[place] for place in places),
            tuple(tuple(row[place] for place in places) for row in self.rows),
        )

    def lines(self) -> Iterator[tuple[Cell, ...]]:
        """Headers, then rows."""
        yield self.headers
        yield from self.rows


def number_of(value: Cell, *, clean: bool) -> int | float | None:
    """A cell as a number; `clean` also reads numbers that are stored as text. None where it is none."""
    if isinstance(value, Formula):
        return value.value
    if isinstance(value, str):
        bare = value.strip()
        if not clean or _NUMBER.fullmatch(bare) is None:
            return None
        return float(bare) if "." in bare else int(bare)
    return value


def word_of(value: Cell, *, clean: bool) -> str:
    """A cell as a key; `clean` takes spellings for equal that differ in case and in blanks."""
    text = "" if value is None else str(value)
    return " ".join(text.split()).casefold() if clean else text


def is_gap(value: Cell, *, clean: bool) -> bool:
    """Whether a cell is empty; `clean` takes blanks for nothing."""
    return value is None or value == "" or (clean and isinstance(value, str) and not value.strip())
