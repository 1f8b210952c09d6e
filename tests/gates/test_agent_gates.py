"""The rules of agent loops: keep_all, dual_split, near_best, manifest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from heldout.config import GateConfig
from heldout.gates import Gate, GenerationTable, decide, make_gate
from heldout.gates.select_confirm import halves
from heldout.records import Verdict

MakeTable = Callable[..., GenerationTable]

NAN = math.nan


def gate(kind: str, **options: float) -> Gate:
    return make_gate(GateConfig.model_validate({"kind": kind, **options}))


def test_keep_all_keeps_what_was_measured_and_says_that_nothing_decided(counts: MakeTable) -> None:
    for wins, losses in ((3, 0), (0, 0), (0, 16)):
        decision = gate("keep_all").decide(counts(wins, losses))
        assert decision.verdict is Verdict.ACCEPT
        assert decision.reason.endswith("kept, as every edit that was measured is")


def test_invariant_8_keep_all_below_the_coverage_floor_is_undecided(table: MakeTable) -> None:
    assert gate("keep_all").decide(table("+" * 39 + "?" * 11)).verdict is Verdict.UNDECIDED
    assert gate("keep_all").decide(table("+" * 40 + "?" * 10)).verdict is Verdict.ACCEPT


def test_no_missing_score_turns_keep_all() -> None:
    """Failures that went missing on a fifth of the tasks: a rule that weighs scores is turned, this one never does."""
    incumbent = np.ones((50, 1))
    candidate = np.ones((1, 50, 1))
    candidate[0, :10] = NAN
    hidden = GenerationTable(incumbent, candidate, np.array([1]))
    assert decide(gate("keep_all"), hidden).verdict is Verdict.ACCEPT
    assert decide(gate("tolerance"), hidden).verdict is Verdict.UNDECIDED
    below = GenerationTable(incumbent, np.where(np.arange(50)[None, :, None] < 11, NAN, 1.0), np.array([1]))
    assert decide(gate("keep_all"), below).verdict is Verdict.UNDECIDED


def _moved(half_a: float, half_b: float, *, seed: int = 7, n: int = 17) -> GenerationTable:
    """One task of each half moves by the given amounts, from an incumbent at 1/2."""
    first, second = halves(n, seed=seed)
    candidate = np.full((1, n, 1), 0.5)
    candidate[0, first[0]] += half_a
    candidate[0, second[0]] += half_b
    return GenerationTable(np.full((n, 1), 0.5), candidate, np.array([1]), seed=seed)


@pytest.mark.parametrize(
    ("half_a", "half_b", "verdict"),
    [
        (0.5, 0.0, Verdict.ACCEPT),
        (0.0, 0.5, Verdict.ACCEPT),
        (0.2, 0.2, Verdict.ACCEPT),
        (0.5, -0.1, Verdict.REJECT),
        (-0.1, 0.5, Verdict.REJECT),
        (0.0, 0.0, Verdict.REJECT),
        (-0.1, -0.1, Verdict.REJECT),
    ],
)
def test_dual_split_lets_no_half_fall_and_one_rise(half_a: float, half_b: float, verdict: Verdict) -> None:
    decision = gate("dual_split").decide(_moved(half_a, half_b))
    assert decision.verdict is verdict
    assert decision.evidence == pytest.approx({"gain_a": half_a / 9, "gain_b": half_b / 8})


def test_dual_split_draws_its_halves_from_the_seed() -> None:
    """A win and a loss pass only where the same half holds both."""
    table = _moved(0.0, 0.0)
    table.candidates[0, 0], table.candidates[0, 1] = 1.0, 0.25
    verdicts = {gate("dual_split").decide(replace(table, seed=seed)).verdict for seed in range(20)}
    assert verdicts == {Verdict.ACCEPT, Verdict.REJECT}
    assert gate("dual_split").decide(table) == gate("dual_split").decide(table)


@pytest.mark.parametrize("which", [0, 1])
def test_dual_split_without_a_measured_half_is_undecided(which: int) -> None:
    table = _moved(0.5, 0.5, n=10)
    table.candidates[:, halves(10, seed=7)[which]] = NAN
    assert gate("dual_split").decide(table).verdict is Verdict.UNDECIDED


def test_near_best_lets_pass_a_loss_of_three_points_or_of_fewer_than_three_tasks(counts: MakeTable) -> None:
    """Of 50 tasks 2 lost are 4 points but fewer than 3 tasks; of 200, 6 are 3 points exactly."""
    rule = gate("near_best")
    assert rule.decide(counts(0, 2, n=50)).verdict is Verdict.ACCEPT
    assert rule.decide(counts(0, 3, n=50)).verdict is Verdict.REJECT
    assert rule.decide(counts(0, 6, n=200)).verdict is Verdict.ACCEPT
    assert rule.decide(counts(0, 7, n=200)).verdict is Verdict.REJECT
    assert rule.decide(counts(5, 7, n=50)).verdict is Verdict.ACCEPT, "net of what was gained"
    assert gate("near_best", tolerance=0.1).decide(counts(0, 5, n=50)).verdict is Verdict.ACCEPT


def test_near_best_does_not_drift_below_the_best_state(counts: MakeTable) -> None:
    """The incumbent is 2 tasks below the best, and the candidate 2 below the incumbent: 4 below the best."""
    step = counts(0, 2, n=50)
    best = np.ones((50, 1))
    fallen = replace(step, incumbent=step.incumbent.copy(), candidates=step.candidates.copy(), best=best)
    fallen.incumbent[-2:] = 0.0
    fallen.candidates[0, -2:] = 0.0
    decision = gate("near_best").decide(fallen)
    assert decision.verdict is Verdict.REJECT
    assert decision.evidence["tasks_below"] == pytest.approx(4)
    assert gate("near_best").decide(replace(fallen, best=None)).verdict is Verdict.ACCEPT
    assert gate("tolerance", tolerance=0.05).decide(fallen).verdict is Verdict.ACCEPT, "it only knows the incumbent"


def test_near_best_needs_coverage_against_the_best_too(counts: MakeTable) -> None:
    best = np.ones((50, 1))
    best[:11] = NAN
    assert gate("near_best").decide(replace(counts(0, 0, n=50), best=best)).verdict is Verdict.UNDECIDED


def _declared(marks: str, predicted: tuple[str, ...] = (), at_risk: tuple[str, ...] = ()) -> GenerationTable:
    """Tasks a, b, c, … that win (+), lose (-), stay (=) or are missing (?)."""
    moves = {"+": 1.0, "-": 0.0, "=": 0.5, "?": NAN}
    candidate = np.array([[moves[mark] for mark in marks]])[:, :, None]
    return GenerationTable(
        np.full((len(marks), 1), 0.5),
        candidate,
        np.array([1]),
        tasks=tuple("abcdefghij"[: len(marks)]),
        predicted=(predicted,),
        at_risk=(at_risk,),
    )


@pytest.mark.parametrize(
    ("marks", "predicted", "at_risk", "verdict"),
    [
        ("=-========", ("a",), ("b",), Verdict.REJECT),  # a declared risk came true, no predicted fix did
        ("+-========", ("a",), ("b",), Verdict.ACCEPT),  # the risk was worth its fix
        ("=-========", ("a",), (), Verdict.REJECT),  # an undeclared break, no predicted fix
        ("+-========", ("a",), (), Verdict.ACCEPT),
        ("+-========", ("j",), (), Verdict.REJECT),  # another fix than the predicted one is none
        ("+=========", ("j",), ("b",), Verdict.ACCEPT),  # nothing broke
        ("==========", ("a",), ("b",), Verdict.ACCEPT),  # nothing moved
        ("=?========", ("a",), ("b",), Verdict.ACCEPT),  # what is missing is no break
        ("+-========", (), (), Verdict.REJECT),  # nothing was predicted
    ],
)
def test_manifest_holds_an_edit_to_what_was_declared(
    marks: str, predicted: tuple[str, ...], at_risk: tuple[str, ...], verdict: Verdict
) -> None:
    assert gate("manifest").decide(_declared(marks, predicted, at_risk)).verdict is verdict


def test_manifest_ignores_ids_of_other_tasks_and_counts_the_rest() -> None:
    decision = gate("manifest").decide(_declared("+--=======", ("a", "train-9"), ("c", "train-8")))
    assert decision.evidence == {"fixes_realised": 1, "risks_realised": 1, "undeclared_breaks": 1}
    assert decision.reason.endswith("1 of 1 predicted fixes and 1 of 1 declared risks came true, 1 undeclared break")
    strangers = _declared("=-========", ("train-1",), ("train-2",))
    assert gate("manifest").decide(strangers).verdict is Verdict.REJECT


def test_a_fix_that_is_hidden_by_a_missing_break_does_not_carry_manifest() -> None:
    """The break went missing: counted as a failure it would have dropped the edit."""
    incumbent = np.ones((10, 1))
    candidate = np.ones((1, 10, 1))
    candidate[0, 1] = NAN
    table = GenerationTable(incumbent, candidate, np.array([1]), tasks=tuple("abcdefghij"), predicted=(("a",),))
    assert gate("manifest").decide(table).verdict is Verdict.ACCEPT
    assert decide(gate("manifest"), table).verdict is Verdict.UNDECIDED


def test_manifest_reads_the_declarations_of_the_winner() -> None:
    base = _declared("+-========", ("a",))
    better = np.concatenate([base.candidates, base.candidates])
    better[1, 2:4] = 1.0
    both = replace(base, candidates=better, edit_sizes=np.array([1, 1]), predicted=(("a",), ("i",)), at_risk=((), ()))
    decision = gate("manifest").decide(both)
    assert (decision.winner, decision.verdict) == (1, Verdict.REJECT)
    assert gate("manifest").decide(replace(both, predicted=(("i",), ("a",)))).verdict is Verdict.ACCEPT
