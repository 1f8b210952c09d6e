"""What a command's end looks like to the model that asked for it: an exit code, and output within a cap."""

from __future__ import annotations

from heldout.sandbox import Completed

__all__ = ["HEADER_BYTES", "LINE_BYTES", "elide", "observe", "truncate"]

HEADER_BYTES = 128
"""More than the first line of an observation takes."""

LINE_BYTES = 512
"""More than an elided observation takes."""

_MARK_BYTES = 64
"""More than the line between head and tail takes, whatever its numbers."""

_FIRST_LINE_CHARACTERS = 80


def observe(done: Completed, output: str, *, cap_bytes: int) -> str:
    """The exit code (and the limit that ended the command) on a line of its own, then the output within the cap.

    `output` stands apart from `done` because a hook may have changed it.
    """
    killed = f" (killed: it passed the limit of {done.killed})" if done.killed else ""
    return f"exit code {done.exit_code}{killed}\n{truncate(output, cap_bytes) or '(no output)'}"


def truncate(text: str, cap_bytes: int) -> str:
    """The text where it fits in `cap_bytes` of UTF-8; else its head and its tail, and between them what is missing."""
    raw = text.encode()
    if len(raw) <= cap_bytes:
        return text
    room = cap_bytes - _MARK_BYTES
    head = raw[: room // 2].decode(errors="ignore")
    tail = raw[len(raw) - (room - room // 2) :].decode(errors="ignore")
    missing = len(raw) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[... {missing} of {len(raw)} bytes left out ...]\n{tail}"


def elide(observation: str) -> str:
    """An observation in one line, for turns so old that their output is no longer worth its room."""
    first, _, rest = observation.partition("\n")
    if not rest and len(first) <= _FIRST_LINE_CHARACTERS:
        return observation
    missing = len(observation.encode()) - len(first[:_FIRST_LINE_CHARACTERS].encode())
    return f"{first[:_FIRST_LINE_CHARACTERS]} [... {missing} bytes of an older turn left out ...]"
