"""Rows of numbered texts that are unlike each other."""

from __future__ import annotations

import hashlib
from typing import Any


def body(number: int) -> str:
    """A text unlike every other."""
    return f"body {hashlib.sha256(str(number).encode()).hexdigest()}"


def row(number: int, **more: Any) -> dict[str, Any]:
    """Row `number`, of stratum a, b, b, b in turn."""
    stratum = "a" if number % 4 == 0 else "b"
    return {"id": f"t{number}", "input": body(number), "reference": f"answer-{number}", "stratum": stratum} | more
