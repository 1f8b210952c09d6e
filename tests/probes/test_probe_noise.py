"""What no effect shows in probes and screens: by hand, by simulation, and against the paper's released outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from heldout.probes import FlipRates, measured_rates, probe_noise, rates_at_half


def test_rates_at_one_half_by_hand() -> None:
    rates = rates_at_half(0.16, failing=0.64)
    # Noisy share 0.32; 0.16 of all tasks are noisy and failing, that is a quarter of the failing 0.64.
    assert rates.gained == pytest.approx(0.125)
    assert rates.confirmed == pytest.approx(0.0625)
    assert rates.lost == pytest.approx(0.16 / 0.72)


def test_rates_at_one_half_stay_below_those_of_a_surely_noisy_task() -> None:
    assert rates_at_half(0.3, failing=0.2).gained == 0.5
    assert rates_at_half(0.3, failing=0.0).gained == 0.5
    assert rates_at_half(0.0, failing=0.0) == FlipRates(0.0, 0.0, 0.0, 0.0)
    assert rates_at_half(0.3, failing=1.0).lost == 0.5
    with pytest.raises(ValueError, match="shares"):
        rates_at_half(1.2, failing=0.5)


def test_probe_noise_by_hand() -> None:
    found = probe_noise(FlipRates(0.2, 0.5, 0.25, 0.5), targets=2, failing=1, passing=1, screens=2)
    assert (found.disagreement, found.false_flip, found.false_confirmed) == (0.2, 0.5, 0.25)
    assert found.false_support == pytest.approx(1 - 0.75**2)
    assert found.screen_net == 0.0
    # Nets −1, 0, 1 with ¼, ½, ¼; the larger of two: −1 with 1/16, 0 with 8/16, 1 with 7/16.
    assert found.screen_best == pytest.approx(6 / 16)


def test_a_world_without_noise_shows_nothing() -> None:
    found = probe_noise(rates_at_half(0.0, failing=0.6))
    assert (found.false_support, found.screen_net, found.screen_best) == (0.0, 0.0, 0.0)


def test_measured_rates_by_hand_leave_out_what_is_missing() -> None:
    scores = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, np.nan]])
    found = measured_rates(scores)
    assert found is not None
    # Pairs of task 1: four of six differ; of task 2: none of two.
    assert found.disagreement == pytest.approx(4 / 8)
    assert found.gained == pytest.approx(2 / 4)
    assert found.confirmed == 1.0
    assert found.lost == pytest.approx(2 / 4)


@pytest.mark.parametrize("scores", [np.zeros((5, 2)), np.zeros((5, 3)), np.ones((5, 3)), np.full((5, 3), np.nan)])
def test_rates_that_cannot_be_measured_are_none(scores: np.ndarray) -> None:
    assert measured_rates(scores) is None


@pytest.mark.data
def test_the_released_outcomes_give_the_numbers_of_the_specification(shared_data: Path) -> None:
    text = (shared_data / "verse_outcomes" / "verse_mh_id.json").read_text(encoding="utf-8")
    rates = measured_rates(np.array(list(json.loads(text)["outcomes"].values()), dtype=np.float64))
    assert rates is not None
    found = probe_noise(rates)
    assert rates.disagreement == pytest.approx(0.167, abs=5e-4)
    assert found.false_flip == pytest.approx(0.14, abs=5e-3)
    assert found.false_confirmed == pytest.approx(0.075, abs=5e-4)
    assert found.false_support == pytest.approx(0.21, abs=5e-3)
    assert 1 - (1 - found.false_flip) ** 3 == pytest.approx(0.37, abs=5e-3)
    assert found.screen_net == pytest.approx(1.05, abs=5e-3)
    assert found.screen_best == pytest.approx(2.1, abs=5e-2)


def test_two_runs_and_the_model_of_one_half_come_close_to_the_specification() -> None:
    """Two runs cannot tell how sure noisy tasks are: at ½ a second pass is half as likely as the first, 7.1 %."""
    found = probe_noise(rates_at_half(0.16, failing=0.565))
    assert found.false_flip == pytest.approx(0.1416, abs=1e-4)
    assert found.false_confirmed == pytest.approx(0.0708, abs=1e-4)
    assert found.false_support == pytest.approx(1 - 0.9292**3, abs=1e-3)
    assert 1 - (1 - found.false_flip) ** 3 == pytest.approx(0.37, abs=5e-3)
    assert found.screen_net == pytest.approx(1.05, abs=5e-3)
    assert found.screen_best == pytest.approx(2.1, abs=5e-2)


def test_a_simulation_of_noisy_tasks_agrees() -> None:
    rng = np.random.default_rng(7)
    n, disagreement = 400_000, 0.16
    noisy = rng.random(n) < 2 * disagreement
    sure = rng.random(n) < 0.4
    runs = np.where(noisy[:, None], rng.random((n, 3)) < 0.5, sure[:, None])
    failing = float((~runs[:, 0]).mean())
    rates = rates_at_half(float((runs[:, 0] != runs[:, 1]).mean()), failing=failing)
    assert runs[~runs[:, 0], 1].mean() == pytest.approx(rates.gained, abs=3e-3)
    assert runs[~runs[:, 0]][:, 1:].all(axis=1).mean() == pytest.approx(rates.confirmed, abs=3e-3)
    assert (~runs[runs[:, 0], 1]).mean() == pytest.approx(rates.lost, abs=3e-3)
    measured = measured_rates(runs[:20_000].astype(np.float64))
    assert measured is not None
    assert measured.confirmed == pytest.approx(rates.confirmed, abs=5e-3)


def test_the_best_of_screens_is_a_simulations_and_errs_high_where_screens_share_their_tasks() -> None:
    rng = np.random.default_rng(11)
    rates = rates_at_half(0.16, failing=0.565)
    expected = probe_noise(rates).screen_best
    size = (40_000, 3)
    nets = rng.binomial(10, rates.gained, size) - rng.binomial(2, rates.lost, size)
    assert nets.max(axis=1).mean() == pytest.approx(expected, abs=0.03)
    noisy = rng.binomial(10, 2 * rates.gained, size[0])[:, None], rng.binomial(2, 2 * rates.lost, size[0])[:, None]
    shared = rng.binomial(noisy[0], 0.5, size) - rng.binomial(noisy[1], 0.5, size)
    assert shared.mean() == pytest.approx(nets.mean(), abs=0.03)
    assert 1.5 < shared.max(axis=1).mean() < expected - 0.1
