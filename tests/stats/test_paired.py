from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats as scipy_stats

from heldout.stats import (
    mcnemar_exact,
    mean_interval,
    mean_measured,
    paired_counts,
    paired_difference,
    paired_t_test,
)

NAN = math.nan
SCORES = arrays(np.float64, (6, 3), elements=st.sampled_from([0.0, 1.0, NAN]))


def test_counts_by_hand() -> None:
    a = np.array([0.0, 1.0, 1.0, 0.0, NAN, 1.0])
    b = np.array([1.0, 0.0, 1.0, 0.0, 1.0, NAN])
    counts = paired_counts(a, b)
    assert (counts.n, counts.fixed, counts.broken, counts.both, counts.neither, counts.missing) == (4, 1, 1, 1, 1, 2)


def test_counts_use_means_over_measured_repeats() -> None:
    a = np.array([[1.0, NAN, 0.0], [0.0, 0.0, 0.0], [NAN, NAN, NAN], [1 / 3, 1 / 3, 1.0]])
    b = np.array([[1.0, 0.0, NAN], [0.0, 1.0, NAN], [1.0, 1.0, 1.0], [1.0, 1 / 3, 1 / 3]])
    counts = paired_counts(a, b)
    # 0.5 = 0.5 (both), 0 < 0.5 (fixed), one side without repeats (missing), the same mean in another order (both).
    assert (counts.n, counts.fixed, counts.broken, counts.both, counts.neither, counts.missing) == (3, 1, 0, 2, 0, 1)


@given(a=SCORES, b=SCORES)
def test_counts_add_up_and_swap(a: np.ndarray, b: np.ndarray) -> None:
    there, back = paired_counts(a, b), paired_counts(b, a)
    assert there.fixed + there.broken + there.both + there.neither == there.n
    assert there.n + there.missing == 6
    assert (there.fixed, there.broken) == (back.broken, back.fixed)


@given(a=SCORES, b=SCORES)
def test_difference_is_antisymmetric_and_means_match(a: np.ndarray, b: np.ndarray) -> None:
    there, back = paired_difference(a, b), paired_difference(b, a)
    if there.mean is None or there.a_mean is None or there.b_mean is None or back.mean is None:
        assert there.n == 0
        return
    assert there.mean == pytest.approx(-back.mean)
    assert there.mean == pytest.approx(there.b_mean - there.a_mean)
    if there.interval is not None:
        assert there.interval[0] <= there.mean <= there.interval[1]
        assert there.interval[1] > there.interval[0]


def test_interval_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((40, 3)), rng.random((40, 3))
    result = paired_difference(a, b, confidence=0.9)
    differences = b.mean(axis=1) - a.mean(axis=1)
    expected = scipy_stats.ttest_rel(b.mean(axis=1), a.mean(axis=1))
    assert result.standard_error == pytest.approx(scipy_stats.sem(differences))
    assert result.interval == pytest.approx(tuple(expected.confidence_interval(0.9)))
    assert paired_t_test(a, b) == pytest.approx(expected.pvalue)
    assert result.method == "t"


def test_difference_by_hand() -> None:
    # d = 1, 0, 0, -1, 1: mean 0.2, variance (0.64 + 0.04 + 0.04 + 1.44 + 0.64) / 4 = 0.7, SE = sqrt(0.14).
    result = paired_difference(np.array([0.0, 0, 1, 1, 0]), np.array([1.0, 0, 1, 0, 1]))
    assert result.mean == pytest.approx(0.2)
    assert result.standard_error == pytest.approx(math.sqrt(0.14))
    # 0.2 + 2.776445 * 0.374166 = 1.24 is cut: a mean of differences in [-1, 1] lies there too.
    assert result.interval == pytest.approx((0.2 - 2.776445 * math.sqrt(0.14), 1.0))


def test_fewer_than_two_pairs_have_no_interval() -> None:
    one = paired_difference(np.array([0.0, NAN]), np.array([1.0, 1.0]))
    assert (one.n, one.missing, one.mean, one.standard_error, one.interval) == (1, 1, 1.0, None, None)
    none = paired_difference(np.array([NAN]), np.array([1.0]))
    assert (none.n, none.missing, none.mean, none.a_mean, none.interval) == (0, 1, None, None, None)
    assert none.method == "none"
    assert paired_t_test(np.array([0.0]), np.array([1.0])) is None


def test_no_discordance_is_no_certainty() -> None:
    same = np.ones(16)
    result = paired_difference(same, same)
    bound = 1 - 0.05 ** (1 / 16)
    assert (result.standard_error, result.method) == (0.0, "no spread")
    assert result.interval == pytest.approx((-bound, bound))
    assert result.interval[1] == pytest.approx(3 / 16, rel=0.1)  # the rule of three
    assert paired_t_test(same, same) == 1.0


def test_equal_gains_everywhere_bound_the_unseen_rest() -> None:
    zeros, ones = np.zeros(10), np.ones(10)
    result = paired_difference(zeros, ones)
    assert result.interval == pytest.approx((2 * 0.05**0.1 - 1, 1.0))
    assert paired_t_test(zeros, ones) == pytest.approx(2 / 1024)


def test_no_spread_bound_covers_the_truth() -> None:
    """Of samples without spread and of t intervals together, at least 95 % cover, for rare discordance."""
    rng = np.random.default_rng(3)
    truth, n, covered = 0.02, 20, 0
    for _ in range(2000):
        low, high = mean_interval((rng.random(n) < truth).astype(float)).interval or (0.0, 0.0)
        covered += low <= truth <= high
    assert covered / 2000 >= 0.95


def test_invariant_10_audit_interval_covers_zero_under_aa() -> None:
    """Under A/A the audited gain's 95 % interval covers 0 in 93 to 97 % of 1,000 simulated runs."""
    rng = np.random.default_rng(10)
    difficulty = rng.normal(size=200)
    skill = 1 / (1 + np.exp(-(0.4 + 2 * difficulty)))
    covered = 0
    for _ in range(1000):
        start, final = (rng.random((2, 200)) < skill).astype(float)
        low, high = paired_difference(start, final).interval or (1.0, 1.0)
        covered += low <= 0.0 <= high
    assert 930 <= covered <= 970


def test_two_published_verse_files(shared_data: Path) -> None:
    """108 tasks, three repeats each: difference 3.09 points, standard error 2.65; the interval includes zero."""
    outcomes = [
        json.loads((shared_data / "verse_outcomes" / f"{name}_id.json").read_text())["outcomes"]
        for name in ("meta_harness", "verse_mh")
    ]
    tasks = sorted(outcomes[0])
    assert tasks == sorted(outcomes[1])
    a, b = (np.array([table[task] for task in tasks], dtype=float) for table in outcomes)
    result = paired_difference(a, b)
    assert (result.n, result.missing) == (108, 0)
    assert round(100 * result.mean, 2) == 3.09
    assert round(100 * result.standard_error, 2) == 2.65
    assert result.interval[0] < 0 < result.interval[1]


@pytest.mark.parametrize(("wins", "losses"), [(5, 0), (7, 1), (4, 0), (9, 2), (3, 8), (0, 0), (120, 90)])
def test_mcnemar_agrees_with_scipy(wins: int, losses: int) -> None:
    if wins + losses == 0:
        assert mcnemar_exact(0, 0) == mcnemar_exact(0, 0, alternative="greater") == 1.0
        return
    for alternative in ("two-sided", "greater"):
        expected = scipy_stats.binomtest(wins, wins + losses, 0.5, alternative=alternative).pvalue
        assert mcnemar_exact(wins, losses, alternative=alternative) == pytest.approx(expected, rel=1e-12)


def test_mcnemar_by_hand() -> None:
    assert mcnemar_exact(4, 0, alternative="greater") == 1 / 16
    assert mcnemar_exact(5, 0, alternative="greater") == 1 / 32
    assert mcnemar_exact(7, 1, alternative="greater") == 9 / 256
    assert mcnemar_exact(6, 1) == 16 / 128


def test_mcnemar_false_accepts_stay_below_alpha_over_2000_null_runs() -> None:
    rng = np.random.default_rng(1)
    discordant = rng.binomial(64, 0.2, size=2000)
    wins = rng.binomial(discordant, 0.5)
    tables = zip(wins.tolist(), (discordant - wins).tolist(), strict=True)
    accepted = [mcnemar_exact(won, lost, alternative="greater") <= 0.05 for won, lost in tables]
    assert np.mean(accepted) <= 0.05


def test_mcnemar_refuses_negative_counts() -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        mcnemar_exact(-1, 2)


def test_tables_of_different_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        paired_counts(np.zeros(3), np.zeros(4))


def test_mean_measured_leaves_missing_out() -> None:
    means = mean_measured(np.array([[1.0, NAN, 0.0], [NAN, NAN, NAN], [1.0, 1.0, 1.0]]))
    assert means[0] == 0.5
    assert np.isnan(means[1])
    assert means[2] == 1.0
