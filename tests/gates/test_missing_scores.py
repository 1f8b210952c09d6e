"""Failures that go missing must not win: an acceptance survives the worst case of what was not measured."""

from __future__ import annotations

import numpy as np
import pytest

from heldout.config import GateConfig
from heldout.gates import GenerationTable, decide, make_gate
from heldout.records import Comparison, Verdict

NAN = np.nan


def table(wins: int, losses: int, ties: int, *, missing_losses: int = 0) -> GenerationTable:
    incumbent = [0.0] * wins + [1.0] * losses + [1.0] * ties
    candidate = [1.0] * wins + [NAN] * missing_losses + [0.0] * (losses - missing_losses) + [1.0] * ties
    return GenerationTable(
        incumbent=np.array(incumbent)[:, None],
        candidates=np.array(candidate)[None, :, None],
        edit_sizes=np.array([1]),
    )


@pytest.mark.parametrize("kind", ["greedy", "net", "mcnemar", "pace", "ladder"])
def test_twelve_wins_and_twelve_losses_of_which_all_losses_are_missing(kind: str) -> None:
    gate = make_gate(GateConfig(kind=kind))
    hidden = table(12, 12, 40, missing_losses=12)
    assert gate.decide(hidden).verdict is Verdict.ACCEPT, "the hole is there in the rule alone"
    decision = decide(gate, hidden)
    assert decision.verdict is Verdict.UNDECIDED
    assert "not if the scores that only the candidates lack were failures" in decision.reason


def test_a_lead_that_survives_the_worst_case_is_accepted() -> None:
    gate = make_gate(GateConfig(kind="mcnemar"))
    assert decide(gate, table(20, 2, 40, missing_losses=2)).verdict is Verdict.ACCEPT


def test_nothing_missing_changes_nothing() -> None:
    gate = make_gate(GateConfig(kind="greedy"))
    whole = table(3, 1, 20)
    assert decide(gate, whole) == gate.decide(whole)


def test_what_both_lack_is_nobodys_failure() -> None:
    gate = make_gate(GateConfig(kind="greedy"))
    incumbent = np.array([0.0, 1.0, 1.0, 1.0, 1.0, NAN])[:, None]
    candidate = np.array([1.0, 1.0, 1.0, 1.0, 1.0, NAN])[None, :, None]
    both = GenerationTable(incumbent, candidate, np.array([1]))
    assert decide(gate, both).verdict is Verdict.ACCEPT


def test_missing_confirmations_count_against_the_winner() -> None:
    gate = make_gate(GateConfig(kind="fresh", fresh=6))
    fresh = Comparison(
        tasks=tuple("abcdef"),
        a=np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])[:, None],
        b=np.array([1.0, 1.0, 1.0, 1.0, 1.0, NAN])[:, None],
    )
    base = table(4, 0, 20)
    confirmed = GenerationTable(base.incumbent, base.candidates, base.edit_sizes, fresh=fresh)
    assert gate.decide(confirmed).verdict is Verdict.ACCEPT
    assert decide(gate, confirmed).verdict is Verdict.UNDECIDED
