"""Rewards of several parts."""

from __future__ import annotations

import pytest

from heldout.training.rewards import component_stats, silent_components, total_rewards


def test_a_part_is_described_by_its_measured_rows() -> None:
    stats = component_stats({"fmt": [0.0, 1.0, 2.0, None], "anc": [0.0, 0.0, 0.0, 0.0]})
    fmt, anc = stats["fmt"], stats["anc"]
    assert (fmt.rows, fmt.missing_share, fmt.mean, fmt.variance) == (4, 0.25, 1.0, 1.0)
    assert fmt.zero_share == pytest.approx(1 / 3)
    assert (anc.variance, anc.zero_share) == (0.0, 1.0)


def test_what_was_not_measured_has_no_mean() -> None:
    stats = component_stats({"tool": [None, None]})["tool"]
    assert (stats.mean, stats.variance, stats.zero_share, stats.missing_share) == (None, None, None, 1.0)


def test_equal_values_have_exactly_no_variance() -> None:
    assert component_stats({"a": [0.1] * 3})["a"].variance == 0.0


def test_the_sum_is_missing_where_a_part_is() -> None:
    parts = {"fmt": [1.0, 1.0], "skill": [0.5, None]}
    assert total_rewards(parts) == (1.5, None)
    assert total_rewards(parts, {"skill": -2.0}) == (0.0, None)


def test_a_part_without_variance_for_some_steps_is_told() -> None:
    alive = component_stats({"fmt": [0.0, 1.0], "anc": [0.0, 1.0]})
    dead = component_stats({"fmt": [0.0, 1.0], "anc": [0.0, 0.0]})
    unknown = component_stats({"fmt": [0.0, 1.0], "anc": [None, 0.0]})
    assert silent_components([alive, dead, dead, dead], 3) == ("anc",)
    assert silent_components([dead, alive, dead, dead], 3) == ()
    assert silent_components([dead, dead], 3) == ()
    assert silent_components([dead, unknown, dead], 3) == ()


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="different numbers of rows"):
        component_stats({"a": [1.0], "b": [1.0, 2.0]})
    with pytest.raises(ValueError, match="weights of tol"):
        total_rewards({"tool": [1.0]}, {"tol": 1.0})


def test_a_part_that_a_row_has_not_by_rule_adds_nothing_and_is_in_no_figure() -> None:
    """Step rows as UniSkill has them: without a skill there is no reward of a skill."""
    parts = {"fmt": [0.05, 0.05, -0.05, 0.05], "skill": [0.03, None, None, None]}
    absent = {"skill": [False, True, True, False]}
    assert total_rewards(parts, absent=absent) == (pytest.approx(0.08), 0.05, -0.05, None)
    stats = component_stats(parts, absent=absent)
    skill = stats["skill"]
    assert (skill.rows, skill.absent, skill.missing_share, skill.mean, skill.zero_share) == (2, 2, 0.5, 0.03, 0.0)
    assert (stats["fmt"].rows, stats["fmt"].absent) == (4, 0)
    everywhere = component_stats({"skill": [None]}, absent={"skill": [True]})["skill"]
    assert (everywhere.rows, everywhere.absent, everywhere.missing_share, everywhere.mean) == (0, 1, 0.0, None)


def test_an_absence_that_contradicts_the_rewards_is_refused() -> None:
    with pytest.raises(ValueError, match="row 0 has a reward of a, which is said to be absent"):
        total_rewards({"a": [1.0, None]}, absent={"a": [True, True]})
    with pytest.raises(ValueError, match="2 rewards and 1 marks of absence of a"):
        component_stats({"a": [1.0, None]}, absent={"a": [True]})
    with pytest.raises(ValueError, match="absences of b, which are no parts"):
        total_rewards({"a": [1.0]}, absent={"b": [True]})
