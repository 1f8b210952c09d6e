"""What a task shows besides its text: the files of its scene, their sheets, headers and beginnings, and no more."""

from __future__ import annotations

from collections.abc import Iterator

from heldout.errors import SandboxError, TaskError
from heldout.sandbox import Scene
from heldout.sandbox.encoding import as_bytes, is_encoded
from heldout.skills.workbook import SEPARATED, WORKBOOKS, Sheet, read_separated, read_workbook

__all__ = ["VISIBLE_BYTES", "visible"]

VISIBLE_BYTES = 12288
"""More is cut."""

_LISTED = 60
"""Files that are named."""
_FILE_BYTES = 3072
"""Of what is shown of one file."""
_ROWS = 6
_CELL = 40
_LINES = 20


def visible(scene: Scene) -> str:
    """A pure function of the scene, at most `VISIBLE_BYTES` of UTF-8."""
    parts = ["\n".join(_listing(scene))]
    parts += [_cut(f"## {_in_a_line(name)}\n{_shown(name, scene)}", _FILE_BYTES) for name in sorted(scene.files)]
    return _cut("\n\n".join(parts), VISIBLE_BYTES)


def _listing(scene: Scene) -> Iterator[str]:
    names = sorted(scene.files)
    yield "Files in the work folder:" if names else "The task gives no files."
    for name in names[:_LISTED]:
        size = _size(name, scene)
        yield f"- {_in_a_line(name)} ({'its content cannot be read' if size is None else f'{size} bytes'})"
    if len(names) > _LISTED:
        yield f"- and {len(names) - _LISTED} more"
    if scene.origin is not None:
        yield "Further files come with the system that the work is done in; they are not listed here."


def _size(name: str, scene: Scene) -> int | None:
    try:
        return len(as_bytes(name, scene.files[name], scene.encoded))
    except SandboxError:
        return None


def _shown(name: str, scene: Scene) -> str:
    text = scene.files[name]
    try:
        if name.lower().endswith(WORKBOOKS):
            sheets = read_workbook(as_bytes(name, text, scene.encoded), rows=_ROWS)
            return "\n".join(_sheet_text(sheet) for sheet in sheets) or "A workbook without sheets."
        if is_encoded(name, scene.encoded):
            return "Not a text file; its content is not shown."
        if name.lower().endswith(SEPARATED):
            return _sheet_text(read_separated(text, rows=_ROWS))
    except TaskError as fault:
        return f"Unreadable: {_in_a_line(str(fault))}"
    except SandboxError as fault:
        return f"Unreadable: its content is damaged ({_in_a_line(str(fault))})"
    return _beginning(text)


def _sheet_text(sheet: Sheet) -> str:
    size = ", ".join(
        f"{count} {what}" for count, what in ((sheet.n_rows, "rows"), (sheet.n_columns, "columns")) if count is not None
    )
    title = f'Sheet "{sheet.name}"' if sheet.name else "Table"
    lines = [f"{title}{f' ({size})' if size else ''}"]
    if not any(any(row) for row in sheet.rows):
        return f"{lines[0]}: empty"
    lines.append(f"Headers: {' | '.join(_cell(header) for header in sheet.headers)}")
    lines += [f"Row {number}: {' | '.join(map(_cell, row))}" for number, row in enumerate(sheet.rows, start=1)]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text if len(text) <= _CELL else f"{text[:_CELL]}…"


def _beginning(text: str) -> str:
    lines = text.splitlines()
    more = [f"[... {len(lines) - _LINES} more lines ...]"] if len(lines) > _LINES else []
    return "\n".join([*lines[:_LINES], *more]) or "An empty file."


def _cut(text: str, limit: int) -> str:
    raw = text.replace("\0", "\ufffd").encode(errors="replace")  # some servers refuse a NUL character
    if len(raw) <= limit:
        return raw.decode()
    mark = "\n[... cut here ...]"
    return raw[: limit - len(mark)].decode(errors="ignore") + mark


def _in_a_line(text: str) -> str:
    return " ".join(text.split())[:200]
