"""Each rule's own bar."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from heldout.config import GateConfig
from heldout.gates import GenerationTable, make_gate
from heldout.records import Verdict

MakeTable = Callable[..., GenerationTable]


@given(scores=arrays(np.float64, (4, 8, 1), elements=st.sampled_from([0.0, 1.0])))
def test_invariant_4_greedy_commits_iff_the_best_difference_is_positive(scores: np.ndarray) -> None:
    decision = make_gate(GateConfig(kind="greedy")).decide(GenerationTable(scores[0], scores[1:], np.arange(3)))
    best = (scores[1:] - scores[0]).mean(axis=(1, 2)).max()
    assert (decision.verdict is Verdict.ACCEPT) == (best > 0)
    assert decision.effect == pytest.approx(best)


@pytest.mark.parametrize("repeats", [1, 3])
def test_invariant_4_a_copy_of_the_incumbent_never_commits_under_greedy(repeats: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores = rng.choice([0.0, 1 / 3, 0.1, 1.0], size=(16, repeats))
        copies = np.stack([scores, scores[:, ::-1]])  # repeats in another order sum to another last bit
        decision = make_gate(GateConfig(kind="greedy")).decide(GenerationTable(scores, copies, np.ones(2, dtype=int)))
        assert decision.verdict is Verdict.REJECT


def test_invariant_5_mcnemar_rejects_4_0_and_accepts_5_0(counts: MakeTable) -> None:
    gate = make_gate(GateConfig(kind="mcnemar", alpha=0.05))
    assert gate.decide(counts(4, 0)).verdict is Verdict.REJECT
    assert gate.decide(counts(5, 0)).verdict is Verdict.ACCEPT


def test_invariant_5_pace_rejects_7_0_and_accepts_8_0(counts: MakeTable) -> None:
    gate = make_gate(GateConfig(kind="pace", alpha=0.05))
    for seed in range(20):
        assert gate.decide(counts(7, 0, seed=seed)).verdict is Verdict.REJECT
        assert gate.decide(counts(8, 0, seed=seed)).verdict is Verdict.ACCEPT


def test_mcnemar_reason_and_p_value(counts: MakeTable) -> None:
    decision = make_gate(GateConfig(kind="mcnemar")).decide(counts(3, 1))
    assert decision.p_value == pytest.approx(5 / 16)
    assert decision.reason == "3 wins, 1 loss on 16 tasks; p = 0.31 > 0.05"


def test_alpha_is_respected(counts: MakeTable) -> None:
    assert make_gate(GateConfig(kind="mcnemar", alpha=0.1)).decide(counts(4, 0)).verdict is Verdict.ACCEPT
    assert make_gate(GateConfig(kind="pace", alpha=0.1)).decide(counts(6, 0)).verdict is Verdict.ACCEPT


def test_pace_reports_its_wealth(counts: MakeTable) -> None:
    decision = make_gate(GateConfig(kind="pace")).decide(counts(7, 0))
    assert decision.evidence["peak_wealth"] == pytest.approx(1.5**7)
    assert decision.evidence["threshold"] == pytest.approx(20.0)
    assert decision.p_value == pytest.approx(1.5**-7)


def test_pace_order_comes_from_the_seed(counts: MakeTable) -> None:
    """9–1 commits only when the loss comes after eight wins: some orders do, some do not."""
    gate = make_gate(GateConfig(kind="pace"))
    verdicts = [gate.decide(counts(9, 1, seed=seed)).verdict for seed in range(100)]
    assert {Verdict.ACCEPT, Verdict.REJECT} == set(verdicts)
    assert verdicts.count(Verdict.ACCEPT) == pytest.approx(20, abs=12)


def test_net_counts_tasks_where_greedy_weighs_them() -> None:
    incumbent = np.full((4, 1), 0.5)
    candidate = np.array([[[0.6], [0.6], [0.0], [0.5]]])
    table = GenerationTable(incumbent, candidate, np.array([1]))
    assert make_gate(GateConfig(kind="net")).decide(table).verdict is Verdict.ACCEPT
    assert make_gate(GateConfig(kind="greedy")).decide(table).verdict is Verdict.REJECT


def test_tolerance_lets_through_what_is_a_little_worse(counts: MakeTable) -> None:
    gate = make_gate(GateConfig(kind="tolerance", tolerance=0.03))
    assert gate.decide(counts(0, 0, n=64)).verdict is Verdict.ACCEPT
    assert gate.decide(counts(0, 1, n=64)).verdict is Verdict.ACCEPT  # -1.6 points
    assert gate.decide(counts(0, 2, n=64)).verdict is Verdict.REJECT  # -3.1 points
    assert make_gate(GateConfig(kind="tolerance", tolerance=0.0)).decide(counts(0, 0)).verdict is Verdict.REJECT


def test_ladder_needs_more_than_a_standard_error(counts: MakeTable) -> None:
    gate = make_gate(GateConfig(kind="ladder"))
    assert gate.decide(counts(1, 0)).verdict is Verdict.REJECT
    assert gate.decide(counts(2, 0)).verdict is Verdict.ACCEPT
    assert gate.decide(counts(3, 1)).verdict is Verdict.REJECT
    assert gate.decide(counts(4, 1)).verdict is Verdict.ACCEPT


def test_repeats_decides_on_means_over_measured_repeats() -> None:
    gate = make_gate(GateConfig(kind="repeats", repeats=2))
    assert gate.repeats == 2
    incumbent = np.array([[1.0, 0.0], [1.0, 1.0]])
    up = np.array([[[1.0, math.nan], [1.0, 1.0]]])
    decision = gate.decide(GenerationTable(incumbent, up, np.array([1])))
    assert decision.verdict is Verdict.ACCEPT
    assert decision.effect == pytest.approx(0.25)
    swapped = np.array([[[0.0, 1.0], [1.0, 1.0]]])
    assert gate.decide(GenerationTable(incumbent, swapped, np.array([1]))).verdict is Verdict.REJECT
