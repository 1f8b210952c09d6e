"""From a paired table to words: when is a gain called real?"""

from __future__ import annotations

import numpy as np
import pytest

from heldout.audit import audit_result
from heldout.records import Candidate, Comparison
from heldout.store.events import AuditResult

START, FINAL = Candidate(files={"a": "1"}), Candidate(files={"a": "2"})
NAN = np.nan


def audit(fixed: int, broken: int, both: int, neither: int, *, lost: int = 0, coverage: float = 0.8) -> AuditResult:
    """`lost` more tasks that the start passed and the final was not measured on."""
    a = [0.0] * fixed + [1.0] * broken + [1.0] * both + [0.0] * neither + [1.0] * lost
    b = [1.0] * fixed + [0.0] * broken + [1.0] * both + [0.0] * neither + [NAN] * lost
    tasks = tuple(f"t{number}" for number in range(len(a)))
    table = Comparison(tasks, np.array(a)[:, None], np.array(b)[:, None])
    return audit_result("audit", START, FINAL, table, confidence=0.95, coverage=coverage)


def test_a_clear_gain_is_called_real_with_its_numbers() -> None:
    result = audit(46, 4, 87, 63)
    assert (result.verdict, result.n_tasks, result.fixed, result.broken) == ("improved", 200, 46, 4)
    assert result.gain == pytest.approx(0.21)
    # differences: 46 of +1, 4 of -1; variance (50 - 200 * 0.21²) / 199, divided by 200
    assert result.standard_error == pytest.approx(((50 - 200 * 0.21**2) / 199 / 200) ** 0.5)
    assert result.sentence == (
        "The gain is real: +21.0 points on 200 tasks, interval +14.7 to +27.3; the interval excludes zero."
    )


def test_a_clear_loss_is_called_worse() -> None:
    assert audit(4, 46, 87, 63).verdict == "worse"


def test_an_interval_with_zero_is_undecided_and_says_what_would_decide() -> None:
    result = audit(20, 14, 87, 79)
    assert result.verdict == "undecided"
    assert "includes zero" in result.sentence
    # V = SE² n = (34 - 200 · 0.03²) / 199 = 0.16995; (2.80159)² V / 0.03² = 1482.2
    assert result.tasks_to_decide == 1483
    assert "About 1483 tasks" in result.sentence


def test_a_rare_one_sided_change_needs_the_exact_test_too() -> None:
    result = audit(4, 0, 100, 96)
    assert result.interval is not None
    assert result.interval[0] > 0
    assert result.p_value == pytest.approx(0.125)
    assert result.verdict == "undecided"
    assert "exact test" in result.sentence
    assert audit(6, 0, 100, 94).verdict == "improved"  # p = 2 / 2**6 = 0.031


def test_losses_that_went_missing_do_not_make_a_gain() -> None:
    result = audit(12, 0, 28, 12, lost=12)
    assert (result.n_tasks, result.missing) == (52, 12)
    assert result.verdict == "undecided"
    assert "not if the tasks that one side lacks were failures" in result.sentence


def test_low_coverage_is_undecided_whatever_the_numbers_say() -> None:
    result = audit(30, 0, 0, 0, lost=20)
    assert result.verdict == "undecided"
    assert "60% of the tasks were measured, and 80% are needed" in result.sentence


def test_fractional_scores_are_weighed_by_their_own_spread() -> None:
    rng = np.random.default_rng(0)
    a = rng.uniform(0.2, 0.4, 60)
    table = Comparison(tuple(map(str, range(60))), a[:, None], (a + rng.normal(0.01, 0.05, 60))[:, None].clip(0, 1))
    result = audit_result("audit", START, FINAL, table, confidence=0.95)
    assert result.p_value is None
    if result.verdict == "undecided":
        assert result.tasks_to_decide is not None
        assert result.tasks_to_decide < 100_000


def test_the_same_candidate_needs_no_measurement() -> None:
    result = audit_result("audit", START, START, None, confidence=0.95)
    assert (result.verdict, result.gain, result.n_tasks) == ("unchanged", 0.0, 0)
