"""What an SVG drawing is made of: scales, ticks, and elements that escape everything they are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup, escape

__all__ = ["Scale", "apart", "drawing", "join", "line", "linear", "number", "text", "ticks"]

Scale = Callable[[float], float]
"""From a value to a place in pixels."""


def linear(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (value - low) / (high - low) * (end - start)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers within the range: steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= raw * (1 - 1e-9))
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def apart(positions: Sequence[float], *, gap: float) -> list[float]:
    """The same heights in the same order, moved so that labels do not overlap."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    result = list(positions)
    for before, after in zip(order, order[1:], strict=False):
        result[after] = max(result[after], result[before] + gap)
    return result


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, number(x1), number(y1), number(x2), number(y2)
    )


def text(x: float, y: float, text: str, kind: str, *, anchor: str = "start") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind, number(x), number(y), anchor, text
    )


def drawing(parts: Iterable[Markup], *, width: int, height: float, label: str) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        width, number(height), escape(label), join(parts)
    )


def join(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
