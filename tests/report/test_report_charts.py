"""Charts: well-formed, in their frame, and saying in words what they draw."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.report.charts import GainMark, Series, candidate_dots, gain_forest, level_curve, share_bar
from heldout.report.marks import Dot, Point
from heldout.report.svg import apart, linear, ticks

_GAINS = st.floats(-1, 1, allow_nan=False)
_LEVELS = st.floats(0, 1, allow_nan=False)


def coordinates(svg: str) -> list[float]:
    return [float(value) for value in re.findall(r'(?:x|x1|x2|cx|width)="(-?[\d.]+)"', svg)]


@pytest.mark.parametrize(
    ("low", "high", "about", "expected"),
    [
        (0.0, 1.0, 5, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-0.03, 0.21, 6, [0, 0.05, 0.1, 0.15, 0.2]),
        (0.4, 0.44, 4, [0.4, 0.41, 0.42, 0.43, 0.44]),
    ],
)
def test_ticks_are_round(low: float, high: float, about: int, expected: list[float]) -> None:
    assert ticks(low, high, about=about) == pytest.approx(expected)


def test_scales_and_labels() -> None:
    assert linear((0, 10), (100, 200))(2.5) == 125
    assert apart([50, 52, 20], gap=15) == [50, 65, 20]


@given(st.lists(st.tuples(_GAINS, st.none() | st.tuples(_GAINS, _GAINS)), min_size=1, max_size=3))
def test_gains_of_any_size_stay_in_the_frame(rows: list[tuple[float, tuple[float, float] | None]]) -> None:
    marks = [GainMark("measured", "Audited", gain, ends) for gain, ends in rows]
    for width in (760, 340):
        svg = gain_forest(marks, width=width)
        ET.fromstring(svg)
        assert all(-5 <= value <= width for value in coordinates(svg))


@given(st.lists(_LEVELS, min_size=1, max_size=6), st.booleans())
def test_curves_of_any_level_are_well_formed(levels: list[float], steps: bool) -> None:
    points = tuple(Point(at, level, (level / 2, level)) for at, level in enumerate(levels))
    svg = level_curve([Series("believed", points, steps=steps)], generations=len(levels) - 1, width=340)
    ET.fromstring(svg)


def test_a_head_holds_its_score_until_the_next_decision() -> None:
    svg = level_curve([Series("believed", (Point(0, 0.4), Point(1, 0.6)))], generations=1, width=760)
    found = re.search(r'polyline class="line believed" points="([^"]+)"', svg)
    assert found is not None
    (x0, y0), (x1, y1), (x2, y2) = (corner.split(",") for corner in found.group(1).split())
    assert (x1, y1) == (x2, y0)
    assert x0 != x1
    assert y1 != y2


def test_shapes_differ_by_fate_and_titles_are_escaped() -> None:
    dots = [
        Dot(1, 0.0, 0.5, fate, f"<{fate}>", gold=0.4) for fate in ("accepted", "rejected", "undecided", "outscored")
    ]
    svg = candidate_dots(dots, [Point(1, 0.45)], generations=1, width=760)
    ET.fromstring(svg)
    assert [svg.count(shape) for shape in ("dot accepted", 'circle class="dot open', "<rect", "dot small")] == [1] * 4
    assert "&lt;accepted&gt;" in svg


def test_what_a_screen_reader_hears() -> None:
    svg = gain_forest([GainMark("measured", "Audited", 0.1, (0.02, 0.18))], width=760)
    assert 'aria-label="Gains: Audited +10.0 points (interval +2.0 to +18.0)"' in svg


@pytest.mark.parametrize(("share", "width"), [(0.5, "50"), (-1, "0"), (7, "100")])
def test_share_bars_stay_within_their_track(share: float, width: str) -> None:
    assert f'class="full" width="{width}"' in share_bar(share)
