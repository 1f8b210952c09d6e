"""The gate `noise`: a gain must stand out from the noise of evaluation and that of training."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heldout.config import GateConfig
from heldout.gates import GenerationTable, make_gate
from heldout.records import Verdict


def table(wins: int, losses: int, *, n: int = 100, training_se: float = 0.0) -> GenerationTable:
    before, after = np.zeros((n, 1)), np.zeros((n, 1))
    after[:wins] = 1.0
    before[wins : wins + losses] = 1.0
    return GenerationTable(before, after[None], np.zeros(1, dtype=np.int64), training_se=training_se)


def test_the_bar_is_twice_the_root_of_both_variances() -> None:
    decision = make_gate(GateConfig(kind="noise")).decide(table(16, 4, training_se=0.03))
    differences = np.array([1.0] * 16 + [-1.0] * 4 + [0.0] * 80)
    error = differences.std(ddof=1) / 10.0
    assert decision.effect == pytest.approx(0.12)
    assert decision.evidence["threshold"] == pytest.approx(2.0 * math.sqrt(error**2 + 0.03**2))
    assert decision.verdict is Verdict.ACCEPT


def test_training_noise_alone_turns_the_verdict() -> None:
    gate = make_gate(GateConfig(kind="noise"))
    alone = gate.decide(table(16, 4))
    assert alone.verdict is Verdict.ACCEPT
    assert "no training noise is known" in alone.reason
    decision = gate.decide(table(16, 4, training_se=0.06))
    assert decision.verdict is Verdict.REJECT
    assert "twice the error of evaluation and training" in decision.reason


def test_a_copy_of_the_parent_is_rejected() -> None:
    assert make_gate(GateConfig(kind="noise")).decide(table(0, 0)).verdict is Verdict.REJECT
