"""What a drawing is made of: scales, ticks, and SVG elements that escape everything they are given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

__all__ = ["XY", "Scale", "apart", "drawing", "join", "label", "linear", "outline", "pixels", "segment", "ticks"]

XY = tuple[float, float]
"""A place, in pixels from the upper left corner."""

Scale = Callable[[float], float]
"""From a value to a place along one axis."""


def linear(values: XY, places: XY) -> Scale:
    """The scale that takes the ends of `values` to the ends of `places`."""
    (low, high), (start, end) = values, places
    return lambda value: start + (value - low) / (high - low) * (end - start)


def ticks(low: float, high: float, *, about: int) -> list[float]:
    """Round numbers within the range: steps of 1, 2 or 5 times a power of ten."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= raw * (1 - 1e-9))
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def apart(heights: Sequence[float], *, gap: float) -> list[float]:
    """The same heights in the same order, moved down so that labels do not overlap."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    result = list(heights)
    for before, after in pairwise(order):
        result[after] = max(result[after], result[before] + gap)
    return result


def segment(start: XY, end: XY, *, kind: str) -> Markup:
    """A straight line; `kind` is its CSS class."""
    (x1, y1), (x2, y2) = start, end
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, pixels(x1), pixels(y1), pixels(x2), pixels(y2)
    )


def outline(corners: Sequence[XY], *, kind: str, closed: bool = False) -> Markup:
    """A line through several places, or the area inside them."""
    path = " ".join(f"{pixels(x)},{pixels(y)}" for x, y in corners)
    shape = Markup('<polygon class="{}" points="{}"/>' if closed else '<polyline class="{}" points="{}"/>')
    return shape.format(kind, path)


def label(at: XY, text: str, *, kind: str, anchor: str = "start") -> Markup:
    """Words beside, before or around a place, by `anchor` (`start`, `end`, `middle`)."""
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind, pixels(at[0]), pixels(at[1]), anchor, text
    )


def drawing(parts: Iterable[Markup], *, width: int, height: float, says: str) -> Markup:
    """The whole picture; `says` is what a screen reader says instead of it."""
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        width, pixels(height), escape(says), join(parts)
    )


def join(parts: Iterable[Markup]) -> Markup:
    """The elements one after the other."""
    return Markup("").join(parts)


def pixels(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
