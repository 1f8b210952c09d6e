"""Tables that code writes: a cell is a plain value or an estimate with its standard error."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heldout.records import Record

__all__ = ["Cell", "Estimate", "Table", "csv_text", "markdown_text", "mean_estimate", "share_estimate"]

_Z95 = 1.959963984540054


class Estimate(Record):
    """A number and how well it is known."""

    value: float
    standard_error: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, by the normal approximation."""
        half = _Z95 * self.standard_error
        return self.value - half, self.value + half

    def minus(self, other: Estimate) -> Estimate:
        """The difference of two independent estimates."""
        return Estimate(
            value=self.value - other.value,
            standard_error=math.hypot(self.standard_error, other.standard_error),
        )


Cell = Estimate | bool | int | float | str | None


class Table(Record):
    """One table of a study; it becomes `NAME.csv` and a table of the page."""

    name: str
    title: str
    note: str = ""
    """What a reader must know of units and sources."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def mean_estimate(values: Sequence[float] | NDArray[np.float64], *, scale: float = 100.0) -> Estimate | None:
    """Mean of independent values, in points by default; None below two values."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < 2:
        return None
    return Estimate(
        value=scale * float(array.mean()),
        standard_error=scale * float(array.std(ddof=1)) / math.sqrt(len(array)),
    )


def share_estimate(count: int, total: int) -> Estimate | None:
    """A share in percent with its binomial standard error; None of nothing."""
    if total == 0:
        return None
    share = count / total
    return Estimate(value=100.0 * share, standard_error=100.0 * math.sqrt(share * (1.0 - share) / total))


def csv_text(table: Table) -> str:
    """Comma-separated, full precision; an estimate takes two columns, `x` and `x_se`."""
    estimated = [any(isinstance(row[at], Estimate) for row in table.rows) for at in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            name
            for column, pair in zip(table.columns, estimated, strict=True)
            for name in ([column, f"{column}_se"] if pair else [column])
        ]
    )
    for row in table.rows:
        writer.writerow([text for cell, pair in zip(row, estimated, strict=True) for text in _csv_cells(cell, pair)])
    return out.getvalue()


def markdown_text(table: Table) -> str:
    """A table of the page: numbers to four digits at most, estimates as `14.4 ± 0.7` with their standard error."""
    lines = [table.columns, tuple("---" for _ in table.columns)]
    lines += [tuple(_markdown_cell(cell) for cell in row) for row in table.rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _csv_cells(cell: Cell, pair: bool) -> list[str]:
    if isinstance(cell, Estimate):
        return [_exact(cell.value), _exact(cell.standard_error)]
    text = "" if cell is None else _exact(cell) if isinstance(cell, float) else _word(cell)
    return [text, ""] if pair else [text]


def _markdown_cell(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, Estimate):
        digits = _digits(cell.standard_error)
        return f"{cell.value:.{digits}f} ± {cell.standard_error:.{digits}f}".replace("-", "−")
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{round(cell, 3) + 0.0:.4g}".replace("-", "−")
    return _word(cell).replace("|", "\\|")


def _word(cell: bool | int | str) -> str:
    return ("yes" if cell else "no") if isinstance(cell, bool) else str(cell)


def _digits(standard_error: float) -> int:
    """One decimal, more where that would show nothing of it."""
    return 1 if standard_error == 0.0 or standard_error >= 0.095 else 2 if standard_error >= 0.0095 else 3


def _exact(value: float) -> str:
    return f"{value:.6g}"
