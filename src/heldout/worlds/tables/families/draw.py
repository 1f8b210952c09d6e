"""What families draw tables with, and what they give."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.plan import Call, Choice
from heldout.worlds.tables.toolbox.table import Cell, Table
from heldout.worlds.tables.vocabulary import Pair, Theme

__all__ = ["CLEAN", "Columns", "Draw", "Family", "Operation"]

CLEAN = Choice(Part.VALUES, right=True, wrong=False)
"""Whether values are understood, or taken as they are stored."""

Columns = Mapping[str, list[Cell]]
"""Header to values."""


@dataclass(slots=True)
class Draw:
    """The choices of one task."""

    rng: random.Random
    theme: Theme
    untidy: bool
    """Whether some values are stored in another way than they are meant (numbers as text, spellings)."""
    padded: bool
    """Whether a number that is stored as text needs blanks, since CSV files have no types."""
    _used: set[int] = field(default_factory=set)

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return self.rng.randint(low, high)

    def flip(self) -> bool:
        """True or False."""
        return self.rng.random() < 0.5

    def codes(self, count: int) -> list[Cell]:
        """Codes that no other table of the task has, in no order."""
        free = [number for number in range(101, 999) if number not in self._used]
        drawn = self.rng.sample(free, count)
        self._used.update(drawn)
        return [f"{self.theme.prefix}-{number}" for number in drawn]

    def numbers(self, count: int, low: int = 12, high: int = 95) -> list[Cell]:
        """Numbers in no order, seldom the same."""
        return list(self.rng.choices(range(low, high + 1), k=count))

    def words(self, count: int, words: Sequence[str]) -> list[Cell]:
        """Words that recur."""
        return list(self.rng.choices(words, k=count))

    def places(self, count: int, among: Sequence[int]) -> list[int]:
        """Different places."""
        return self.rng.sample(list(among), min(count, len(among)))

    def as_text(self, values: list[Cell], *, first: int | None = None) -> list[Cell]:
        """Some numbers stored as text, the one at `first` among them, where the task is untidy."""
        if not self.untidy:
            return values
        told = list(values)
        for place in {*self.places(2, range(len(values))), *([] if first is None else [first])}:
            if told[place] is not None:
                blank = " " if self.padded or self.flip() else ""
                told[place] = f"{blank}{told[place]}{blank}"
        return told

    def spelled(self, values: list[Cell], *, first: int | None = None, case: bool = True) -> list[Cell]:
        """Some words with blanks around them or in capitals, that at `first` among them, where the task is untidy."""
        if not self.untidy:
            return values
        told = list(values)
        for place in {*self.places(2, range(len(values))), *([] if first is None else [first])}:
            word = told[place]
            if isinstance(word, str):
                told[place] = word.upper() if case and self.flip() else f" {word} "
        return told


@dataclass(frozen=True, slots=True)
class Operation:
    """What a request asks for, and the call that does it: `call` takes the table `rows` (and `other`, where there is a
    second one) and gives `result`."""

    role: Pair
    """The column that the request does not call by its header."""
    call: Callable[[Choice, Choice | str | None], Call]
    """Made for the header of the role, and that of the new column where there is one."""
    columns: Callable[[int], Columns]
    """Values of one table with so many rows, but for codes and notes. The first call is for the table that is meant."""
    slots: Mapping[str, str]
    """What its sentences in `wordings.toml` leave open, but for the role's phrase and the like."""
    place: Literal["same", "new", "any"]
    """Whether the table itself is changed, or another one made."""
    into: Literal["never", "may", "always"] = "never"
    """Whether the result has a column more than the table."""
    plain_header: str | None = None
    """Header of the new column where the request does not name one."""
    where: str = "at the right end"
    """Where the new column stands."""
    end: Literal["first", "last"] = "first"
    """Which column of a new table may get another header."""
    second: Callable[[Table], Table] | None = None
    """A second table, for the one that is meant."""
    untidy: bool = True
    """Whether values may be stored in another way than they are meant."""
    workbook: bool = False
    """Whether it can only be done in a workbook."""
    slips: bool = True
    """Whether a slip is made to the result; else the call has its own."""
    steps: int = 3
    """Steps that can slip, 2 to 4."""


Family = Callable[[Draw], Operation]
