"""Small SVG scatter plots with error bars and a diagonal, in the looks of `plots`."""

from __future__ import annotations

from html import escape

from heldout.records import Record
from heldout.studies.plots import STYLE, linear, segment, ticks

__all__ = ["Dot", "Scatter", "scatter_svg"]

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM, _LINE = 760, 480, 52, 230, 46, 52, 18
_TONES = 6


class Dot(Record):
    """One thing with two numbers, each with its standard error."""

    name: str
    group: int
    """Dots of a group share a colour."""
    x: float
    y: float
    x_error: float = 0.0
    y_error: float = 0.0


class Scatter(Record):
    """One plot; it becomes `NAME.svg`. Both axes have one range, and the diagonal is drawn."""

    name: str
    title: str
    x_label: str
    y_label: str
    dots: tuple[Dot, ...]
    below: str
    """What a dot below the diagonal means."""


def scatter_svg(plot: Scatter) -> str:
    """The plot as one self-contained SVG file; dots have numbers, their names stand beside, bars are 95 % intervals."""
    low, high = _range(plot)
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    x, y = linear(low, high, _LEFT, right), linear(low, high, bottom, _TOP)
    parts = [f'<text class="title" x="12" y="22">{escape(plot.title)}</text>']
    for tick in ticks(low, high):
        kind = "zero" if tick == 0 else "grid"
        parts += [segment(_LEFT, y(tick), right, y(tick), kind), segment(x(tick), bottom, x(tick), _TOP, kind)]
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text class="tick" x="{middle:.1f}" y="{bottom + 40}" text-anchor="middle">{escape(plot.x_label)}</text>'
    )
    parts.append(f'<text class="tick" x="12" y="{_TOP - 8}">{escape(plot.y_label)}</text>')
    parts.append(segment(x(low), y(low), x(high), y(high), "zero"))
    parts.append(f'<text class="tick" x="{right - 6}" y="{bottom - 8}" text-anchor="end">{escape(plot.below)}</text>')
    for number, dot in enumerate(plot.dots, start=1):
        across, up = 1.96 * dot.x_error, 1.96 * dot.y_error
        tone = dot.group % _TONES
        parts.append(segment(x(dot.x - across), y(dot.y), x(dot.x + across), y(dot.y), f"l l{tone}"))
        parts.append(segment(x(dot.x), y(dot.y - up), x(dot.x), y(dot.y + up), f"l l{tone}"))
        parts.append(f'<circle class="n{tone}" cx="{x(dot.x):.1f}" cy="{y(dot.y):.1f}" r="4"/>')
        parts.append(f'<text class="n{tone}" x="{x(dot.x) + 6:.1f}" y="{y(dot.y) - 6:.1f}">{number}</text>')
        place = f'x="{right + 12}" y="{_TOP + 4 + _LINE * (number - 1)}"'
        parts.append(f'<text class="n{tone}" {place}>{number} {escape(dot.name)}</text>')
    said = "; ".join(f"{dot.name}: {dot.x:.1f}, {dot.y:.1f}" for dot in plot.dots)
    label = escape(f"{plot.title}. {plot.x_label}, {plot.y_label}: {said}", quote=True)
    height = max(_HEIGHT, _TOP + _LINE * len(plot.dots) + 10)
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _range(plot: Scatter) -> tuple[float, float]:
    ends = [end for dot in plot.dots for end in (*_ends(dot.x, dot.x_error), *_ends(dot.y, dot.y_error))]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    air = 0.06 * (high - low or 1.0)
    return low - air, high + air


def _ends(value: float, error: float) -> tuple[float, float]:
    return value - 1.96 * error, value + 1.96 * error
