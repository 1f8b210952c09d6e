"""Whether the bytes of a workbook are safe to open: decided before a spreadsheet library sees them."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from xml.parsers import expat

from heldout.tasks.workbooks.areas import read_area

__all__ = ["LARGEST", "MOST_CELLS", "MOST_PARTS", "MOST_RATIO", "MOST_SHARED", "package_fault"]

LARGEST = 64 << 20
"""Bytes of all parts together, unpacked; and of a file as it is."""
MOST_PARTS = 2000
MOST_RATIO = 200
"""Unpacked size of a part of more than a megabyte, to its packed size: XML of real sheets packs 5 to 40 times."""
MOST_CELLS = 500_000
"""Of a book: its cells, and those that merged ranges, links and comments cover, for a library makes them all."""
MOST_SHARED = 8 << 20
"""Characters of the formulas that cells share, written out for each of the cells, as a library does."""

_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = 0x1
_DECLARED = re.compile(rb"""^<\?xml[^>]*\bencoding\s*=\s*["']([^"']*)["']""")
_MARKS = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")
_COVERING = frozenset({"mergeCell", "hyperlink", "comment"})
_WORKSHEET = "/worksheet"


def package_fault(data: bytes) -> str | None:
    """Why the bytes are no workbook that may be opened; None where nothing speaks against it."""
    if data.startswith(_OLD):
        return "it is encrypted, or of the old .xls format"
    if len(data) > LARGEST:
        return f"it has {len(data)} bytes; at most {LARGEST} are read"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _size_fault(archive.infolist()) or _content_fault(archive)
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError, ValueError, zlib.error):
        return "it is no zip archive, or a damaged one, and so no .xlsx workbook"


def _size_fault(parts: list[zipfile.ZipInfo]) -> str | None:
    if len(parts) > MOST_PARTS:
        return f"it has {len(parts)} parts; at most {MOST_PARTS} are read"
    if sum(part.file_size for part in parts) > LARGEST:
        return f"it unpacks to more than {LARGEST >> 20} MB"
    for part in parts:
        if part.flag_bits & _ENCRYPTED:
            return f"its part {part.filename!r} is encrypted"
        if part.file_size > 1 << 20 and part.file_size > MOST_RATIO * part.compress_size:
            return f"its part {part.filename!r} unpacks to more than {MOST_RATIO} times its size"
    if len({part.filename for part in parts}) < len(parts):
        return "two of its parts have the same name"
    return None


def _content_fault(archive: zipfile.ZipFile) -> str | None:
    content = _Content()
    for part in archive.infolist():
        text = archive.read(part).removeprefix(b"\xef\xbb\xbf").lstrip()
        # Whatever its name: what a part is read as is said in other parts.
        if not text.startswith((b"<", *_MARKS)):
            continue
        declared = _DECLARED.match(text[:200])
        if text.startswith(_MARKS) or (declared and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii")):
            return f"its part {part.filename!r} is no UTF-8"
        if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
            return f"its part {part.filename!r} declares a document type or an entity"
        try:
            content.add(text)
        except expat.ExpatError:
            return f"its part {part.filename!r} is no well-formed XML"
    return content.fault()


class _Content:
    """What the parts of a workbook would make a library build."""

    def __init__(self) -> None:
        self._cells = 0
        self._shared = 0
        self._formulas: dict[str, int] = {}
        self._open: str | None = None
        self._sheets: list[str] = []
        self._targets: list[str] = []

    def add(self, text: bytes) -> None:
        """Count what a part holds."""
        parser = expat.ParserCreate()
        parser.StartElementHandler = self._element
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.buffer_text = True
        self._formulas.clear()  # their numbers are a sheet's own
        parser.Parse(text, True)

    def fault(self) -> str | None:
        """Why this is too much."""
        if self._cells > MOST_CELLS:
            return f"it has {self._cells} cells; at most {MOST_CELLS} are read"
        if self._shared > MOST_SHARED:
            return f"its shared formulas have {self._shared} characters written out; at most {MOST_SHARED} are read"
        for listed in (self._sheets, self._targets):
            if len(set(listed)) < len(listed):
                return "two of its sheets are the same part"
        return None

    def _element(self, name: str, attributes: Mapping[str, str]) -> None:
        kind = name.rpartition(":")[2]
        if kind == "c":
            self._cells += 1
        elif kind in _COVERING:
            area = read_area(attributes.get("ref", ""))
            self._cells += 0 if area is None else area.size
        elif kind == "f" and attributes.get("t") == "shared":
            self._open = attributes.get("si", "")
            self._shared += self._formulas.setdefault(self._open, 0)
        elif kind == "sheet":
            self._sheets += [value for key, value in attributes.items() if key.rpartition(":")[2] == "id"]
        elif kind == "Relationship" and attributes.get("Type", "").endswith(_WORKSHEET):
            self._targets.append(attributes.get("Target", ""))

    def _text(self, text: str) -> None:
        if self._open is not None:
            self._formulas[self._open] += len(text)

    def _end(self, name: str) -> None:
        del name
        self._open = None
