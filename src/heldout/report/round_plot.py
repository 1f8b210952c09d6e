"""A small plot of a loop over skills: how the guide grew, and what each round cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.report.numbers import count
from heldout.report.svg import XY, Scale, drawing, join, label, linear, outline, pixels, segment, ticks

__all__ = ["RoundMark", "round_plot"]

_LEFT, _RIGHT = 54, 10
"""Room for the labels of the vertical axes, and right of the plot."""
_SIZES: XY = (150, 24)
_COSTS: XY = (260, 190)
"""Bottom and top of the two panels."""


@dataclass(frozen=True, slots=True)
class RoundMark:
    """One round on the plot of size and cost."""

    round: int
    """0 is the start."""
    words: int | None
    """Of the head after the round; None where its folder cannot be read."""
    tried: tuple[tuple[int, str], ...] = ()
    """(words, fate) of each candidate of the round."""
    cost: float | None = None


def round_plot(rounds: Sequence[RoundMark], *, width: int, cost_name: str, write: Callable[[float], str]) -> Markup:
    """Words of the head after each round and of what was tried, above what each round cost."""
    last = max(mark.round for mark in rounds)
    x, right = linear((-0.6, max(1, last) + 0.6), (_LEFT, width - _RIGHT)), width - _RIGHT
    sizes = [(mark.round, mark.words) for mark in rounds if mark.words is not None]
    parts = [label((0, 12), "words: of the head (line), and of what was tried", kind="tick")]
    if sizes:
        parts.append(_sizes(rounds, sizes, x, right=right))
    parts += [label((0, _COSTS[1] - 12), f"{cost_name} of the round", kind="tick")]
    parts.append(_costs(rounds, x, right=right, write=write))
    parts += [
        label((x(at), _COSTS[0] + 20), "start" if at == 0 else str(at), kind="tick", anchor="middle")
        for at in range(0, last + 1, max(1, math.ceil(last / 10)))
    ]
    parts.append(label((x(last / 2), _COSTS[0] + 38), "round", kind="tick", anchor="middle"))
    says = f"{cost_name} by round: {', '.join(write(mark.cost) for mark in rounds if mark.cost is not None)}"
    if sizes:
        says = f"Words of the head from {count(sizes[0][1])} to {count(sizes[-1][1])}; {says}"
    return drawing(parts, width=width, height=_COSTS[0] + 46, says=says)


def _sizes(rounds: Sequence[RoundMark], sizes: Sequence[tuple[int, int]], x: Scale, *, right: float) -> Markup:
    tried = [(mark.round, words, fate) for mark in rounds for words, fate in mark.tried]
    values = [words for _, words in sizes] + [words for _, words, _ in tried]
    air = max(2.0, (max(values) - min(values)) * 0.15)
    y = linear((min(values) - air, max(values) + air), _SIZES)
    parts = _levels((min(values) - air, max(values) + air), y, right=right, write=count)
    corners: list[XY] = []
    for number, words in sizes:
        if corners:
            corners.append((x(number), corners[-1][1]))
        corners.append((x(number), y(words)))
    parts.append(outline(corners, kind="line measured"))
    for number, words, fate in tried:
        kind = "accepted" if fate == "accepted" else "open"
        parts.append(
            Markup('<circle class="dot {}" cx="{}" cy="{}" r="4.5"><title>{}</title></circle>').format(
                kind, pixels(x(number)), pixels(y(words)), f"round {number}: {count(words)} words, {fate}"
            )
        )
    return join(parts)


def _costs(rounds: Sequence[RoundMark], x: Scale, *, right: float, write: Callable[[float], str]) -> Markup:
    high = max((mark.cost or 0.0 for mark in rounds), default=0.0) or 1.0
    y = linear((0.0, high * 1.08), _COSTS)
    parts = _levels((0.0, high * 1.08), y, right=right, write=write)
    wide = min(26.0, (x(1) - x(0)) * 0.7)
    for mark in rounds:
        if mark.cost:
            place = pixels(x(mark.round) - wide / 2), pixels(y(mark.cost)), pixels(wide), pixels(y(0.0) - y(mark.cost))
            bar = Markup('<rect class="cost" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
            parts.append(bar.format(*place, f"round {mark.round}: {write(mark.cost)}"))
    return join(parts)


def _levels(values: XY, y: Scale, *, right: float, write: Callable[[float], str]) -> list[Markup]:
    parts = []
    for tick in ticks(*values, about=3):
        parts.append(segment((_LEFT, y(tick)), (right, y(tick)), kind="grid"))
        parts.append(label((_LEFT - 8, y(tick) + 4), write(tick), kind="tick", anchor="end"))
    return parts
