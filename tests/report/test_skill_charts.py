"""Charts of loops over skills: well-formed, in their frame, regions named, and saying in words what they draw."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.report.numbers import count, tally
from heldout.report.retention_chart import ArmMark, retention_chart
from heldout.report.round_plot import RoundMark, round_plot

_GAIN = st.floats(-1, 1, allow_nan=False)
_ENDS = st.tuples(_GAIN, _GAIN)


def arm(train: float, audit: float, *, kind: str = "final", name: str = "final", spread: float = 0.05) -> ArmMark:
    ends = (train - spread, train + spread), (audit - spread, audit + spread)
    return ArmMark(kind, name, train, ends[0], audit, ends[1], "kept")


def attributes(svg: str, *names: str) -> list[float]:
    return [float(value) for name in names for value in re.findall(rf'\b{name}="(-?[\d.]+)"', svg)]


@given(st.lists(st.tuples(_GAIN, _ENDS, _GAIN, _ENDS), min_size=1, max_size=4))
def test_arms_of_any_gain_stay_in_the_frame_with_room_for_every_region(
    rows: list[tuple[float, tuple[float, float], float, tuple[float, float]]],
) -> None:
    marks = [ArmMark("other", "arm", train, ends, audit, bars, "lost") for train, ends, audit, bars in rows]
    for width, height in ((760, 440), (340, 360)):
        svg = retention_chart(marks, width=width)
        ET.fromstring(svg)
        drawn = svg.partition("<text")[0] + "".join(re.findall(r"<(?:line|circle)[^>]*>", svg))
        assert all(0 <= value <= width for value in attributes(drawn, "x1", "x2", "cx"))
        assert all(0 <= value <= height for value in attributes(drawn, "y1", "y2", "cy"))
        for region in ("kept", "partly kept", "lost or harmful", "no train"):
            assert f">{region}</text>" in svg


def test_the_diagonal_joins_equal_gains_and_dots_lie_where_their_gains_say() -> None:
    svg = retention_chart([arm(0.3, 0.3, kind="start", name="a"), arm(0.3, 0.1, kind="other", name="b")], width=760)
    diagonal = re.findall(r'class="diagonal" x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)"', svg)
    x1, y1, x2, y2 = map(float, diagonal[0])
    dots = re.findall(r'<circle class="arm \w+" cx="([\d.]+)" cy="([\d.]+)"', svg)
    (a_x, a_y), (b_x, b_y) = [(float(x), float(y)) for x, y in dots]
    on_diagonal = y1 + (a_x - x1) / (x2 - x1) * (y2 - y1)
    assert a_y == pytest.approx(on_diagonal, abs=0.2), "equal gains lie on the diagonal"
    assert b_x == a_x
    assert b_y > a_y, "less audit gain lies lower"


def test_each_kind_of_arm_has_a_shape_and_intervals_on_both_axes() -> None:
    marks = [arm(0.2, 0.1, kind="start", name="start"), arm(0.3, 0.2), arm(0.1, 0.0, kind="other", name="one_shot")]
    svg = retention_chart(marks, width=760)
    assert [svg.count(f'class="bar {kind}"') for kind in ("start", "final", "other")] == [2, 2, 2]
    assert '<path class="arm final"' in svg
    assert '<circle class="arm start"' in svg
    assert '<circle class="arm other"' in svg


def test_what_a_screen_reader_hears_and_what_a_pointer_shows() -> None:
    svg = retention_chart([arm(0.2, 0.1, name="<final>")], width=760, simulated=True)
    assert 'role="img" aria-label="Simulation. Train gain against audit gain' in svg
    told = (
        "&lt;final&gt;: train +20.0 points (+15.0 to +25.0), audit +10.0 points (+5.0 to +15.0), retention −10.0, kept"
    )
    assert told in svg.partition(">")[0]
    assert f"<title>{told}</title>" in svg


def test_a_round_plot_steps_with_the_head_and_says_size_and_cost() -> None:
    rounds = [
        RoundMark(0, 100),
        RoundMark(1, 120, ((120, "accepted"),), 50.0),
        RoundMark(2, 120, ((150, "rejected"),), 75.0),
    ]
    for width in (760, 340):
        svg = round_plot(rounds, width=width, cost_name="tokens", write=count)
        ET.fromstring(svg)
        assert 'aria-label="Words of the head from 100 to 120; tokens by round: 50, 75"' in svg
        assert [svg.count(kind) for kind in ('class="dot accepted"', 'class="dot open"', 'class="cost"')] == [1, 1, 2]
        assert "<title>round 2: 150 words, rejected</title>" in svg
        heights = [float(one) for one in re.findall(r'class="cost"[^>]*height="([\d.]+)"', svg)]
        assert heights[1] / heights[0] == pytest.approx(1.5, abs=0.02)


def test_a_plot_without_readable_folders_or_costs_still_draws() -> None:
    svg = round_plot([RoundMark(0, None), RoundMark(1, None, (), 0.0)], width=340, cost_name="evaluations", write=count)
    ET.fromstring(svg)
    assert 'class="cost"' not in svg


@pytest.mark.parametrize(
    ("value", "text"), [(1, "+1"), (-2.0, "−2"), (0, "0"), (0.42, "+0.4"), (-0.04, "0"), (None, "not measured")]
)
def test_a_tally_of_tasks_has_a_sign(value: float | None, text: str) -> None:
    assert tally(value) == text
