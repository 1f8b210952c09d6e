"""Confirmation of flips, its labels, and the figures of verse.md, section 6."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from heldout.stats import EditLabel, confirmed_flips, edit_label, flip_rate, repeat_rates

NAN = float("nan")
SCORES = st.sampled_from([0.0, 1.0, NAN])


def column(*scores: float) -> NDArray[np.float64]:
    return np.array(scores)


def test_a_second_run_decides_every_flip() -> None:
    before = column(0, 0, 0, 1, 1, 1, 1, 0)
    after = column(1, 1, 1, 0, 0, 0, 1, 0)
    again = column(1, 0, NAN, 0, 1, NAN, 0, 1)
    flips = confirmed_flips(before, after, again)
    assert (flips.fixed.tolist(), flips.broken.tolist()) == ([0], [3])
    assert (flips.flaky.tolist(), flips.infra.tolist()) == ([1, 4], [2, 5])
    assert flips.after.tolist() == [1, 0, 0, 0, 1, 1, 1, 0], "flaky and infra get their score before back"
    assert flips.n == 8
    assert flips.label is EditLabel.MIXED


def test_what_did_not_flip_needs_no_second_run() -> None:
    flips = confirmed_flips(column(0, 1), column(0, 1), column(NAN, 0))
    assert flips.after.tolist() == [0, 1]
    assert not any(len(group) for group in (flips.fixed, flips.broken, flips.flaky, flips.infra))
    assert flips.label is EditLabel.INERT


def test_graded_scores_are_confirmed_by_their_direction() -> None:
    flips = confirmed_flips(column(0.2, 0.5, 0.5), column(0.9, 0.1, 0.9), column(0.3, 0.4, 0.5))
    assert (flips.fixed.tolist(), flips.broken.tolist(), flips.flaky.tolist()) == ([0], [1], [2])
    assert flips.after.tolist() == [0.9, 0.1, 0.5]


@given(rows=st.lists(st.tuples(SCORES, SCORES, SCORES), min_size=1, max_size=20))
def test_invariant_9_a_missing_outcome_changes_neither_numerator_nor_denominator(
    rows: list[tuple[float, float, float]],
) -> None:
    """Taking out every task that is missing before or after changes no count but the number of tasks in the table."""
    before, after, again = (np.array(side) for side in zip(*rows, strict=True))
    whole = confirmed_flips(before, after, again)
    kept = ~np.isnan(before) & ~np.isnan(after)
    paired = confirmed_flips(before[kept], after[kept], again[kept])
    assert (whole.n, whole.label) == (paired.n, paired.label)
    for group in ("fixed", "broken", "flaky", "infra"):
        assert len(getattr(whole, group)) == len(getattr(paired, group))
    assert np.isnan(whole.after[np.isnan(after)]).all()
    assert np.array_equal(whole.after[kept], paired.after)


@given(rows=st.lists(st.tuples(SCORES, SCORES, SCORES), min_size=1, max_size=20))
def test_invariant_4_a_pass_that_a_second_run_does_not_confirm_is_never_counted_as_a_flip(
    rows: list[tuple[float, float, float]],
) -> None:
    before, after, again = (np.array(side) for side in zip(*rows, strict=True))
    flips = confirmed_flips(before, after, again)
    assert all(again[index] == after[index] != before[index] for index in (*flips.fixed, *flips.broken))
    counted = np.flatnonzero(np.nan_to_num(flips.after - before) != 0.0)
    assert sorted((*flips.fixed, *flips.broken)) == counted.tolist()


@pytest.mark.parametrize(
    ("fixed", "broken", "label"), [(1, 0, "EFFECTIVE"), (0, 2, "HARMFUL"), (3, 1, "MIXED"), (0, 0, "INERT")]
)
def test_labels(fixed: int, broken: int, label: str) -> None:
    assert edit_label(fixed, broken).value == label


def test_columns_of_different_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(2,\), \(3,\)"):
        confirmed_flips(np.zeros(2), np.zeros(3), np.zeros(2))


def _net_accepts(rng: np.random.Generator, disagreement: float, *, n: int = 50) -> tuple[bool, bool]:
    """One null round: tasks are noisy with probability 2p and then pass half of the time, so two runs differ on p."""
    noisy = rng.random(n) < 2.0 * disagreement
    steady = (rng.random(n) < 0.4).astype(float)
    before, after, again = (np.where(noisy, (rng.random(n) < 0.5).astype(float), steady) for _ in range(3))
    flips = confirmed_flips(before, after, again)
    return bool((after - before).sum() > 0), len(flips.fixed) > len(flips.broken)


@pytest.mark.parametrize(("disagreement", "plain", "confirmed"), [(0.16, 0.43, 0.40), (0.05, 0.37, 0.30)])
def test_confirmation_leaves_the_false_accepts_of_net_near_where_they_were(
    disagreement: float, plain: float, confirmed: float
) -> None:
    """verse.md 6.4: n = 50, noisy tasks at pass rate 1/2; simulated, and exact from the binomial."""
    rng = np.random.default_rng(64)
    rounds = [_net_accepts(rng, disagreement) for _ in range(8000)]
    for at, (stated, rate) in enumerate([(plain, disagreement), (confirmed, disagreement / 2)]):
        simulated = float(np.mean([accepted[at] for accepted in rounds]))
        flips = np.arange(51)
        ties = np.where(flips % 2 == 0, scipy_stats.binom.pmf(flips // 2, flips, 0.5), 0.0)
        exact = float((scipy_stats.binom.pmf(flips, 50, rate) * (1.0 - ties) / 2.0).sum())
        assert exact == pytest.approx(stated, abs=0.006)
        assert simulated == pytest.approx(exact, abs=0.02)


def test_rates_of_a_further_run_by_hand() -> None:
    """Of the ordered pairs that begin with a failure: task 1 has 4 (2 pass), task 2 has 2 (2 pass), task 3 has 6."""
    rates = repeat_rates(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]))
    assert rates.pass_once == pytest.approx((2 + 2 + 0) / (4 + 2 + 6))
    assert rates.pass_twice == pytest.approx((0 + 2 + 0) / (4 + 2 + 6))
    assert rates.fail_once == pytest.approx((2 + 2 + 0) / (2 + 4 + 6))
    assert rates.fail_twice == pytest.approx(2 / 12)


def test_rates_leave_out_what_was_not_measured() -> None:
    two = repeat_rates(np.array([[0.0, 1.0, NAN], [NAN, NAN, 0.0]]))
    assert (two.pass_once, two.fail_once) == (1.0, 1.0)
    assert (two.pass_twice, two.fail_twice) == (None, None)
    single = repeat_rates(np.array([[0.0], [1.0]]))
    assert single.pass_once is None
    assert repeat_rates(np.ones((3, 2))).pass_once is None
    assert flip_rate(column(0, 1), column(1, 1)) == 0.5
