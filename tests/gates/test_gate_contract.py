"""What every built-in gate owes, whatever its rule."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.config import GateConfig
from heldout.errors import SetupError
from heldout.gates import COVERAGE_FLOOR, GATES, Gate, GenerationTable, make_gate
from heldout.records import Decision, Verdict

MakeTable = Callable[..., GenerationTable]

KEEP_WITHOUT_A_GAIN = {"tolerance", "keep_all", "near_best", "manifest"}
"""Rules that by design commit what gained nothing."""


@pytest.fixture(params=sorted(GATES))
def gate(request: pytest.FixtureRequest) -> Gate:
    return _gate(request.param)


def _gate(kind: str) -> Gate:
    return make_gate(GateConfig(kind=kind, prior=(0.05, 0.05)))


def test_name_and_demands(gate: Gate) -> None:
    assert gate.name in GATES
    assert gate.repeats == (3 if gate.name == "repeats" else 1)
    assert gate.fresh_tasks == (32 if gate.name == "fresh" else 0)


def test_decide_is_pure(gate: Gate, table: MakeTable) -> None:
    one = table("++=-=+=+", "+++++=-+", seed=3)
    before = one.incumbent.copy(), one.candidates.copy()
    assert gate.decide(one) == gate.decide(table("++=-=+=+", "+++++=-+", seed=3))
    assert np.array_equal(one.incumbent, before[0])
    assert np.array_equal(one.candidates, before[1])


def test_decision_survives_json_and_carries_evidence(gate: Gate, table: MakeTable) -> None:
    decision = gate.decide(table("+" * 15 + "-", "=" * 15 + "-"))
    assert Decision.model_validate_json(decision.model_dump_json()) == decision
    assert (decision.gate, decision.winner, decision.n) == (gate.name, 0, 16)
    assert (decision.wins, decision.losses) == (15, 1)
    assert decision.effect == pytest.approx(0.5 * 14 / 16)
    assert decision.interval is not None
    assert decision.interval[0] < decision.effect < decision.interval[1]
    assert decision.reason.startswith("15 wins, 1 loss on 16 tasks; ")
    if gate.name == "manifest":  # one break, and nothing was predicted
        assert decision.verdict is Verdict.REJECT
    else:
        assert decision.verdict in (Verdict.ACCEPT, Verdict.CONFIRM)


def test_nothing_measured_is_undecided(gate: Gate, table: MakeTable) -> None:
    decision = gate.decide(table("????", "????"))
    assert (decision.verdict, decision.winner, decision.n, decision.effect) == (Verdict.UNDECIDED, None, 0, None)


def test_one_measured_pair_is_undecided(gate: Gate, table: MakeTable) -> None:
    assert gate.decide(table("+")).verdict is Verdict.UNDECIDED
    assert gate.decide(table("+?")).verdict is Verdict.UNDECIDED


def test_low_coverage_is_undecided_and_never_reject(gate: Gate, table: MakeTable) -> None:
    assert COVERAGE_FLOOR == 0.8
    for row in ("+" * 15 + "?" * 5, "-" * 15 + "?" * 5):
        decision = gate.decide(table(row))
        assert decision.verdict is Verdict.UNDECIDED
        assert decision.n == 15
        assert "15 of 20" in decision.reason
    enough = 18 if gate.name == "repairs_over_regressions" else 16  # its own floor is 0.9
    assert gate.decide(table("+" * enough + "?" * (20 - enough))).verdict in (Verdict.ACCEPT, Verdict.CONFIRM)
    worse = gate.decide(table("-" * enough + "?" * (20 - enough))).verdict
    assert worse is (Verdict.ACCEPT if gate.name == "keep_all" else Verdict.REJECT)


def test_a_candidate_without_scores_is_passed_over(gate: Gate, table: MakeTable) -> None:
    assert gate.decide(table("?" * 16, "+" * 16)).winner == 1


def test_a_hardly_measured_candidate_hides_no_other(gate: Gate, table: MakeTable) -> None:
    hardly, good = "++" + "?" * 14, "+" * 12 + "=" * 4
    assert gate.decide(table(hardly, good)).winner == 1
    assert gate.decide(table(hardly)).winner == 0


def test_missing_is_not_zero(gate: Gate, table: MakeTable) -> None:
    """Losing a score of a task that nobody moved changes n and not the verdict."""
    full, gap = gate.decide(table("+" * 14 + "==")), gate.decide(table("+" * 14 + "=?"))
    assert full.verdict is gap.verdict
    assert (full.n, gap.n) == (16, 15)


def test_ties_go_to_the_smaller_edit_then_to_the_lower_index(gate: Gate, table: MakeTable) -> None:
    row = "+" * 16
    assert gate.decide(table(row, row, row, edit_sizes=(9, 4, 4))).winner == 1
    assert gate.decide(table(row, row, row, edit_sizes=(7, 7, 7))).winner == 0


@pytest.mark.parametrize("kind", sorted(set(GATES) - KEEP_WITHOUT_A_GAIN))
def test_a_copy_of_the_incumbent_never_commits(kind: str, table: MakeTable) -> None:
    decision = _gate(kind).decide(table("=" * 16, "=" * 16))
    assert decision.verdict is Verdict.REJECT
    assert decision.standard_error == 0.0
    assert decision.interval is not None
    assert decision.interval[0] < 0 < decision.interval[1]


@pytest.mark.parametrize("kind", sorted(set(GATES) - KEEP_WITHOUT_A_GAIN))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_nothing_without_a_gain_commits(kind: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 12))
    scores = st.lists(st.sampled_from([0.0, 1.0, math.nan]), min_size=n, max_size=n)
    incumbent = np.array(data.draw(scores))[:, None]
    candidates = np.array(data.draw(st.lists(scores, min_size=1, max_size=3)))[:, :, None]
    table = GenerationTable(incumbent, candidates, np.arange(len(candidates)), seed=data.draw(st.integers(0, 9)))
    decision = _gate(kind).decide(table)
    if decision.verdict in (Verdict.ACCEPT, Verdict.CONFIRM):
        assert decision.effect is not None
        assert decision.effect > 0
        assert decision.n >= 0.8 * n


def test_no_candidates_at_all_is_undecided(gate: Gate) -> None:
    empty = GenerationTable(np.ones((4, 1)), np.ones((0, 4, 1)), np.ones(0, dtype=np.int64))
    assert gate.decide(empty).verdict is Verdict.UNDECIDED


def test_gates_are_frozen(gate: Gate) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        gate.config = GateConfig()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", sorted(set(GATES) - {"repairs_over_regressions"}))
def test_options_of_a_gate_that_takes_none_are_refused(kind: str) -> None:
    words = rf"the gate {kind} takes no options, and the config sets gate\.options\.min_u: remove that"
    with pytest.raises(SetupError, match=words):
        make_gate(GateConfig(kind=kind, prior=(0.05, 0.05), options={"min_u": 2}))


def test_unknown_gate_names_what_there_is() -> None:
    with pytest.raises(SetupError, match=r"no gate 'gredy'; there is bayes_online, .*greedy"):
        make_gate(GateConfig(kind="gredy"))


def test_a_plug_in_takes_the_config_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_gate.py").write_text(
        "from heldout.gates import BestGainRule, Judgement\n"
        "from heldout.records import Verdict\n"
        "class Never(BestGainRule):\n"
        "    name = 'never'\n"
        "    def judge(self, winner, table):\n"
        "        return Judgement(Verdict.REJECT, f'never, at alpha {self.config.alpha}')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    gate = make_gate(GateConfig(kind="own_gate:Never", alpha=0.1))
    table = GenerationTable(np.zeros((4, 1)), np.ones((1, 4, 1)), np.array([1]))
    assert gate.decide(table).reason == "4 wins, 0 losses on 4 tasks; never, at alpha 0.1"


def test_decide_is_lean(gate: Gate) -> None:
    """Far below a millisecond, so that the simulated bench can call it 60,000 times."""
    rng = np.random.default_rng(0)
    scores = (rng.random((5, 64, 1)) < 0.5).astype(float)
    table = GenerationTable(scores[0], scores[1:], np.arange(4))
    gate.decide(table)
    times = []
    for _ in range(50):
        begin = time.perf_counter()
        gate.decide(table)
        times.append(time.perf_counter() - begin)
    assert min(times) < 0.001
