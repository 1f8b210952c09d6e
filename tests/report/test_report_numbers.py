"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.report import numbers


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.125, "+12.5"), (-0.032, "−3.2"), (0.0, "0.0"), (-0.0004, "0.0"), (0.0004, "0.0"), (1.0, "+100.0")],
)
def test_differences_are_points_with_a_sign_unless_they_round_to_nothing(fraction: float, text: str) -> None:
    assert numbers.signed(fraction) == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_unknown_is_not_measured_and_never_zero(value: float | None) -> None:
    for write in (numbers.signed, numbers.points, numbers.percent, numbers.plus_minus, numbers.count, numbers.duration):
        assert write(value) == "not measured"
    assert numbers.interval(None) == "not measured"
    assert numbers.interval((math.nan, 0.1)) == "not measured"


def test_known_answers() -> None:
    assert numbers.points(0.125) == "+12.5 points"
    assert numbers.percent(0.6246) == "62.5 %"
    assert numbers.plus_minus(0.0316) == "± 3.2"
    assert numbers.interval((-0.012, 0.198)) == "−1.2 to +19.8"
    assert [numbers.count(value) for value in (12080, 3.5, 4.0)] == ["12,080", "3.5", "4"]
    assert [numbers.dollars(value) for value in (0, 0.0042, 0.42, 1234.5)] == ["$0", "$0.0042", "$0.42", "$1,234.50"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.31, "0.3 s"), (9.7, "10 s"), (42.4, "42 s"), (59.7, "1 min 0 s"), (125.2, "2 min 5 s"), (11520, "3 h 12 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert numbers.duration(seconds) == text


@given(st.text())
def test_ascii_text_is_ascii(text: str) -> None:
    assert numbers.ascii_text(text).isascii()


def test_ascii_keeps_the_meaning_of_our_own_signs() -> None:
    assert numbers.ascii_text("−3.2 ± 1.0 → 5 · “") == "-3.2 +/- 1.0 -> 5 | ?"
