from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from heldout.config import GateConfig
from heldout.errors import SetupError
from heldout.gates import GenerationTable, make_gate
from heldout.records import Verdict
from heldout.stats import VarianceComponents, shared_noise_posterior, variance_components

MakeTable = Callable[..., GenerationTable]


def _scores(seed: int = 0, *, gain: float = 0.2, n: int = 64) -> GenerationTable:
    rng = np.random.default_rng(seed)
    incumbent = (rng.random((n, 1)) < 0.4).astype(float)
    candidates = (rng.random((4, n, 1)) < 0.4 + gain).astype(float)
    return GenerationTable(incumbent, candidates, np.arange(4))


def test_pilot_gate_takes_noise_from_the_table_and_the_prior_from_the_pilot() -> None:
    table = _scores()
    decision = make_gate(GateConfig(kind="bayes_pilot"), prior=(0.12, 0.08)).decide(table)
    estimated = variance_components(table.incumbent[:, 0], table.candidates[:, :, 0])
    assert estimated is not None
    known = replace(estimated, mu=0.12, s=0.08)
    gains = (table.candidates - table.incumbent).mean(axis=(1, 2))
    posterior = shared_noise_posterior(gains, known)
    assert decision.winner == int(posterior.argmax())
    assert decision.evidence["posterior_mean"] == pytest.approx(posterior.max())
    assert decision.evidence["lam"] == pytest.approx(known.lam)
    assert decision.verdict is Verdict.ACCEPT


def test_a_prior_of_harm_needs_a_larger_gain() -> None:
    table = _scores(3, gain=0.06)
    assert make_gate(GateConfig(kind="greedy")).decide(table).verdict is Verdict.ACCEPT
    decision = make_gate(GateConfig(kind="bayes_pilot", prior=(-0.05, 0.03))).decide(table)
    assert decision.verdict is Verdict.REJECT
    assert "posterior mean" in decision.reason


def test_the_pilot_replaces_the_prior_of_the_config() -> None:
    table = _scores()
    config = GateConfig(kind="bayes_pilot", prior=(-0.5, 0.01))
    assert make_gate(config).decide(table).evidence["mu"] == -0.5
    assert make_gate(config, prior=(0.1, 0.1)).decide(table).evidence["mu"] == 0.1


def test_pilot_gate_without_a_prior_says_what_to_do() -> None:
    with pytest.raises(SetupError, match=r"pilot_tasks.*gate\.prior=.*bayes_online"):
        make_gate(GateConfig(kind="bayes_pilot"))
    with pytest.raises(SetupError, match="standard deviation >= 0"):
        make_gate(GateConfig(kind="bayes_pilot", prior=(0.0, -1.0)))


def test_require_gain_refuses_a_measured_loss_that_the_prior_would_pass(counts: MakeTable) -> None:
    worse = counts(0, 1)
    believer = GateConfig(kind="bayes_pilot", prior=(0.3, 0.01))
    refused = make_gate(believer).decide(worse)
    assert refused.verdict is Verdict.REJECT
    assert "the measured gain -6.2 points is not above 0" in refused.reason
    passed = make_gate(believer.model_copy(update={"require_gain": False})).decide(worse)
    assert passed.verdict is Verdict.ACCEPT


def test_online_gate_starts_from_its_own_generation() -> None:
    table = _scores()
    decision = make_gate(GateConfig(kind="bayes_online")).decide(table)
    estimated = variance_components(table.incumbent[:, 0], table.candidates[:, :, 0])
    assert estimated is not None
    assert decision.evidence["mu"] == pytest.approx(estimated.mu)
    assert decision.evidence["s"] == pytest.approx(estimated.s)


def test_online_gate_learns_from_the_past() -> None:
    table = _scores(4, gain=0.06)
    bad = VarianceComponents(mu=-0.2, s=0.02, sigma=0.06, sigma0=0.06, k=4, n=64)
    gate = make_gate(GateConfig(kind="bayes_online"))
    alone, warned = gate.decide(table), gate.decide(replace(table, past=(bad,) * 9))
    assert warned.evidence["posterior_mean"] < alone.evidence["posterior_mean"]
    assert warned.evidence["mu"] == pytest.approx((9 * -0.2 + alone.evidence["mu"]) / 10)
    assert (alone.verdict, warned.verdict) == (Verdict.ACCEPT, Verdict.REJECT)


def test_online_gate_with_one_candidate_and_no_past_is_greedy(counts: MakeTable) -> None:
    gate = make_gate(GateConfig(kind="bayes_online"))
    assert gate.decide(counts(1, 0)).verdict is Verdict.ACCEPT
    assert gate.decide(counts(1, 1)).verdict is Verdict.REJECT


def test_without_real_spread_the_best_gain_wins_the_tie(table: MakeTable) -> None:
    """s = 0 makes all posterior means equal; the smaller edit with a measured loss must not hide the gain."""
    decision = make_gate(GateConfig(kind="bayes_pilot", prior=(0.05, 0.0))).decide(
        table("--======", "+=======", edit_sizes=(1, 9))
    )
    assert (decision.winner, decision.verdict) == (1, Verdict.ACCEPT)
    assert decision.evidence["posterior_mean"] == pytest.approx(0.05)


def test_bayes_beats_greedy_when_most_rewrites_harm() -> None:
    """Simulated generations with a known prior: the committed candidates are better on average."""
    rng = np.random.default_rng(7)
    greedy, bayes = make_gate(GateConfig(kind="greedy")), make_gate(GateConfig(kind="bayes_pilot", prior=(-0.09, 0.05)))
    worth = {"greedy": 0.0, "bayes_pilot": 0.0}
    for _ in range(1500):
        true_gains = rng.normal(-0.09, 0.05, size=4)
        incumbent = (rng.random((64, 1)) < 0.5).astype(float)
        candidates = (rng.random((4, 64, 1)) < 0.5 + true_gains[:, None, None]).astype(float)
        table = GenerationTable(incumbent, candidates, np.arange(4))
        for gate in (greedy, bayes):
            decision = gate.decide(table)
            if decision.verdict is Verdict.ACCEPT and decision.winner is not None:
                worth[gate.name] += float(true_gains[decision.winner])
    assert worth["bayes_pilot"] > 0 > worth["greedy"]
