"""The retention chart: train gain against audit gain, one dot for each arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.report.numbers import interval, points, signed
from heldout.report.svg import XY, Scale, apart, drawing, join, label, linear, pixels, segment, ticks

__all__ = ["ArmMark", "retention_chart"]

_WIDE = 500
"""From this width on, a chart is one for a desk."""
_LEFT, _TOP, _BELOW, _RIGHT = 46, 24, 44, 10
_STRIP = 0.2
"""Of the range, at least, lies below zero: a region needs room for its name."""


@dataclass(frozen=True, slots=True)
class ArmMark:
    """One arm's gains over no skill, in fractions of one."""

    kind: str
    """`start`, `final` or `other`; each has a shape of its own."""
    name: str
    train: float
    train_interval: XY
    audit: float
    audit_interval: XY
    verdict: str
    """`kept`, `partly kept`, `lost`, …"""


def retention_chart(marks: Sequence[ArmMark], *, width: int, simulated: bool = False) -> Markup:
    """A dot for each arm with an interval on both gains; both axes have one range, and the diagonal is drawn.

    Right of zero an arm gained on train. There it kept its gain on or above the diagonal, a part of it below, and
    nothing below zero.
    """
    height = 440 if width > _WIDE else 360
    low, high = _range([end for mark in marks for end in _ends(mark)])
    x, y = linear((low, high), (_LEFT, width - _RIGHT)), linear((low, high), (height - _BELOW, _TOP))
    parts = [_axes((low, high), x, y=y, width=width)]
    parts.append(segment((x(low), y(low)), (x(high), y(high)), kind="diagonal"))
    parts.append(_regions((low, high), x, y=y))
    parts += [_arm(mark, x, y=y) for mark in marks]
    parts.append(_arm_names(marks, x, y=y, right=width - _RIGHT))
    says = "; ".join(_said(mark) for mark in marks)
    about = "Train gain against audit gain, both over no skill. On or above the diagonal a train gain is kept. "
    return drawing(parts, width=width, height=height, says=f"{'Simulation. ' if simulated else ''}{about}{says}")


def _ends(mark: ArmMark) -> tuple[float, ...]:
    return (mark.train, mark.audit, *mark.train_interval, *mark.audit_interval)


def _range(ends: Sequence[float]) -> XY:
    """One range for both axes, with zero inside and room for every region."""
    low, high = min(0.0, *ends), max(0.0, *ends)
    air = max(0.01, (high - low) * 0.07)
    low, high = low - air, max(high + air, (air - low) / 2)
    return min(low, -_STRIP / (1 - _STRIP) * high), high


def _axes(values: XY, x: Scale, *, y: Scale, width: int) -> Markup:
    parts = []
    for tick in ticks(*values, about=8 if width > _WIDE else 7):
        kind = "zero" if abs(tick) < 1e-9 else "grid"
        parts.append(segment((x(tick), y(values[0])), (x(tick), y(values[1])), kind=kind))
        parts.append(segment((x(values[0]), y(tick)), (x(values[1]), y(tick)), kind=kind))
        parts.append(label((x(tick), y(values[0]) + 18), _whole(tick), kind="tick", anchor="middle"))
        parts.append(label((x(values[0]) - 8, y(tick) + 4), _whole(tick), kind="tick", anchor="end"))
    parts.append(label((0, 12), "audit gain, points", kind="tick"))
    middle = (x(values[0]) + x(values[1])) / 2
    parts.append(label((middle, y(values[0]) + 37), "train gain, points", kind="tick", anchor="middle"))
    return join(parts)


def _regions(values: XY, x: Scale, *, y: Scale) -> Markup:
    low, high = values
    return join(
        [
            label((x(0) + 8, y(high) + 16), "kept", kind="region"),
            label((x(high) - 6, y(high * 0.62)), "partly kept", kind="region", anchor="end"),
            label((x(high) - 6, y(low) - 8), "lost or harmful", kind="region", anchor="end"),
            label(((x(low) + x(0)) / 2, y(high) + 16), "no train", kind="region", anchor="middle"),
            label(((x(low) + x(0)) / 2, y(high) + 31), "gain", kind="region", anchor="middle"),
        ]
    )


def _arm(mark: ArmMark, x: Scale, *, y: Scale) -> Markup:
    kind, at = f"bar {mark.kind}", (x(mark.train), y(mark.audit))
    across = segment((x(mark.train_interval[0]), at[1]), (x(mark.train_interval[1]), at[1]), kind=kind)
    upright = segment((at[0], y(mark.audit_interval[0])), (at[0], y(mark.audit_interval[1])), kind=kind)
    return join([across, upright, _shape(mark, at)])


def _shape(mark: ArmMark, at: XY) -> Markup:
    """Diamond: final. Ring: start. Small dot: another arm."""
    if mark.kind == "final":
        path = Markup("M{0} {1}l8 8l-8 8l-8 -8z").format(pixels(at[0]), pixels(at[1] - 8))
        return Markup('<path class="arm final" d="{}"><title>{}</title></path>').format(path, _said(mark))
    radius = 6 if mark.kind == "start" else 4.5
    return Markup('<circle class="arm {}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>').format(
        mark.kind, pixels(at[0]), pixels(at[1]), radius, _said(mark)
    )


def _arm_names(marks: Sequence[ArmMark], x: Scale, *, y: Scale, right: float) -> Markup:
    """Beside each dot, on the side where there is room."""
    parts = []
    for mark, at in zip(marks, apart([y(mark.audit) - 12 for mark in marks], gap=15), strict=True):
        ends = x(mark.train) + 12 + 7 * len(mark.name) > right
        place = (x(mark.train) + (-10 if ends else 10), at)
        parts.append(label(place, mark.name, kind=f"value {mark.kind}", anchor="end" if ends else "start"))
    return join(parts)


def _said(mark: ArmMark) -> str:
    return (
        f"{mark.name}: train {points(mark.train)} ({interval(mark.train_interval)}), "
        f"audit {points(mark.audit)} ({interval(mark.audit_interval)}), "
        f"retention {signed(mark.audit - mark.train)}, {mark.verdict}"
    )


def _whole(fraction: float) -> str:
    return "0" if abs(fraction) < 1e-9 else f"{fraction * 100:+.4g}".replace("-", "−")
