"""Rules that confirm: select-then-confirm on two halves, fresh on new tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from heldout.config import GateConfig
from heldout.gates import Gate, GenerationTable, make_gate
from heldout.gates.select_confirm import halves
from heldout.records import Comparison, Verdict

MakeTable = Callable[..., GenerationTable]


@pytest.fixture
def split() -> Gate:
    return make_gate(GateConfig(kind="select_confirm"))


@pytest.fixture
def fresh() -> Gate:
    return make_gate(GateConfig(kind="fresh", fresh=4))


def _on_halves(gain_a: dict[int, float], gain_b: dict[int, float], *, n: int = 16, seed: int = 5) -> GenerationTable:
    """Candidates that move one task of each half by the given amounts, from an incumbent at 1/2."""
    half_a, half_b = halves(n, seed=seed)
    candidates = np.full((len(gain_a), n, 1), 0.5)
    for row, gain in gain_a.items():
        candidates[row, half_a[0]] += gain
    for row, gain in gain_b.items():
        candidates[row, half_b[0]] += gain
    return GenerationTable(np.full((n, 1), 0.5), candidates, np.ones(len(gain_a), dtype=int), seed=seed)


def test_select_confirm_commits_one_win_on_each_half(split: Gate) -> None:
    decision = split.decide(_on_halves({0: 0.5}, {0: 0.5}))
    assert decision.verdict is Verdict.ACCEPT
    assert decision.evidence == pytest.approx({"gain_a": 0.5 / 8, "gain_b": 0.5 / 8})
    assert (decision.n, decision.effect) == (16, pytest.approx(1 / 16))


def test_select_confirm_rejects_without_a_gain_on_both_halves(split: Gate) -> None:
    assert split.decide(_on_halves({0: 0.5}, {0: 0.0})).verdict is Verdict.REJECT
    assert split.decide(_on_halves({0: 0.0}, {0: 0.5})).verdict is Verdict.REJECT
    assert split.decide(_on_halves({0: 0.5}, {0: -0.1})).verdict is Verdict.REJECT


def test_select_confirm_does_not_fall_back_to_the_second_best(split: Gate) -> None:
    decision = split.decide(_on_halves({0: 0.5, 1: 0.4}, {0: -0.1, 1: 0.5}))
    assert (decision.winner, decision.verdict) == (0, Verdict.REJECT)


@pytest.mark.parametrize("poison", [0.0, 1.0, math.nan])
def test_invariant_6_half_b_is_not_read_before_half_a_has_chosen(split: Gate, poison: float) -> None:
    """Whatever half B holds, half A chooses the same candidate."""
    rng = np.random.default_rng(6)
    for seed in range(40):
        scores = (rng.random((5, 17, 1)) < 0.5).astype(float)
        table = GenerationTable(scores[0], scores[1:].copy(), np.arange(4), seed=seed)
        chosen = split.decide(table).winner
        _, half_b = halves(17, seed=seed)
        poisoned = scores[1:].copy()
        poisoned[:2, half_b] = poison
        poisoned[2:, half_b] = 1.0 - poison
        assert split.decide(replace(table, candidates=poisoned)).winner == chosen


def test_halves_partition_and_are_redrawn() -> None:
    half_a, half_b = halves(9, seed=1)
    assert (len(half_a), len(half_b)) == (5, 4)
    assert sorted([*half_a, *half_b]) == list(range(9))
    assert not np.array_equal(half_a, halves(9, seed=2)[0])
    assert np.array_equal(half_a, halves(9, seed=1)[0])


def test_select_confirm_without_a_measured_half_is_undecided(split: Gate) -> None:
    half_a, half_b = halves(10, seed=5)
    for half in (half_a, half_b):
        table = _on_halves({0: 0.5}, {0: 0.5}, n=10)
        table.candidates[:, half] = math.nan
        assert split.decide(table).verdict is Verdict.UNDECIDED


def _comparison(differences: list[float]) -> Comparison:
    b = np.array(differences)[:, None] + 0.5
    return Comparison(tuple(f"new-{row}" for row in range(len(b))), np.full_like(b, 0.5), b)


def test_fresh_asks_first_and_decides_on_the_new_tasks(fresh: Gate, table: MakeTable) -> None:
    asked = table("++======", "+=======")
    first = fresh.decide(asked)
    assert (first.verdict, first.winner, fresh.fresh_tasks) == (Verdict.CONFIRM, 0, 4)
    second = fresh.decide(replace(asked, fresh=_comparison([0.5, 0.5, -0.5, 0.0])))
    assert (second.verdict, second.winner, second.n) == (Verdict.ACCEPT, 0, 4)
    assert (second.wins, second.losses, second.effect) == (2, 1, pytest.approx(0.125))
    assert second.evidence["select_gain"] == pytest.approx(1 / 8)
    assert fresh.decide(replace(asked, fresh=_comparison([0.5, -0.5, 0.0, 0.0]))).verdict is Verdict.REJECT


def test_fresh_does_not_ask_without_a_gain(fresh: Gate, table: MakeTable) -> None:
    assert fresh.decide(table("========")).verdict is Verdict.REJECT
    assert fresh.decide(table("+-======")).verdict is Verdict.REJECT


def test_fresh_tasks_that_were_not_measured_leave_it_undecided(fresh: Gate, table: MakeTable) -> None:
    unmeasured = _comparison([0.5, 0.5, math.nan, math.nan])
    decision = fresh.decide(replace(table("++======"), fresh=unmeasured))
    assert (decision.verdict, decision.n) == (Verdict.UNDECIDED, 2)
