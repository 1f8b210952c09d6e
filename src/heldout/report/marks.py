"""Marks and axes that several charts share. Shape and dash say the same without colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.report.svg import XY, Scale, join, label, pixels, segment, ticks

__all__ = [
    "BELOW",
    "LEFT",
    "TOP",
    "WIDE",
    "Dot",
    "Point",
    "dot_mark",
    "level_grid",
    "marker",
    "plot_height",
    "room",
    "round_axis",
    "stepped",
    "whisker",
    "whole_points",
]

WIDE = 500
"""From this width on, a chart is one for a desk."""
LEFT, TOP, BELOW = 46, 14, 44
"""Room for the labels of the vertical axis, above the plot, and for the horizontal axis."""


@dataclass(frozen=True, slots=True)
class Point:
    """A level at a generation, a fraction of one, with its 95 % interval where there is one."""

    x: float
    y: float
    interval: XY | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """One candidate: its select score, and its gold score where it has one."""

    generation: int
    shift: float
    """Place within the generation's column, from -0.5 to 0.5."""
    score: float
    fate: str
    """A `Fate`; `accepted`, `rejected` and `undecided` have shapes of their own."""
    title: str
    gold: float | None = None


def dot_mark(dot: Dot, at: XY) -> Markup:
    x, y = at
    if dot.fate == "accepted":
        tag, shape = "path", Markup('class="dot accepted" d="M{} {}l7 7l-7 7l-7 -7z"').format(pixels(x), pixels(y - 7))
    elif dot.fate == "undecided":
        place = Markup('x="{}" y="{}"').format(pixels(x - 4), pixels(y - 4))
        tag, shape = "rect", Markup('class="dot open" width="8" height="8" {}').format(place)
    else:
        kind, radius = ("open", 5.0) if dot.fate == "rejected" else ("small", 3.2)
        place = Markup('cx="{}" cy="{}" r="{}"').format(pixels(x), pixels(y), radius)
        tag, shape = "circle", Markup('class="dot {}" {}').format(kind, place)
    return Markup("<{} {}><title>{}</title></{}>").format(tag, shape, dot.title, tag)


def marker(tone: str, at: XY, *, size: float = 4.5) -> Markup:
    """Circle: believed. Diamond: model. Square: measured."""
    x, y = at
    if tone == "believed":
        return Markup('<circle class="mark believed" cx="{}" cy="{}" r="{}"/>').format(pixels(x), pixels(y), size)
    if tone == "model":
        return Markup('<path class="mark model" d="M{0} {1}l{2} {2}l-{2} {2}l-{2} -{2}z"/>').format(
            pixels(x), pixels(y - size * 1.15), pixels(size * 1.15)
        )
    side = pixels(size * 1.8)
    return Markup('<rect class="mark measured" x="{}" y="{}" width="{}" height="{}"/>').format(
        pixels(x - size * 0.9), pixels(y - size * 0.9), side, side
    )


def whisker(start: XY, end: XY, *, tone: str) -> Markup:
    """An interval with a short bar across each end."""
    kind = f"whisker {tone}"
    across = (0, 6) if start[1] == end[1] else (6, 0)
    bars = [segment((x - across[0], y - across[1]), (x + across[0], y + across[1]), kind=kind) for x, y in (start, end)]
    return join([segment(start, end, kind=kind), *bars])


def level_grid(levels: XY, y: Scale, *, right: float) -> Markup:
    parts = []
    for tick in ticks(*levels, about=5):
        parts.append(segment((LEFT, y(tick)), (right, y(tick)), kind="grid"))
        parts.append(label((LEFT - 8, y(tick) + 4), f"{tick * 100:.0f} %", kind="tick", anchor="end"))
    return join(parts)


def round_axis(last: int, x: Scale, *, bottom: float, unit: str) -> Markup:
    """At most about eleven labels below the axis."""
    marks = [
        label((x(at), bottom + 20), "start" if at == 0 else str(at), kind="tick", anchor="middle")
        for at in range(0, last + 1, max(1, math.ceil(last / 10)))
    ]
    return join([*marks, label((x(last / 2), bottom + 39), unit, kind="tick", anchor="middle")])


def plot_height(width: int) -> int:
    return 310 if width > WIDE else 260


def room(levels: Sequence[float]) -> XY:
    """The range of the levels with a little air, within 0 and 1."""
    low, high = min(levels), max(levels)
    air = max(0.02, (high - low) * 0.12)
    return max(0.0, low - air), min(1.0, high + air)


def whole_points(fraction: float) -> str:
    return "0" if abs(fraction) < 1e-9 else f"{fraction * 100:+.4g}".replace("-", "−")


def stepped(corners: Sequence[XY]) -> list[XY]:
    """Each value holds until the next one begins."""
    result: list[XY] = []
    for a, b in corners:
        if result:
            result.append((a, result[-1][1]))
        result.append((a, b))
    return result
