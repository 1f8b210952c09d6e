"""Small workbooks as bytes, for tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from heldout.errors import need

__all__ = ["packed", "workbook_bytes"]


def workbook_bytes(sheets: Mapping[str, Sequence[Sequence[Any]]], *, names: Mapping[str, str] | None = None) -> bytes:
    """A workbook of sheets given as rows of values (text that begins with `=` is a formula), with defined names."""
    openpyxl = need("openpyxl", extra="tables")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        worksheet = book.create_sheet(title)
        for row, values in enumerate(rows, start=1):
            for column, value in enumerate(values, start=1):
                if value is not None:
                    worksheet.cell(row, column, value)
    for name, reference in (names or {}).items():
        book.defined_names[name] = openpyxl.workbook.defined_name.DefinedName(name, attr_text=reference)
    return _saved(book)


def _saved(book: Any) -> bytes:
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def packed(data: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    """The workbook with some of its parts replaced or added, or left out where None; for what no program would save."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(buffer, "w", compression=zipfile.ZIP_DEFLATED) as new,
    ):
        parts = {part.filename: old.read(part) for part in old.infolist()}
        for name, part in {**parts, **changes}.items():
            if part is not None:
                new.writestr(name, part)
    return buffer.getvalue()
