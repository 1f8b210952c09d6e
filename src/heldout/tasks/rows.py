"""Rows of JSONL and CSV files, with the place of each for messages."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from heldout.errors import SetupError

__all__ = ["Row", "read_csv", "read_jsonl"]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file. `number` counts rows from 1 (headers and blank lines do not count), `line` counts lines."""

    number: int
    line: int
    fields: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"row {self.number} (line {self.line})"


def read_jsonl(path: Path) -> list[Row]:
    """One JSON object a line, UTF-8; blank lines are skipped. `SetupError` names the line at fault."""
    return _read(path, _jsonl_rows)


def read_csv(path: Path) -> list[Row]:
    """Comma-separated values with a header row, UTF-8, quoted fields may hold line breaks."""
    return _read(path, _csv_rows)


def _read(path: Path, parse: Any) -> list[Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            rows = list(parse(path, handle))
    except OSError as cause:
        raise SetupError(f"cannot read {str(path)!r}: {cause.strerror}; looked from {str(Path.cwd())!r}") from cause
    except UnicodeDecodeError as cause:
        raise SetupError(f"{str(path)!r} is not UTF-8: byte {cause.start} cannot be read") from cause
    if not rows:
        raise SetupError(f"{str(path)!r} has no rows")
    return rows


def _jsonl_rows(path: Path, handle: TextIO) -> Iterator[Row]:
    number = 0
    for line, text in enumerate(handle, start=1):
        if not text.strip():
            continue
        number += 1
        try:
            fields = json.loads(text, object_pairs_hook=_once)
        except (ValueError, RecursionError) as cause:
            raise SetupError(f"{str(path)!r}, line {line}: not valid JSON: {cause}") from cause
        if not isinstance(fields, dict):
            raise SetupError(f"{str(path)!r}, line {line}: expected a JSON object, got {text.strip()[:60]!r}")
        yield Row(number, line, fields)


def _csv_rows(path: Path, handle: TextIO) -> Iterator[Row]:
    reader = csv.reader(handle, strict=True)
    header: list[str] | None = None
    number, line = 0, 1
    try:
        for cells in reader:
            if header is None:
                header = [cell.strip() for cell in cells]
                if twice := _repeated(header):
                    raise SetupError(f"{str(path)!r}: two columns have the name {twice!r}")
            elif cells:
                number += 1
                if len(cells) > len(header):
                    raise SetupError(
                        f"{str(path)!r}, row {number} (line {line}): {len(cells)} cells under {len(header)} columns"
                    )
                yield Row(number, line, dict(zip(header, cells, strict=False)))
            line = reader.line_num + 1
    except csv.Error as cause:
        raise SetupError(f"{str(path)!r}, line {line}: not valid CSV: {cause}") from cause


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if twice := _repeated([name for name, _ in pairs]):
        raise ValueError(f"{twice!r} stands twice in one object")
    return dict(pairs)


def _repeated(names: Sequence[str]) -> str | None:
    """The first name, other than the empty one, that stands twice."""
    return next((name for place, name in enumerate(names) if name and name in names[:place]), None)
