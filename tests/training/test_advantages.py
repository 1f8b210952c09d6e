"""Advantages against numbers computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heldout.training.advantages import (
    advantage_rows,
    clamp_invalid,
    group_advantages,
    reward_array,
    whitened_advantages,
    zero_variance_share,
)


def test_anchorloops_hand_case_five_answers_against_three() -> None:
    found = group_advantages([1.0] * 5 + [0.0] * 3, ["q"] * 8)
    assert found.values == pytest.approx([0.7246] * 5 + [-1.2076] * 3, abs=5e-5)
    assert found.values.sum() == pytest.approx(0.0, abs=1e-12)


def test_the_deviation_has_n_minus_one_and_eps_beside_it() -> None:
    # mean 2, squares 1 + 1 + 0 over 2, so std 1; eps 1 halves everything.
    assert group_advantages([1.0, 3.0, 2.0], [0, 0, 0], eps=1.0).values == pytest.approx([-0.5, 0.5, 0.0])


def test_the_centred_form_divides_by_nothing() -> None:
    found = group_advantages([1.0, 0.0, 0.0, 0.0, 5.0, 7.0], [0, 0, 0, 0, 1, 1], scale=False)
    assert found.values == pytest.approx([0.75, -0.25, -0.25, -0.25, -1.0, 1.0])


def test_groups_may_stand_in_any_order() -> None:
    straight = group_advantages([0.0, 1.0, 4.0, 8.0], ["a", "a", "b", "b"]).values
    mixed = group_advantages([4.0, 0.0, 8.0, 1.0], ["b", "a", "b", "a"]).values
    assert mixed[[1, 3, 0, 2]] == pytest.approx(straight)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -7.3, 0.0])
def test_a_group_of_equal_rewards_gets_exactly_zero(value: float) -> None:
    # The mean of equal floats need not be that float; divided by eps the rest would be an advantage.
    for scale in (True, False):
        found = group_advantages([value] * 7, [0] * 7, scale=scale)
        assert (found.values == 0.0).all()
        assert found.flat.all()
        assert found.zero_variance_share == 1.0
        assert (group_advantages([value] * 7, [0] * 7, scale=scale, units="aaabbcc").values == 0.0).all()


def test_the_share_of_zero_variance_groups_counts_groups_with_a_reward() -> None:
    rewards = [1.0, 1.0, 0.0, 1.0, None, None, 0.5, None]
    groups = ["equal", "equal", "mixed", "mixed", "unmeasured", "unmeasured", "alone", "alone"]
    found = group_advantages(rewards, groups)
    assert (found.groups, found.zero_variance, found.missing) == (3, 2, 3)
    assert found.zero_variance_share == pytest.approx(2 / 3)
    assert found.flat.tolist() == [True, True, False, False, False, False, True, False]
    assert zero_variance_share(rewards, groups) == pytest.approx(2 / 3)
    assert zero_variance_share([None], ["a"]) is None


def test_a_missing_reward_leaves_its_group_and_is_never_zero() -> None:
    found = group_advantages([1.0, None, 0.0, math.nan], [0, 0, 0, 0])
    assert found.values[[0, 2]] == pytest.approx(group_advantages([1.0, 0.0], [0, 0]).values)
    assert np.isnan(found.values[[1, 3]]).all()
    assert found.rows()[1] is None
    assert found.rows()[0] == pytest.approx(0.5 / (math.sqrt(0.5) + 1e-6))


def test_groups_without_variance_may_be_dropped_and_are_told_from_rows_without_a_reward() -> None:
    found = group_advantages([1.0, 0.0, 1.0, 1.0, None], ["a", "a", "b", "b", "b"], scale=False)
    assert found.rows() == (0.5, -0.5, 0.0, 0.0, None)
    assert found.rows(flat=None) == (0.5, -0.5, None, None, None)
    assert found.rows(flat=-0.1) == (0.5, -0.5, -0.1, -0.1, None)
    assert (int(found.flat.sum()), found.missing) == (2, 1)


def test_uniskills_step_rows_weigh_long_trajectories_more_and_units_do_not() -> None:
    # A success of 2 steps against a failure of 8 (specification, section 5): 1.90 over rows, 0.71 over trajectories.
    rewards, trajectories = [1.0] * 2 + [0.0] * 8, ["s"] * 2 + ["f"] * 8
    rows = group_advantages(rewards, [0] * 10).values
    units = group_advantages(rewards, [0] * 10, units=trajectories).values
    assert rows[0] == pytest.approx(1.90, abs=0.005)
    assert units[0] == pytest.approx(0.71, abs=0.005)
    assert units[-1] == pytest.approx(-0.71, abs=0.005)


def test_trajectories_of_equal_mean_have_no_variance() -> None:
    found = group_advantages([0.0, 2.0, 1.0], [0, 0, 0], units=["a", "a", "b"])
    assert (found.values == 0.0).all()
    assert found.zero_variance == 1


def test_whitening_uses_the_unbiased_variance_over_active_rows_alone() -> None:
    # mean 0.1, variance (0.0025 + 0.0025) / 1 = 0.005
    found = whitened_advantages([0.05, 0.15, 9.0, None], active=[True, True, False, True])
    expected = 0.05 / math.sqrt(0.005 + 1e-8)
    assert found[:2] == pytest.approx([-expected, expected])
    assert advantage_rows(found)[2:] == (None, None)


def test_whitening_a_single_row_gives_zero() -> None:
    assert whitened_advantages([0.15]).tolist() == [0.0]
    assert whitened_advantages([0.1] * 5).tolist() == [0.0] * 5
    assert whitened_advantages([]).size == 0


def test_an_invalid_rows_advantage_is_never_positive() -> None:
    found = clamp_invalid(np.array([2.0, 2.0, -1.0, np.nan]), [True, False, False, False])
    assert found[:3].tolist() == [2.0, 0.0, -1.0]
    assert np.isnan(found[3])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="3 rewards and 2 labels"):
        group_advantages([1.0, 2.0, 3.0], [0, 0])
    with pytest.raises(ValueError, match="row 1 has an infinite reward"):
        reward_array([0.0, math.inf])
    with pytest.raises(ValueError, match="marks of activity"):
        whitened_advantages([1.0], active=[True, False])
    with pytest.raises(ValueError, match="marks of validity"):
        clamp_invalid(np.zeros(2), [True])
