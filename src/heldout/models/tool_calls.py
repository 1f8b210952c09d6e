"""What a model wrote as the arguments of a tool call, read leniently."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["call_id", "object_of"]


def object_of(arguments: str) -> dict[str, Any] | None:
    """The JSON object in a call's arguments; None where there is none. No arguments at all are an empty object."""
    if not arguments.strip():
        return {}
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def call_id(number: int) -> str:
    """A name for a call whose server gave it none."""
    return f"call_{number}"
