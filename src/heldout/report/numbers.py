"""How numbers are written everywhere: points with a sign, no false precision, *not measured* instead of 0 or NaN."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

__all__ = [
    "NOT_MEASURED",
    "ascii_text",
    "count",
    "dollars",
    "duration",
    "interval",
    "net",
    "percent",
    "plus_minus",
    "points",
    "signed",
    "tally",
]

NOT_MEASURED = "not measured"

_ASCII = str.maketrans(
    {"−": "-", "–": "-", "—": "-", "±": "+/-", "…": "...", "→": "->", "×": "x", "·": "|", "’": "'", "\u202f": " "}
)


def _of_a_measured_value(write: Callable[[float], str]) -> Callable[[float | None], str]:
    """`write`, which None and NaN never reach."""

    @functools.wraps(write)
    def guarded(value: float | None) -> str:
        return NOT_MEASURED if value is None or not math.isfinite(value) else write(value)

    return guarded


@_of_a_measured_value
def signed(fraction: float) -> str:
    """A difference of fractions in points, `+12.5`; what rounds to nothing has no sign."""
    text = f"{abs(fraction * 100):.1f}"
    return text if text == "0.0" else ("+" if fraction > 0 else "−") + text


@_of_a_measured_value
def points(fraction: float) -> str:
    """`+12.5 points`."""
    return f"{signed(fraction)} points"


@_of_a_measured_value
def percent(fraction: float) -> str:
    """A level or a rate, `62.5 %`."""
    return f"{fraction * 100:.1f} %".replace("-", "−")


@_of_a_measured_value
def plus_minus(fraction: float) -> str:
    """A standard error in points, `± 3.2`."""
    return f"± {abs(fraction) * 100:.1f}"


def interval(ends: tuple[float, float] | None) -> str:
    """`+1.2 to +19.8`, in points."""
    if ends is None or not all(math.isfinite(end) for end in ends):
        return NOT_MEASURED
    return f"{signed(ends[0])} to {signed(ends[1])}"


def net(tasks: int | None) -> str:
    """Fixed minus broken tasks, `+3`; nothing that was not run has one."""
    return "–" if tasks is None else f"{tasks:+d}".replace("-", "−") if tasks else "0"


@_of_a_measured_value
def tally(value: float) -> str:
    """A number of tasks with a sign, `+2` or `−0.4`: graded tasks count by what they gained or lost."""
    text = count(round(abs(value), 1))
    return text if float(text.replace(",", "")) == 0 else ("+" if value > 0 else "−") + text


@_of_a_measured_value
def count(value: float) -> str:
    """A number of things, with separators; a fraction only where there is one."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


@_of_a_measured_value
def dollars(value: float) -> str:
    """`$0.42`; amounts below a cent keep two digits that mean something."""
    if value == 0:
        return "$0"
    return f"${value:,.2f}" if value >= 0.01 else f"${value:.2g}"


@_of_a_measured_value
def duration(seconds: float) -> str:
    """`0.3 s`, `42 s`, `2 min 5 s`, `3 h 12 min`."""
    whole = round(seconds)
    if whole < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def ascii_text(text: str) -> str:
    """The same words for a plain stream: typographic signs spelled out, anything else outside ASCII as `?`."""
    return text.translate(_ASCII).encode("ascii", "replace").decode()
