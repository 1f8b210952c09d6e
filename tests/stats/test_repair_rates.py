"""Exact acceptance rates of u = R - weight B, against multinomials of scipy and the figures of gso.md, section 6.2."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats as scipy_stats

from heldout.stats import confirmed_flips, confirmed_null_rate, null_accept_rate, repair_accept_rate, repair_power


def _multinomial(n: int, repaired: float, broken: float, *, weight: float, min_u: float) -> float:
    pairs = [(r, b) for r in range(n + 1) for b in range(n + 1 - r) if r > weight * b and r - weight * b >= min_u]
    drawn = [(r, b, n - r - b) for r, b in pairs]
    return float(scipy_stats.multinomial.pmf(drawn, n, [repaired, broken, 1 - repaired - broken]).sum())


@pytest.mark.parametrize("n", [3, 7, 20, 40])
@pytest.mark.parametrize(("weight", "min_u"), [(2.0, 1.0), (1.0, 1.0), (2.0, 2.0), (1.5, 0.0), (4.0, 3.0)])
def test_tasks_that_are_alike_are_a_multinomial(n: int, weight: float, min_u: float) -> None:
    for repaired, broken in ((0.05, 0.05), (0.2, 0.1), (0.0, 0.3), (0.6, 0.4)):
        ours = repair_accept_rate(np.full(n, repaired), np.full(n, broken), weight=weight, min_u=min_u)
        assert ours == pytest.approx(_multinomial(n, repaired, broken, weight=weight, min_u=min_u), abs=1e-12)


def test_by_hand_for_two_tasks() -> None:
    """p = 0.5: R and B of (1, 0) in 2 x 1/4 x 1/2, of (2, 0) in 1/16; 4/16 + 1/16. (1, 1) has u = -1."""
    assert null_accept_rate(2, 0.5) == pytest.approx(5 / 16)
    assert null_accept_rate(2, 0.5, min_u=2) == pytest.approx(1 / 16)
    assert null_accept_rate(0, 0.5) == 0.0
    assert null_accept_rate(20, 0.0) == 0.0


def test_tasks_of_different_noise_against_every_outcome() -> None:
    noise = np.array([0.0, 0.1, 0.4, 1.0, 0.3])
    rate = 0.0
    for moves in itertools.product((1, -1, 0), repeat=len(noise)):
        repairs, breaks = moves.count(1), moves.count(-1)
        if repairs > 2 * breaks:
            rate += float(np.prod([p / 2 if move else 1 - p for p, move in zip(noise, moves, strict=True)]))
    assert null_accept_rate(5, noise) == pytest.approx(rate, abs=1e-12)
    assert null_accept_rate(5, noise[::-1]) == pytest.approx(rate, abs=1e-12), "their order does not matter"


def test_uneven_noise_accepts_less_often_than_the_same_noise_spread_out() -> None:
    """Two of twenty tasks that always differ, against all at 10 %."""
    uneven = np.array([1.0] * 2 + [0.0] * 18)
    assert null_accept_rate(20, uneven) == pytest.approx(0.25)  # both repairs, of four ways
    assert null_accept_rate(20, 0.1) == pytest.approx(0.2657, abs=0.0001)


@pytest.mark.parametrize(
    ("n", "row", "weight", "min_u"),
    [
        (20, (0.15, 0.25, 0.27, 0.24, 0.20), 2, 1),
        (20, (0.15, 0.27, 0.35, 0.39, 0.41), 1, 1),
        (20, (0.01, 0.06, 0.11, 0.13, 0.12), 2, 2),
        (40, (0.22, 0.26, 0.22, 0.18, 0.13), 2, 1),
    ],
)
def test_the_table_of_the_specification(n: int, row: tuple[float, ...], weight: int, min_u: int) -> None:
    rates = [null_accept_rate(n, p, weight=weight, min_u=min_u) for p in (0.02, 0.05, 0.10, 0.16, 0.25)]
    assert rates == pytest.approx(list(row), abs=0.01)


@pytest.mark.parametrize(("n", "strict", "plain"), [(20, 0.52, 0.71), (40, 0.71, 0.81)])
def test_the_price_of_a_higher_bar_in_power(n: int, strict: float, plain: float) -> None:
    """gso.md 6.2: a true repair of 10 % of the tasks, with 5 % noise."""
    assert repair_power(n, 0.05, 0.1) == pytest.approx(plain, abs=0.005)
    assert repair_power(n, 0.05, 0.1, min_u=2) == pytest.approx(strict, abs=0.005)


@pytest.mark.parametrize(
    ("disagreement", "before", "after"), [(0.05, 0.25, 0.18), (0.10, 0.27, 0.25), (0.16, 0.24, 0.27)]
)
def test_confirming_flips_by_one_rerun_does_not_mend_the_false_accepts(
    disagreement: float, before: float, after: float
) -> None:
    """gso.md 6.2, n = 20, noisy tasks at pass rate 1/2; exact, and by running the confirmation."""
    assert null_accept_rate(20, disagreement) == pytest.approx(before, abs=0.006)
    exact = confirmed_null_rate(20, disagreement)
    assert exact == pytest.approx(after, abs=0.006)
    rng = np.random.default_rng(62)
    accepted = 0
    for _ in range(4000):
        noisy = rng.random(20) < 2 * disagreement
        steady = (rng.random(20) < 0.4).astype(float)
        runs = [np.where(noisy, (rng.random(20) < 0.5).astype(float), steady) for _ in range(3)]
        flips = confirmed_flips(*runs)
        accepted += len(flips.fixed) > 2 * len(flips.broken)
    assert accepted / 4000 == pytest.approx(exact, abs=3.5 * np.sqrt(0.25 / 4000))


def test_a_rerun_of_both_sides_confirms_a_quarter_of_the_flips() -> None:
    rng = np.random.default_rng(63)
    accepted = 0
    for _ in range(4000):
        passed = (rng.random((2, 2, 20)) < 0.5).astype(float)  # round, side, task
        move, again = np.where(rng.random(20) < 0.32, passed[:, 1] - passed[:, 0], 0.0)
        confirmed = np.where(move == again, move, 0.0)
        accepted += (confirmed > 0).sum() > 2 * (confirmed < 0).sum()
    exact = confirmed_null_rate(20, 0.16, both=True)
    assert exact == pytest.approx(null_accept_rate(20, 0.04))
    assert accepted / 4000 == pytest.approx(exact, abs=3.5 * np.sqrt(0.25 / 4000))


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 1"):
        repair_accept_rate(np.array([0.6]), np.array([0.5]))
    with pytest.raises(ValueError, match="negative"):
        repair_accept_rate(np.array([-0.1]), np.array([0.5]))
    with pytest.raises(ValueError, match="not a number"):
        null_accept_rate(3, float("nan"))
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        repair_accept_rate(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="one of each of 4 tasks"):
        null_accept_rate(4, [0.1, 0.2])
    with pytest.raises(ValueError, match=r"at most 0\.5"):
        confirmed_null_rate(20, 0.6)
