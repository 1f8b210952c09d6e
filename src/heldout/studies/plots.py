"""Small SVG line plots with error bars that read on a light and on a dark page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from heldout.records import Record

__all__ = ["STYLE", "Line", "Plot", "Spot", "linear", "plot_svg", "segment", "ticks"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, _LINE = 720, 400, 52, 150, 46, 46, 16

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; } .title { font-size: 15px; font-weight: 600; }
.tick { fill: #59636e; } .grid { stroke: #d1d9e0; } .zero { stroke: #59636e; }
.l { fill: none; stroke-width: 2; } .l0 { stroke: #0b62c4; } .l1 { stroke: #b35900; } .l2 { stroke: #1a7f4b; }
.l3 { stroke: #a3309c; } .l4 { stroke: #59636e; } .l5 { stroke: #b3261e; }
.n0 { fill: #0b62c4; } .n1 { fill: #b35900; } .n2 { fill: #1a7f4b; } .n3 { fill: #a3309c; } .n4 { fill: #59636e; }
.n5 { fill: #b3261e; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; } .tick { fill: #9198a1; } .grid { stroke: #3d444d; } .zero { stroke: #9198a1; }
.l0 { stroke: #58a6ff; } .l1 { stroke: #f0a04b; } .l2 { stroke: #4cc38a; } .l3 { stroke: #e28bdc; }
.l4 { stroke: #9198a1; } .l5 { stroke: #ff7b72; } .n0 { fill: #58a6ff; } .n1 { fill: #f0a04b; }
.n2 { fill: #4cc38a; } .n3 { fill: #e28bdc; } .n4 { fill: #9198a1; } .n5 { fill: #ff7b72; }
}
"""
_TONES = 6
_DASHES = ("", "7 4", "2 4", "9 3 2 3", "1 3", "12 4")
"""Lines differ by dash too, for those who do not see the colours."""

Scale = Callable[[float], float]


class Spot(Record):
    """A point of a line with its standard error."""

    x: str
    """One of the plot's `xs`."""
    y: float
    standard_error: float = 0.0


class Line(Record):
    """A named line."""

    name: str
    spots: tuple[Spot, ...]
    joined: bool = True
    """Whether places are joined; False for places without an order."""


class Plot(Record):
    """One plot; it becomes `NAME.svg`."""

    name: str
    title: str
    x_label: str
    y_label: str
    xs: tuple[str, ...]
    """The places on the horizontal axis, from left to right; a name may have several lines."""
    lines: tuple[Line, ...]


def plot_svg(plot: Plot) -> str:
    """The plot as one self-contained SVG file; bars are 95 % intervals."""
    ends = [
        spot.y + sign * 1.96 * spot.standard_error for line in plot.lines for spot in line.spots for sign in (-1, 1)
    ]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    air = 0.06 * (high - low or 1.0)
    rows = 1 + max(name.count("\n") for name in plot.xs)
    bottom, top = _HEIGHT - _BOTTOM - _LINE * (rows - 1), _TOP
    right = _WIDTH - _RIGHT
    y = linear(low - air, high + air, bottom, top)
    step = (right - _LEFT) / len(plot.xs)
    x = {name: _LEFT + step * (at + 0.5) for at, name in enumerate(plot.xs)}
    parts = [f'<text class="title" x="12" y="22">{escape(plot.title)}</text>']
    for tick in ticks(low - air, high + air):
        kind = "zero" if tick == 0 else "grid"
        parts.append(segment(_LEFT, y(tick), right, y(tick), kind))
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for name, at in x.items():
        parts.append(_place(name, at, bottom + 18))
    parts.append(_place(plot.x_label, (_LEFT + right) / 2, bottom + 22 + _LINE * rows))
    parts.append(f'<text class="tick" x="12" y="{top - 6}">{escape(plot.y_label)}</text>')
    for index, line in enumerate(plot.lines):
        parts.append(_line(line, x, y, index=index, shift=5.0 * (index - (len(plot.lines) - 1) / 2)))
    parts += _names(plot.lines, y, left=right + 8)
    said = "; ".join(f"{line.name}: " + ", ".join(f"{_said(s.x)} {s.y:.1f}" for s in line.spots) for line in plot.lines)
    label = escape(f"{plot.title}. {said}", quote=True)
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _said(name: str) -> str:
    return name.replace("\n", " ")


def _place(name: str, at: float, top: float) -> str:
    """A label below the axis, line by line."""
    lines = enumerate(name.split("\n"))
    spans = "".join(f'<tspan x="{at:.1f}" y="{top + _LINE * row:.1f}">{escape(text)}</tspan>' for row, text in lines)
    return f'<text class="tick" text-anchor="middle">{spans}</text>'


def _line(line: Line, x: dict[str, float], y: Scale, *, index: int, shift: float) -> str:
    """Places are shifted a little, so that error bars stay apart."""
    tone = index % _TONES
    points = [(x[spot.x] + shift, spot) for spot in line.spots]
    path = " ".join(f"{at:.1f},{y(spot.y):.1f}" for at, spot in points)
    dash = f' stroke-dasharray="{_DASHES[tone]}"' if _DASHES[tone] else ""
    parts = [f'<polyline class="l l{tone}"{dash} points="{path}"/>'] if line.joined else []
    for at, spot in points:
        half = 1.96 * spot.standard_error
        parts.append(segment(at, y(spot.y - half), at, y(spot.y + half), f"l l{tone}"))
        parts.append(f'<circle class="n{tone}" cx="{at:.1f}" cy="{y(spot.y):.1f}" r="3.5"/>')
    return "".join(parts)


def _names(lines: Sequence[Line], y: Scale, *, left: float) -> list[str]:
    """Each line's name at its right end, moved down where names would overlap."""
    ends = sorted((y(line.spots[-1].y), index) for index, line in enumerate(lines) if line.spots)
    parts, floor = [], -math.inf
    for at, index in ends:
        floor = max(at, floor + 16)
        name = escape(lines[index].name)
        parts.append(f'<text class="n{index % _TONES}" x="{left}" y="{floor + 4:.1f}">{name}</text>')
    return parts


def segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line of a CSS class."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def linear(low: float, high: float, start: float, end: float) -> Scale:
    """The scale that takes `low` to `start` and `high` to `end`."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers within the range, about six."""
    raw = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= raw * (1 - 1e-9))
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]
