"""Pair counts and Spearman's correlation, by hand and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from heldout.stats import pair_agreement, spearman

VALUES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0])


def test_pairs_by_hand() -> None:
    """(1, 2, 3, 3) against (1, 3, 2, 4): agree 1-2, 1-3, 1-4, 2-4; disagree 2-3; tied 3-4."""
    found = pair_agreement([1, 2, 3, 3], [1, 3, 2, 4])
    assert (found.agree, found.disagree, found.ties, found.pairs) == (4, 1, 1, 6)
    assert (found.tied_first, found.tied_second) == (1, 0)
    assert found.share == pytest.approx(4 / 6)
    assert found.tau_b == pytest.approx(3 / math.sqrt(5 * 6))


def test_the_papers_count_of_pairs_has_its_share() -> None:
    """108 of 126 pairs: six groups of seven."""
    scores = np.tile(np.arange(7.0), 6)
    groups = tuple(f"benchmark {place // 7}" for place in range(42))
    assert pair_agreement(scores, scores, groups=groups).pairs == 126
    assert pair_agreement(scores, scores + np.repeat(np.arange(6.0) * -100, 7), groups=groups).share == 1.0
    assert pair_agreement(scores, scores).pairs == 42 * 41 // 2


@given(rows=st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=15))
def test_tau_and_spearman_agree_with_scipy(rows: list[tuple[float, float]]) -> None:
    first, second = (np.array(side) for side in zip(*rows, strict=True))
    found, rho = pair_agreement(first, second), spearman(first, second)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        assert found.tau_b is None
        assert rho is None
        return
    assert found.tau_b == pytest.approx(float(scipy_stats.kendalltau(first, second).statistic))
    assert rho == pytest.approx(float(scipy_stats.spearmanr(first, second).statistic))


def test_what_was_not_measured_is_left_out_of_both() -> None:
    first, second = [1.0, math.nan, 3.0, 2.0], [2.0, 5.0, math.nan, 4.0]
    assert pair_agreement(first, second).pairs == 1
    assert spearman(first, second) == pytest.approx(1.0)
    assert spearman([1.0, math.nan], [1.0, 2.0]) is None
    assert pair_agreement([1.0], [1.0]).share is None


def test_columns_of_different_things_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        spearman([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="a group of each of 2 things, got 1"):
        pair_agreement([1, 2], [1, 2], groups=("a",))
