"""Charts of a loop over model weights: scores by round, failures by first fault, and training curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.report.marks import (
    BELOW,
    LEFT,
    TOP,
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
)
from heldout.report.numbers import count, interval, percent, signed
from heldout.report.svg import XY, Scale, drawing, join, label, linear, outline, pixels, segment, ticks

__all__ = ["TONES", "Child", "FaultBar", "LossCurve", "fault_bars", "loss_plot", "score_chart"]

TONES = 7
"""Colours for faults; further ones share the last, grey one."""


@dataclass(frozen=True, slots=True)
class Child:
    """One trained model on the tasks that decide; levels are fractions of one."""

    round: int
    score: float
    parent: float | None
    """The parent's score."""
    gain: float | None
    interval: XY | None
    """Of the paired gain."""
    fate: str
    """`accepted`, `rejected`, `undecided` or another word, which is drawn as a small dot."""


@dataclass(frozen=True, slots=True)
class FaultBar:
    """First faults of the model of one round."""

    round: int
    counts: Sequence[tuple[str, int, int]]
    """(code, its tone, tasks), in the order of the bar from below."""
    focal: str
    n: int
    """Tasks measured."""


@dataclass(frozen=True, slots=True)
class LossCurve:
    """Loss by step of one round's trainings; a list of losses spans the steps evenly where it was thinned."""

    title: str
    steps: int
    """Of the full training as configured, or of the short run where that is all there is."""
    full: Sequence[float]
    short: Sequence[float]
    """The preflight's."""
    short_steps: int
    second: Sequence[float] = ()
    """The same recipe with another seed."""


def score_chart(
    head: Sequence[Point],
    children: Sequence[Child],
    audited: Sequence[Point],
    *,
    failed: Sequence[tuple[int, str]],
    width: int,
) -> Markup:
    """The head's score after each round, each child at its own with the interval of its gain laid on its parent's
    score, the audit's two ends, and a cross for each round of which no child came."""
    last = max([0, *(point.x for point in head), *(one.round for one in children), *(at for at, _ in failed)])
    height, right = plot_height(width), width - 12
    low, high = room(
        [level for point in (*head, *audited) for level in point.interval or (point.y, point.y)] + _levels(children)
    )
    x = linear((-0.5, max(1, last) + 0.6), (LEFT, right))
    y = linear((low, high), (height - BELOW - 14, TOP))
    bottom = height - BELOW
    parts = [level_grid((low, high), y, right=right), round_axis(int(last), x, bottom=bottom, unit="round")]
    corners = stepped([(x(point.x), y(point.y)) for point in head])
    parts.append(outline(corners, kind="line believed"))
    parts.append(outline([(x(point.x), y(point.y)) for point in audited], kind="line measured"))
    for point in audited:
        if point.interval is not None:
            parts.append(
                whisker((x(point.x), y(point.interval[0])), (x(point.x), y(point.interval[1])), tone="measured")
            )
        parts.append(marker("measured", (x(point.x), y(point.y))))
    parts += [_child(one, x, y=y) for one in children]
    parts += [_cross((x(at), bottom - 5), f"round {at}: {why}") for at, why in failed]
    return drawing(parts, width=width, height=height, says=_scores_said(head, children, audited))


def fault_bars(bars: Sequence[FaultBar], *, width: int) -> Markup:
    """One column for each diagnosis, stacked by first fault; the focal problem has a thick edge."""
    height, right = plot_height(width), width - 8
    last = max(bar.round for bar in bars)
    most = max(1, *(sum(tasks for _, _, tasks in bar.counts) for bar in bars))
    x = linear((min(bar.round for bar in bars) - 0.6, max(last, 2) + 0.6), (LEFT, right))
    y = linear((0.0, most * 1.06), (height - BELOW, TOP))
    parts = []
    for tick in ticks(0.0, most * 1.06, about=5):
        if float(tick).is_integer():
            parts.append(segment((LEFT, y(tick)), (right, y(tick)), kind="grid"))
            parts.append(label((LEFT - 8, y(tick) + 4), count(tick), kind="tick", anchor="end"))
    wide = min(64.0, (x(1) - x(0)) * 0.66)
    every = max(1, math.ceil(len(bars) / 12))
    for place, bar in enumerate(bars):
        parts.append(_column(bar, x(bar.round) - wide / 2, y=y, wide=wide))
        if place % every == 0:
            parts.append(label((x(bar.round), height - BELOW + 20), str(bar.round), kind="tick", anchor="middle"))
    parts.append(label(((LEFT + right) / 2, height - BELOW + 39), "diagnosis of round", kind="tick", anchor="middle"))
    said = "; ".join(
        f"round {bar.round}: {', '.join(f'{code} {tasks}' for code, _, tasks in bar.counts)}" for bar in bars
    )
    return drawing(parts, width=width, height=height, says=f"Failed tasks by first fault. {said}")


def loss_plot(curve: LossCurve) -> Markup:
    """A small plot: the full training as a line, the short run before it dotted, a second seed thin."""
    width, height, left, top, bottom = 300, 190, 44, 22, 150
    values = [value for line in (curve.full, curve.short, curve.second) for value in line if math.isfinite(value)]
    high = max([1e-9, *values]) * 1.06
    x, y = linear((0.0, max(1.0, curve.steps)), (left, width - 8)), linear((0.0, high), (bottom, top))
    parts = [label((0, 12), "loss per completion token", kind="tick")]
    for tick in ticks(0.0, high, about=4):
        parts.append(segment((left, y(tick)), (width - 8, y(tick)), kind="grid"))
        parts.append(label((left - 6, y(tick) + 4), f"{tick:.3g}", kind="tick", anchor="end"))
    for tick in ticks(0.0, max(1.0, curve.steps), about=4):
        parts.append(label((x(tick), bottom + 17), count(tick), kind="tick", anchor="middle"))
    parts.append(label(((left + width - 8) / 2, bottom + 34), "step", kind="tick", anchor="middle"))
    parts.append(outline(_places(curve.second, curve.steps, x, y=y), kind="line second"))
    parts.append(outline(_places(curve.full, curve.steps, x, y=y), kind="line measured"))
    parts.append(outline(_places(curve.short, curve.short_steps, x, y=y), kind="line believed"))
    ends = [f"{name} from {line[0]:.3g} to {line[-1]:.3g}" for name, line in _named(curve)]
    return drawing(parts, width=width, height=height, says=f"Loss of {curve.title}: {'; '.join(ends)}")


def _levels(children: Sequence[Child]) -> list[float]:
    found = [one.score for one in children] + [one.parent for one in children if one.parent is not None]
    return found + [end for one in children for end in _on_parent(one)]


def _on_parent(one: Child) -> tuple[float, ...]:
    """Where the ends of the gain's interval lie on the axis of scores, within 0 and 1."""
    if one.parent is None or one.interval is None or not all(map(math.isfinite, one.interval)):
        return ()
    return tuple(min(1.0, max(0.0, one.parent + end)) for end in one.interval)


def _child(one: Child, x: Scale, *, y: Scale) -> Markup:
    at, ends = x(one.round), _on_parent(one)
    parts = [whisker((at, y(ends[0])), (at, y(ends[1])), tone="child")] if ends else []
    if one.parent is not None:
        parts.append(segment((at - 12, y(one.parent)), (at + 12, y(one.parent)), kind="incumbent"))
    told = f"round {one.round}: {percent(one.score)}, {one.fate}"
    if one.gain is not None:
        told += f", gain {signed(one.gain)} ({interval(one.interval)})"
    return join([*parts, dot_mark(Dot(one.round, 0.0, one.score, one.fate, told), (at, y(one.score)))])


def _cross(at: XY, title: str) -> Markup:
    x, y = at
    path = f"M{pixels(x - 4)} {pixels(y - 4)}l8 8m0 -8l-8 8"
    return Markup('<path class="cross" d="{}"><title>{}</title></path>').format(path, title)


def _column(bar: FaultBar, left: float, *, y: Scale, wide: float) -> Markup:
    """The focal part last, so that its edge lies on top."""
    parts, focal, below = [], Markup(""), 0
    for code, tone, tasks in bar.counts:
        part = _part(bar, (code, tone, tasks), (left, y(below + tasks)), size=(wide, y(below) - y(below + tasks)))
        if code == bar.focal:
            focal = part
        else:
            parts.append(part)
        below += tasks
    return join([*parts, focal])


def _part(bar: FaultBar, counted: tuple[str, int, int], at: XY, *, size: XY) -> Markup:
    code, tone, tasks = counted
    kind = f"fault tone-{min(tone, TONES)}" + (" focal" if code == bar.focal else "")
    shape = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
    told = f"round {bar.round}, {code}: {count(tasks)} of {count(bar.n)} tasks"
    drawn = shape.format(kind, *map(pixels, (*at, *size)), told)
    if size[1] < 15 or size[0] < 18:
        return drawn
    middle = (at[0] + size[0] / 2, at[1] + size[1] / 2 + 4)
    return join([drawn, label(middle, count(tasks), kind="infault", anchor="middle")])


def _places(losses: Sequence[float], steps: int, x: Scale, *, y: Scale) -> list[XY]:
    """Of a loss that is no number, nothing is drawn."""
    last = max(1, len(losses) - 1)
    spread = [(1 + place * (max(1, steps) - 1) / last, value) for place, value in enumerate(losses)]
    return [(x(step), y(value)) for step, value in spread if math.isfinite(value)]


def _named(curve: LossCurve) -> list[tuple[str, Sequence[float]]]:
    lines = (("the full training", curve.full), ("the short run", curve.short), ("the second seed", curve.second))
    return [(name, line) for name, line in lines if line]


def _scores_said(head: Sequence[Point], children: Sequence[Child], audited: Sequence[Point]) -> str:
    told = [f"Score by round: the head from {percent(head[0].y)} to {percent(head[-1].y)}"] if head else []
    told += [f"round {one.round} {percent(one.score)} {one.fate}" for one in children]
    if len(audited) > 1:
        told.append(f"audited start {percent(audited[0].y)}, final {percent(audited[-1].y)}")
    return "; ".join(told)
