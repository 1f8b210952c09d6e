"""A grader of your own: any function (answer, reference) -> score in [0, 1]."""

from __future__ import annotations

import re

_CLOCK = re.compile(r"\b(\d{1,2})(?:[:.](\d{2}))?\s*([ap]\.?m\b)?", re.IGNORECASE)


def grade(answer: str, reference: str) -> float:
    """1 where the last time in the answer is the reference, however it is written: 15:30, 3.30 pm, 3:30 p.m."""
    found = [time for match in _CLOCK.finditer(answer) if (time := _minutes(match)) is not None]
    hours, minutes = reference.split(":")
    return float(bool(found) and found[-1] == 60 * int(hours) + int(minutes))


def _minutes(match: re.Match[str]) -> int | None:
    """Minutes since midnight, or None for what is no time of day."""
    hour, minute, half = int(match[1]), match[2], match[3]
    if minute is None and half is None:
        return None
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half.lower().startswith("p") else 0)
    return 60 * hour + int(minute or 0) if hour < 24 and int(minute or 0) < 60 else None
