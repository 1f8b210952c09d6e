"""Small inline SVG charts. Colours come from the page's style sheet; shape and dash say the same without colour.

Each takes a width in pixels, and is drawn once for a desk and once for a phone, so that letters keep their size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.report.marks import (
    BELOW,
    LEFT,
    TOP,
    WIDE,
    Dot,
    Point,
    dot_mark,
    level_grid,
    marker,
    plot_height,
    room,
    round_axis,
    stepped,
    whisker,
    whole_points,
)
from heldout.report.numbers import interval, percent, points, signed
from heldout.report.svg import XY, Scale, apart, drawing, join, label, linear, outline, pixels, segment, ticks

__all__ = ["GainMark", "Series", "candidate_dots", "gain_forest", "level_curve", "share_bar"]


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
    interval: XY | None = None


def level_curve(series: Sequence[Series], *, generations: int, width: int, unit: str = "generation") -> Markup:
    """Levels over generations: what the loop believed in, and what was measured where it could not look."""
    height, right = plot_height(width), width - 62
    low, high = room([level for curve in series for point in curve.points for level in _levels(point)])
    x, y = linear((0, max(1, generations)), (LEFT, right)), linear((low, high), (height - BELOW, TOP))
    parts = [level_grid((low, high), y, right=right), round_axis(generations, x, bottom=height - BELOW, unit=unit)]
    parts += [_bands(curve, x, y=y) for curve in series]
    parts += [_line(curve, x, y=y) for curve in series]
    parts += [marker(curve.tone, (x(point.x), y(point.y))) for curve in series for point in curve.points]
    ends = [(curve.tone, curve.points[0], curve.points[-1]) for curve in series]
    for (tone, _, end), at in zip(ends, apart([y(end.y) for _, _, end in ends], gap=15), strict=True):
        parts.append(label((x(end.x) + 11, at + 4), percent(end.y), kind=f"value {tone}"))
    says = "; ".join(f"{tone} from {percent(first.y)} to {percent(end.y)}" for tone, first, end in ends)
    return drawing(parts, width=width, height=height, says=f"Score of the current best over {unit}s: {says}")


def gain_forest(marks: Sequence[GainMark], *, width: int) -> Markup:
    """Gains side by side on one axis with zero, each with its interval where it has one."""
    row, top, left = 46, 10, 96
    bottom = top + row * len(marks)
    ends = [0.0, *(end for mark in marks for end in (mark.gain, *(mark.interval or ())))]
    air = max(0.01, (max(ends) - min(ends)) * 0.06)
    low, high = min(ends) - air, max(ends) + air
    x = linear((low, high), (left + 10, width - 14))
    parts = []
    for tick in ticks(low, high, about=6 if width > WIDE else 4):
        kind = "zero" if abs(tick) < 1e-9 else "grid"
        parts.append(segment((x(tick), top), (x(tick), bottom), kind=kind))
        parts.append(label((x(tick), bottom + 18), whole_points(tick), kind="tick", anchor="middle"))
    parts += [_gain_row(mark, x, y=top + row * (place + 0.5)) for place, mark in enumerate(marks)]
    says = "; ".join(
        f"{mark.name} {points(mark.gain)}" + (f" (interval {interval(mark.interval)})" if mark.interval else "")
        for mark in marks
    )
    return drawing(parts, width=width, height=bottom + 30, says=f"Gains: {says}")


def candidate_dots(
    dots: Sequence[Dot], incumbents: Sequence[Point], *, generations: int, width: int, unit: str = "generation"
) -> Markup:
    """Every candidate by generation: its shape says what the gate did, a bar joins it to its gold score."""
    height, right = plot_height(width), width - 8
    levels = [level for dot in dots for level in (dot.score, dot.gold) if level is not None]
    low, high = room([*levels, *(point.y for point in incumbents)])
    x = linear((-0.6, max(1, generations) + 0.6), (LEFT, right))
    y = linear((low, high), (height - BELOW, TOP))
    parts = [level_grid((low, high), y, right=right), round_axis(generations, x, bottom=height - BELOW, unit=unit)]
    parts += [
        segment((x(point.x - 0.46), y(point.y)), (x(point.x + 0.46), y(point.y)), kind="incumbent")
        for point in incumbents
    ]
    for dot in dots:
        at = x(dot.generation + dot.shift)
        if dot.gold is not None:
            parts.append(segment((at, y(dot.score)), (at, y(dot.gold)), kind="stem measured thin"))
            parts.append(segment((at - 4, y(dot.gold)), (at + 4, y(dot.gold)), kind="goldtick"))
        parts.append(dot_mark(dot, (at, y(dot.score))))
    return drawing(
        parts, width=width, height=height, says=f"Select scores of {len(dots)} candidates by {unit}; listed below"
    )


def share_bar(share: float) -> Markup:
    """A bar for a share of one; the number stands beside it."""
    return Markup(
        '<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8" rx="1"/><rect class="full" width="{}" height="8" rx="1"/></svg>'
    ).format(pixels(max(0.0, min(1.0, share)) * 100))


def _gain_row(mark: GainMark, x: Scale, *, y: float) -> Markup:
    parts = [label((0, y - 4), mark.name, kind=f"value {mark.tone}")]
    parts.append(label((0, y + 13), signed(mark.gain), kind="tick strong"))
    if mark.interval is not None:
        low, high = x(mark.interval[0]), x(mark.interval[1])
        parts.append(whisker((low, y), (high, y), tone=mark.tone))
    else:
        parts.append(segment((x(0), y), (x(mark.gain), y), kind=f"stem {mark.tone}"))
    return join([*parts, marker(mark.tone, (x(mark.gain), y), size=7)])


def _bands(curve: Series, x: Scale, *, y: Scale) -> Markup:
    """Intervals: an area along steps, an upright bar at single measurements."""
    known = [(point.x, point.interval) for point in curve.points if point.interval is not None]
    if not curve.steps:
        return join(whisker((x(at), y(low)), (x(at), y(high)), tone=curve.tone) for at, (low, high) in known)
    lower = stepped([(x(at), y(low)) for at, (low, _) in known])
    upper = stepped([(x(at), y(high)) for at, (_, high) in known])
    return outline([*upper, *reversed(lower)], kind=f"band {curve.tone}", closed=True)


def _line(curve: Series, x: Scale, *, y: Scale) -> Markup:
    corners = [(x(point.x), y(point.y)) for point in curve.points]
    return outline(stepped(corners) if curve.steps else corners, kind=f"line {curve.tone}")


def _levels(point: Point) -> XY:
    return point.interval or (point.y, point.y)
