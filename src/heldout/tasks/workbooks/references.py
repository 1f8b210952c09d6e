"""Formulas made safe to compute apart from their book: plain sheet names, no whole columns, nothing from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heldout.errors import TaskError, boundary, need
from heldout.tasks.workbooks.areas import Area, read_area
from heldout.tasks.workbooks.book import Book, CellError, Position, coordinate

__all__ = ["Plain", "alias", "plain_formula"]

_CHANGING = frozenset({"NOW", "TODAY", "RAND", "RANDBETWEEN", "RANDARRAY"})
_ANYWHERE = frozenset({"INDIRECT", "OFFSET"})
_PREFIXES = ("_XLFN.", "_XLWS.", "_XLL.")
_LARGE = 10_000
"""Cells of an area from which only the used part of its sheet is read: a whole column has a million."""
_LONGEST = 8192
"""Characters of a formula, as in spreadsheet programs."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A formula with what it reads."""

    text: str
    areas: tuple[Area, ...]
    """With the sheets' own names."""
    anywhere: bool
    """Whether what it reads is known only once it is computed."""


def alias(number: int) -> str:
    """The name under which the sheet of this number (from 0) is computed."""
    return f"S{number}X"


def plain_formula(formula: str, *, home: str, book: Book, dims: Mapping[str, Position]) -> Plain | CellError:
    """The formula of a cell on the sheet `home`, or why there is no value for it. `dims` is by sheet."""
    if len(formula) > _LONGEST:
        return CellError("#N/A", f"a formula has at most {_LONGEST} characters")
    tokenizer = need("openpyxl.formula.tokenizer", extra="tables")
    try:
        with boundary(TaskError, "it is no formula"):
            tokens = tokenizer.Tokenizer(formula).items
            return _Rewriting(home, book, dims).of(tokens)
    except TaskError as fault:
        return CellError("#N/A", str(fault)[:200])


class _Rewriting:
    def __init__(self, home: str, book: Book, dims: Mapping[str, Position]) -> None:
        self._home = home
        self._book = book
        self._dims = dims
        self._areas: list[Area] = []

    def of(self, tokens: list[Any]) -> Plain | CellError:
        """The formula of its tokens."""
        words, anywhere = [], False
        for token in tokens:
            word: str | CellError = token.value
            if token.type == "OPERAND" and token.subtype == "RANGE":
                word = self._reference(token.value)
            elif token.type == "FUNC" and token.subtype == "OPEN":
                name = _bare(token.value)
                if name in _CHANGING:
                    return CellError("#N/A", f"{name} depends on the day or on chance")
                anywhere = anywhere or name in _ANYWHERE
            if isinstance(word, CellError):
                return word
            words.append(word)
        return Plain("=" + "".join(words), tuple(self._areas), anywhere)

    def _reference(self, text: str) -> str | CellError:
        text = self._book.names.get(text.lower(), text)
        if "[" in text:
            what = "another workbook" if "!" in text else "a table by its name"
            return CellError("#REF!", f"{text[:80]!r} refers to {what}")
        area = read_area(text.removeprefix("="))
        if area is None:  # a name that only the formula itself knows, or nobody
            return text if "!" not in text else CellError("#REF!")
        sheet = self._book.sheet(area.sheet if area.sheet is not None else self._home)
        if sheet is None:
            return CellError("#REF!")
        used = area
        if area.size > _LARGE:
            used = area.within(self._dims[sheet.name]) or Area(None, area.first, area.first)
        self._areas.append(Area(sheet.name, used.first, used.last))
        return f"{alias(self._book.sheets.index(sheet))}!{_cells(used)}"


def _cells(area: Area) -> str:
    first, last = coordinate(area.first), coordinate(area.last)
    return first if first == last else f"{first}:{last}"


def _bare(function: str) -> str:
    name = function.upper().rstrip("(")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name
