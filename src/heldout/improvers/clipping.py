"""Long texts cut to a stated length, with what is missing said."""

from __future__ import annotations

__all__ = ["clipped"]

_HEAD = 2 / 3
"""Of what is kept of a long text, the share that is its beginning."""
_MARK = 60
"""Room for the line that says what was left out."""


def clipped(text: str, limit: int) -> str:
    """The text, or its beginning and end with a line between that says how much is missing. Never longer than
    `limit`, which is at least 100."""
    text = text.strip()
    if len(text) <= limit:
        return text
    room = limit - _MARK
    head = int(room * _HEAD)
    tail = room - head
    return f"{text[:head]}\n[… {len(text) - room} characters left out …]\n{text[-tail:]}"
