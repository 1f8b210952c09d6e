"""Small inline SVG charts. Colours come from the page's style sheet; shape and dash say the same without colour.

Each takes a width in pixels, and is drawn once for a desk and once for a phone, so that letters keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.report.numbers import interval, percent, points
from heldout.report.svg import Scale, apart, drawing, join, line, linear, number, text, ticks

__all__ = ["Dot", "GainMark", "Point", "Series", "candidate_dots", "gain_forest", "level_curve", "share_bar"]


@dataclass(frozen=True, slots=True)
class Point:
    """A level at a generation, a fraction of one, with its 95 % interval where there is one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A line of the selection curve."""

    tone: str
    """`believed` or `measured`."""
    points: tuple[Point, ...]
    steps: bool = True
    """A head's score holds until the next decision; False joins two measurements with a plain line."""


@dataclass(frozen=True, slots=True)
class GainMark:
    """One row of the comparison of gains."""

    tone: str
    """`believed`, `model` or `measured`."""
    name: str
    gain: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """One candidate: its select score, and its gold score where it has one."""

    generation: int
    shift: float
    """Place within the generation's column, from -0.5 to 0.5."""
    score: float
    fate: str
    """`accepted`, `rejected`, `outscored`, `undecided`, `duplicate`, `pending` or `start`."""
    title: str
    gold: float | None = None


def level_curve(series: Sequence[Series], *, generations: int, width: int) -> Markup:
    """Levels over generations: what the loop believed in, and what was measured where it could not look."""
    height = 310 if width > 500 else 260
    every = [value for line in series for point in line.points for value in (point.y, point.low, point.high)]
    low, high = _room([value for value in every if value is not None])
    right = width - 62
    x, y = linear(0, max(1, generations), 46, right), linear(low, high, height - 44, 14)
    ends = [(line, line.points[-1]) for line in series if line.points]
    parts = [_grid(low, high, y=y, left=46, right=right), _generations(generations, x=x, bottom=height - 44)]
    parts += [_band(line, x=x, y=y) for line in series]
    parts += [_path(line, x=x, y=y) for line in series]
    parts += [_marker(line.tone, x(point.x), y(point.y)) for line in series for point in line.points]
    labels = apart([y(point.y) for _, point in ends], gap=15)
    parts += [
        text(x(point.x) + 11, at + 4, percent(point.y), f"value {line.tone}")
        for (line, point), at in zip(ends, labels, strict=True)
    ]
    said = "; ".join(f"{line.tone} from {percent(line.points[0].y)} to {percent(end.y)}" for line, end in ends)
    return drawing(parts, width=width, height=height, label=f"Score of the current best over generations: {said}")


def gain_forest(marks: Sequence[GainMark], *, width: int) -> Markup:
    """Gains side by side on one axis with zero, each with its interval where it has one."""
    row, top, left = 46, 10, 96
    height = top + row * len(marks) + 30
    ends = [end for mark in marks for end in (mark.gain, *(mark.interval or ()))]
    low, high = _around([*ends, 0.0])
    x = linear(low, high, left + 10, width - 14)
    bottom = top + row * len(marks)
    parts = []
    for tick in ticks(low, high, 6 if width > 500 else 4):
        kind = "zero" if abs(tick) < 1e-9 else "grid"
        parts.append(line(x(tick), top, x(tick), bottom, kind))
        parts.append(text(x(tick), bottom + 18, _bare(tick), "tick", anchor="middle"))
    for index, mark in enumerate(marks):
        at = top + row * index + row / 2
        parts.append(text(0, at - 4, mark.name, f"value {mark.tone}"))
        parts.append(text(0, at + 13, points(mark.gain).removesuffix(" points"), "tick strong"))
        if mark.interval is not None:
            parts.append(_whisker(x(mark.interval[0]), x(mark.interval[1]), at, mark.tone))
        elif mark.gain:
            parts.append(line(x(0), at, x(mark.gain), at, f"stem {mark.tone}"))
        parts.append(_marker(mark.tone, x(mark.gain), at, size=7))
    said = "; ".join(f"{mark.name} {points(mark.gain)}" + _said_interval(mark) for mark in marks)
    return drawing(parts, width=width, height=height, label=f"Gains: {said}")


def candidate_dots(dots: Sequence[Dot], incumbents: Sequence[Point], *, generations: int, width: int) -> Markup:
    """Every candidate by generation: its shape says what the gate did, a bar joins it to its gold score."""
    height = 310 if width > 500 else 260
    every = [dot.score for dot in dots] + [dot.gold for dot in dots if dot.gold is not None]
    low, high = _room(every + [point.y for point in incumbents])
    x, y = linear(-0.6, max(1, generations) + 0.6, 46, width - 8), linear(low, high, height - 44, 14)
    parts = [_grid(low, high, y=y, left=46, right=width - 8), _generations(generations, x=x, bottom=height - 44)]
    parts += [line(x(point.x - 0.46), y(point.y), x(point.x + 0.46), y(point.y), "incumbent") for point in incumbents]
    for dot in dots:
        at = x(dot.generation + dot.shift)
        if dot.gold is not None:
            parts.append(line(at, y(dot.score), at, y(dot.gold), "stem measured thin"))
            parts.append(line(at - 4, y(dot.gold), at + 4, y(dot.gold), "goldtick"))
        parts.append(_shape(dot, at, y(dot.score)))
    return drawing(parts, width=width, height=height, label=f"Select scores of {len(dots)} candidates by generation")


def share_bar(share: float) -> Markup:
    """A bar for a share of one; the number stands beside it."""
    full = max(0.0, min(1.0, share)) * 100
    return Markup(
        '<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8" rx="1"/><rect class="full" width="{}" height="8" rx="1"/></svg>'
    ).format(number(full))


def _shape(dot: Dot, x: float, y: float) -> Markup:
    title = Markup("<title>{}</title>").format(dot.title)
    if dot.fate == "accepted":
        body = Markup('<path class="dot accepted" d="M{} {}l7 7l-7 7l-7 -7z">').format(number(x), number(y - 7))
        return body + title + Markup("</path>")
    if dot.fate == "undecided":
        body = Markup('<rect class="dot open" x="{}" y="{}" width="8" height="8">').format(number(x - 4), number(y - 4))
        return body + title + Markup("</rect>")
    kind, radius = ("rejected open", 5.0) if dot.fate == "rejected" else ("small", 3.2)
    body = Markup('<circle class="dot {}" cx="{}" cy="{}" r="{}">').format(kind, number(x), number(y), radius)
    return body + title + Markup("</circle>")


def _marker(tone: str, x: float, y: float, *, size: float = 4.5) -> Markup:
    if tone == "believed":
        return Markup('<circle class="mark believed" cx="{}" cy="{}" r="{}"/>').format(number(x), number(y), size)
    if tone == "model":
        side = number(size * 1.15)
        return Markup('<path class="mark model" d="M{0} {1}l{2} {2}l-{2} {2}l-{2} -{2}z"/>').format(
            number(x), number(y - size * 1.15), side
        )
    return Markup('<rect class="mark measured" x="{}" y="{}" width="{}" height="{}"/>').format(
        number(x - size * 0.9), number(y - size * 0.9), number(size * 1.8), number(size * 1.8)
    )


def _band(line: Series, *, x: Scale, y: Scale) -> Markup:
    known = [point for point in line.points if point.low is not None and point.high is not None]
    if not line.steps:
        return join(_upright(x(point.x), y(point.low or 0.0), y(point.high or 0.0), line.tone) for point in known)
    upper = _stepped([(point.x, point.high or 0.0) for point in known])
    lower = _stepped([(point.x, point.low or 0.0) for point in known])
    corners = [*upper, *reversed(lower)]
    if len(known) < 2:
        return Markup()
    path = " ".join(f"{number(x(a))},{number(y(b))}" for a, b in corners)
    return Markup('<polygon class="band {}" points="{}"/>').format(line.tone, path)


def _path(line: Series, *, x: Scale, y: Scale) -> Markup:
    corners = [(point.x, point.y) for point in line.points]
    if line.steps:
        corners = _stepped(corners)
    path = " ".join(f"{number(x(a))},{number(y(b))}" for a, b in corners)
    return Markup('<polyline class="line {}" points="{}"/>').format(line.tone, path)


def _stepped(corners: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Each value holds until the next one begins."""
    result: list[tuple[float, float]] = []
    for a, b in corners:
        if result:
            result.append((a, result[-1][1]))
        result.append((a, b))
    return result


def _whisker(low: float, high: float, y: float, tone: str) -> Markup:
    return join(
        [
            line(low, y, high, y, f"whisker {tone}"),
            line(low, y - 6, low, y + 6, f"whisker {tone}"),
            line(high, y - 6, high, y + 6, f"whisker {tone}"),
        ]
    )


def _upright(x: float, low: float, high: float, tone: str) -> Markup:
    return join(
        [
            line(x, low, x, high, f"whisker {tone}"),
            line(x - 6, low, x + 6, low, f"whisker {tone}"),
            line(x - 6, high, x + 6, high, f"whisker {tone}"),
        ]
    )


def _grid(low: float, high: float, *, y: Scale, left: float, right: float) -> Markup:
    parts = []
    for tick in ticks(low, high, 5):
        parts.append(line(left, y(tick), right, y(tick), "grid"))
        parts.append(text(left - 8, y(tick) + 4, f"{tick * 100:.0f} %", "tick", anchor="end"))
    return join(parts)


def _generations(last: int, *, x: Scale, bottom: float) -> Markup:
    """At most about eleven labels below the axis."""
    stride = max(1, math.ceil(last / 10))
    labels = [
        text(x(at), bottom + 20, "start" if at == 0 else str(at), "tick", anchor="middle")
        for at in range(0, last + 1, stride)
    ]
    return join([*labels, text(x(last / 2), bottom + 39, "generation", "tick", anchor="middle")])


def _room(values: Sequence[float]) -> tuple[float, float]:
    """Levels with a little air, within 0 and 1."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    air = max(0.02, (high - low) * 0.12)
    return max(0.0, low - air), min(1.0, high + air)


def _around(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    air = max(0.01, (high - low) * 0.06)
    return low - air, high + air


def _bare(fraction: float) -> str:
    return f"{fraction * 100:+.0f}".replace("-", "−") if abs(fraction) > 1e-9 else "0"


def _said_interval(mark: GainMark) -> str:
    return f" (95 % interval {interval(mark.interval)})" if mark.interval else ""
