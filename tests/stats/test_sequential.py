from __future__ import annotations

import math

import numpy as np
import pytest

from heldout.stats import ladder_accepts, pace_decision, pace_wealth


def _table(wins: int, losses: int, *, ties: int = 0) -> np.ndarray:
    """Losses first: the order in which wealth has its lowest peak."""
    return np.array([-1.0] * losses + [0.0] * ties + [1.0] * wins)


def test_wealth_by_hand() -> None:
    path = pace_wealth(np.array([1.0, 0.0, -1.0, math.nan]), np.array([2, 0, 3, 1]))
    assert path == pytest.approx([0.5, 0.75, 0.75, 0.75])


@pytest.mark.parametrize(
    ("wins", "losses", "accepts"),
    [(8, 0, True), (7, 0, False), (10, 1, True), (9, 1, False), (11, 2, True), (10, 2, False)],
)
def test_smallest_tables_of_pace(wins: int, losses: int, accepts: bool) -> None:
    differences = _table(wins, losses, ties=3)
    assert pace_decision(differences, np.arange(len(differences)), alpha=0.05).accepts is accepts


def test_pace_stops_at_the_peak() -> None:
    differences = np.array([1.0] * 8 + [-1.0] * 4)
    decision = pace_decision(differences, np.arange(12))
    assert decision.accepts
    assert decision.peak == pytest.approx(1.5**8)
    assert decision.final == pytest.approx(1.5**8 / 16)


def test_pace_without_tasks_keeps_its_stake() -> None:
    decision = pace_decision(np.array([]), np.array([], dtype=np.intp))
    assert (decision.accepts, decision.peak, decision.final) == (False, 1.0, 1.0)


def test_wealth_is_a_martingale_under_the_null() -> None:
    rng = np.random.default_rng(0)
    differences = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(20_000, 32))
    final = np.array([pace_wealth(row, np.arange(32))[-1] for row in differences])
    assert final.mean() == pytest.approx(1.0, abs=4 * final.std() / math.sqrt(20_000))


def test_pace_false_accepts_stay_below_alpha_over_2000_null_runs() -> None:
    rng = np.random.default_rng(1)
    differences = rng.choice([-1.0, 0.0, 1.0], p=[0.25, 0.5, 0.25], size=(2000, 256))
    accepted = [pace_decision(row, np.arange(256), alpha=0.05).accepts for row in differences]
    assert 0 < np.mean(accepted) <= 0.05


@pytest.mark.parametrize(
    ("wins", "losses", "accepts"), [(1, 0, False), (2, 0, True), (3, 1, False), (4, 1, True), (0, 0, False)]
)
def test_ladder_needs_more_than_a_standard_error(wins: int, losses: int, accepts: bool) -> None:
    """For scores of 0 and 1, gain > SE is (wins − losses)² > wins + losses, whatever n."""
    for n in (16, 64, 257):
        assert ladder_accepts(_table(wins, losses, ties=n - wins - losses)) is accepts


def test_ladder_needs_two_measured_tasks() -> None:
    assert not ladder_accepts(np.array([1.0, math.nan]))
    assert ladder_accepts(np.array([1.0, 1.0]))
