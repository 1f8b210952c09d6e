"""Files of a scene as bytes and as text: base64 for the suffixes that the scene names, UTF-8 for all others."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from heldout.errors import SandboxError

__all__ = ["as_bytes", "as_text", "is_encoded"]


def is_encoded(name: str, suffixes: Sequence[str]) -> bool:
    """Whether a file of this name is bytes; case does not matter."""
    return name.lower().endswith(tuple(suffix.lower() for suffix in suffixes))


def as_bytes(name: str, text: str, suffixes: Sequence[str]) -> bytes:
    """What a file of a scene holds; `SandboxError` names the file whose text is none, or no base64."""
    try:
        return base64.b64decode(text, validate=True) if is_encoded(name, suffixes) else text.encode("utf-8")
    except ValueError as cause:
        raise SandboxError(f"cannot write {name[:200]!r} into the work folder: {cause}") from cause


def as_text(name: str, data: bytes, suffixes: Sequence[str]) -> str | None:
    """What a snapshot shows of a file; None for bytes that are neither encoded nor UTF-8."""
    if is_encoded(name, suffixes):
        return base64.b64encode(data).decode("ascii")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
