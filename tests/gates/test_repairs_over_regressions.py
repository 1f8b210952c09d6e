"""The gate on repairs and regressions: invariants 1, 2, 6, 7 and 8 of gso.md, its variants, its false accepts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from heldout.config import GateConfig
from heldout.errors import SetupError
from heldout.gates import Gate, GenerationTable, decide, false_accept_rate, make_gate, smallest_tables
from heldout.records import Decision, Verdict

MakeTable = Callable[..., GenerationTable]

NAN = math.nan

OUTCOMES = st.sampled_from([0.0, 1.0])
MAYBE_MISSING = st.sampled_from([0.0, 1.0, NAN])


def gate(**options: object) -> Gate:
    return make_gate(GateConfig(kind="repairs_over_regressions", options=options))


def paired(before: list[float], after: list[float], **more: object) -> GenerationTable:
    tasks = tuple(f"t{place}" for place in range(len(before)))
    sides = np.array(before)[:, None], np.array(after)[None, :, None]
    return replace(GenerationTable(*sides, np.array([1]), tasks=tasks), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("repairs", "regressions", "u", "verdict"),
    [
        (1, 0, 1, Verdict.ACCEPT),
        (2, 1, 0, Verdict.REJECT),
        (3, 1, 1, Verdict.ACCEPT),
        (0, 0, 0, Verdict.REJECT),
        (4, 2, 0, Verdict.REJECT),
        (5, 2, 1, Verdict.ACCEPT),
    ],
)
def test_invariant_1_repairs_must_exceed_twice_the_regressions(
    counts: MakeTable, repairs: int, regressions: int, u: int, verdict: Verdict
) -> None:
    decision = gate().decide(counts(repairs, regressions, n=20))
    assert decision.verdict is verdict
    assert (decision.evidence["R"], decision.evidence["B"], decision.evidence["u"]) == (repairs, regressions, u)
    assert (decision.evidence["weight"], decision.evidence["min_u"]) == (2.0, 1.0)
    assert f"u = {repairs} - 2 x {regressions} = {u:+d} {'>= 1' if u >= 1 else '< 1'}" in decision.reason


@pytest.mark.parametrize(
    "edited", [("m2_sources.md",), ("m1_task.md", "m2_sources.md"), (), ("m2_sources.md", "m1_task.md")]
)
def test_invariant_2_an_edit_of_any_other_module_is_rejected_whatever_its_u(
    counts: MakeTable, edited: tuple[str, ...]
) -> None:
    table = replace(counts(20, 0, n=20), edited=edited, attributed="m1_task.md", module_rule=True)
    for variant in ("binary", "u_only", "graded", "family"):
        decision = gate(variant=variant).decide(table)
        assert decision.verdict is Verdict.REJECT
        assert decision.evidence["u"] == 20
        assert "the failure was attributed to m1_task.md" in decision.reason
    assert gate().decide(replace(table, edited=("m1_task.md",))).verdict is Verdict.ACCEPT
    assert gate().decide(replace(table, module_rule=False)).verdict is Verdict.ACCEPT


def test_invariant_2_comes_before_the_coverage_floor_and_needs_an_attribution(table: MakeTable) -> None:
    hardly, never = table("+" + "?" * 9), table("?" * 10)
    for scores in (hardly, never):
        assert gate().decide(scores).verdict is Verdict.UNDECIDED
        wrong = replace(scores, edited=("m3_skill.md",), attributed="m1_task.md", module_rule=True)
        assert gate().decide(wrong).verdict is Verdict.REJECT
    nobody = gate().decide(replace(table("+" * 10), edited=("m1_task.md",), module_rule=True))
    assert nobody.verdict is Verdict.REJECT
    assert "attributed to no module" in nobody.reason


@given(rows=st.lists(st.tuples(MAYBE_MISSING, MAYBE_MISSING), min_size=2, max_size=20))
def test_invariant_6_a_missing_outcome_is_no_repair_and_no_regression(rows: list[tuple[float, float]]) -> None:
    before, after = (list(side) for side in zip(*rows, strict=True))
    complete = [(a, b) for a, b in rows if not math.isnan(a + b)]
    decision = gate(coverage=0.0).decide(paired(before, after))
    if complete:
        assert decision.evidence["R"] == complete.count((0.0, 1.0))
        assert decision.evidence["B"] == complete.count((1.0, 0.0))
        assert decision.evidence["missing"] == len(rows) - len(complete) == len(rows) - decision.n
    else:
        assert decision.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize("variant", ["binary", "u_only", "graded", "family"])
@given(rows=st.lists(st.tuples(MAYBE_MISSING, MAYBE_MISSING), min_size=2, max_size=12), data=st.data())
def test_invariant_7_the_gate_is_pure_and_swapping_the_arms_negates_every_difference(
    variant: str, rows: list[tuple[float, float]], data: st.DataObject
) -> None:
    before, after = (list(side) for side in zip(*rows, strict=True))
    families = tuple(data.draw(st.lists(st.sampled_from("abc"), min_size=len(rows), max_size=len(rows))))
    one, again, swapped = (
        paired(*sides, families=families) for sides in ((before, after), (before, after), (after, before))
    )
    rule = gate(variant=variant, coverage=0.0)
    decision = rule.decide(one)
    assert decision == rule.decide(again) == rule.decide(one)
    assert np.array_equal(one.incumbent[:, 0], before, equal_nan=True), "the table is left as it is"
    other = rule.decide(swapped)
    assert (other.n, other.wins, other.losses) == (decision.n, decision.losses, decision.wins)
    if decision.effect is not None:
        assert other.effect == pytest.approx(-decision.effect)
        assert (other.evidence["R"], other.evidence["B"]) == (decision.evidence["B"], decision.evidence["R"])
        names = [name for name in decision.evidence if name.startswith("family ")]
        assert names
        assert all(other.evidence[name] == pytest.approx(-decision.evidence[name]) for name in names)
    assert not decision.verdict is other.verdict is Verdict.ACCEPT


@given(
    rows=st.lists(st.tuples(OUTCOMES, OUTCOMES), min_size=2, max_size=30),
    weight=st.floats(1.0, 5.0),
    min_u=st.floats(0.0, 4.0),
)
def test_invariant_8_of_binary_complete_pairs_the_total_never_changes_a_decision_of_u(
    rows: list[tuple[float, float]], weight: float, min_u: float
) -> None:
    table = paired(*(list(side) for side in zip(*rows, strict=True)))
    whole = gate(weight=weight, min_u=min_u).decide(table)
    alone = gate(variant="u_only", weight=weight, min_u=min_u).decide(table)
    assert whole.verdict is alone.verdict
    assert "may not fall" not in whole.reason or whole.evidence["u"] <= 0


def test_the_total_bites_on_graded_scores() -> None:
    """Three tasks rise by 0.1 and one falls by 0.9: u = 3 - 2, and the total falls by 0.6."""
    table = paired([0.5, 0.5, 0.5, 1.0], [0.6, 0.6, 0.6, 0.1])
    decision = gate().decide(table)
    assert decision.verdict is Verdict.REJECT
    assert decision.reason.endswith("u = 3 - 2 x 1 = +1 >= 1; total success -15.0 points, and it may not fall")
    assert gate(variant="u_only").decide(table).verdict is Verdict.ACCEPT


def test_missing_scores_need_a_coverage_of_nine_tenths(table: MakeTable) -> None:
    assert gate().decide(table("+" * 17 + "?" * 3)).verdict is Verdict.UNDECIDED
    assert gate().decide(table("+" * 18 + "?" * 2)).verdict is Verdict.ACCEPT
    assert gate(coverage=0.5).decide(table("+" * 10 + "?" * 10)).verdict is Verdict.ACCEPT
    below = gate(coverage=0.5).decide(table("+" * 9 + "?" * 11))
    assert below.verdict is Verdict.UNDECIDED
    assert "a verdict needs 50% of the tasks" in below.reason
    assert below.evidence["R"] == 9


def test_an_acceptance_may_not_rest_on_regressions_that_went_missing() -> None:
    before, after = [0.0] + [1.0] * 19, [1.0] * 19 + [NAN]
    assert gate().decide(paired(before, after)).verdict is Verdict.ACCEPT
    weighed = decide(gate(), paired(before, after))
    assert weighed.verdict is Verdict.UNDECIDED
    assert "not if the scores that only the candidates lack were failures" in weighed.reason
    both = decide(gate(), paired([*before[:-1], NAN], after))
    assert both.verdict is Verdict.ACCEPT, "what both lack is nobody's regression"


def test_a_higher_bar_and_a_lower_weight(counts: MakeTable) -> None:
    assert gate(min_u=2).decide(counts(1, 0, n=20)).verdict is Verdict.REJECT
    assert gate(min_u=2).decide(counts(2, 0, n=20)).verdict is Verdict.ACCEPT
    assert gate(min_u=2).decide(counts(4, 1, n=20)).verdict is Verdict.ACCEPT
    assert gate(min_u=0).decide(counts(2, 1, n=20)).verdict is Verdict.REJECT, "u > 0 always"
    assert gate(weight=1).decide(counts(2, 1, n=20)).verdict is Verdict.ACCEPT
    assert gate(weight=1).decide(counts(1, 1, n=20)).verdict is Verdict.REJECT
    assert smallest_tables(gate(), n=20) == "1-0, 3-1, 5-2"
    assert smallest_tables(gate(min_u=2), n=20) == "2-0, 4-1, 6-2"
    assert smallest_tables(gate(weight=1), n=20) == "1-0, 2-1, 3-2"


def test_a_safety_critical_regression_counts_four() -> None:
    """Four repairs and one break: u = 4 - 2 = 2, and 4 - 4 = 0 where the broken task is critical."""
    table = paired([0.0] * 4 + [1.0] * 6, [1.0] * 4 + [0.0] + [1.0] * 5)
    assert gate().decide(table).evidence["u"] == 2
    critical = gate().decide(replace(table, critical=("t4", "somewhere-else")))
    assert (critical.verdict, critical.evidence["u"]) == (Verdict.REJECT, 0)
    assert critical.evidence["critical_regressions"] == 1
    assert "1 of them safety-critical at 4" in critical.reason
    assert gate().decide(replace(table, critical=("t0", "t9"))).verdict is Verdict.ACCEPT
    assert gate(safety=3).decide(replace(table, critical=("t4",))).evidence["u"] == 1


def test_graded_weighs_what_was_gained_and_lost_and_balances_families() -> None:
    """u = 0.3 + 0.3 - 2 x 0.2 = 0.2. By family: a (0.3 + 0.3) / 2 = +0.3, b -0.2, balanced +0.05."""
    table = paired([0.2, 0.4, 0.6], [0.5, 0.7, 0.4], families=("a", "a", "b"))
    decision = gate(variant="graded").decide(table)
    assert decision.verdict is Verdict.ACCEPT
    assert decision.evidence["R"] == pytest.approx(0.6)
    assert decision.evidence["B"] == pytest.approx(0.2)
    assert decision.evidence["u"] == pytest.approx(0.2)
    assert decision.evidence["balanced_change"] == pytest.approx(0.05)
    assert decision.evidence["family a"] == pytest.approx(0.3)
    assert decision.evidence["family b"] == pytest.approx(-0.2)
    assert "family-balanced change +5.0 points > 0" in decision.reason


def test_graded_rejects_where_the_balanced_mean_falls_although_u_is_above_0() -> None:
    """Four tasks of a rise by 0.1 each, one of b falls by 0.15: u = 0.4 - 0.3, balanced (0.1 - 0.15) / 2."""
    table = paired([0.5] * 5, [0.6] * 4 + [0.35], families=("a", "a", "a", "a", "b"))
    decision = gate(variant="graded").decide(table)
    assert decision.verdict is Verdict.REJECT
    assert decision.evidence["u"] == pytest.approx(0.1)
    assert decision.evidence["balanced_change"] == pytest.approx(-0.025)
    one = gate(variant="graded").decide(replace(table, families=()))
    assert one.verdict is Verdict.ACCEPT, "without families there is one, and its mean rises by 0.05"
    far = paired([0.5] * 5, [0.6] * 4 + [0.25])
    assert gate(variant="graded").decide(far).verdict is Verdict.REJECT, "u = 0.4 - 2 x 0.25"


FIVE = ("a", "a", "b", "b", "c", "c", "d", "d", "e", "e")


def _by_family(*means: float) -> GenerationTable:
    """Two tasks of each of five families move by the family's mean."""
    after = [0.5 + mean for mean in means for _ in range(2)]
    return paired([0.5] * 10, after, families=FIVE)


@pytest.mark.parametrize(
    ("means", "verdict", "words"),
    [
        ((0.1, 0.1, 0.1, -0.1, -0.1), Verdict.ACCEPT, "3 of 5 families rise, and 3 must"),
        ((0.3, 0.3, 0.0, 0.0, 0.0), Verdict.REJECT, "2 of 5 families rise, and 3 must"),
        (
            (0.1, 0.1, 0.1, 0.1, -0.11),
            Verdict.REJECT,
            "the lowest, e, changes by -11.0 points, and -10.0 points is the",
        ),
        ((0.05, 0.05, 0.05, -0.1, -0.1), Verdict.REJECT, "family-balanced change -1.0 points <= 0"),
    ],
)
def test_family_strict_needs_a_rise_in_three_of_five_and_no_fall_by_over_a_tenth(
    means: tuple[float, ...], verdict: Verdict, words: str
) -> None:
    decision = gate(variant="family").decide(_by_family(*means))
    assert decision.verdict is verdict
    assert words in decision.reason
    assert decision.evidence["balanced_change"] == pytest.approx(sum(means) / 5)


def test_family_strict_rounds_three_fifths_up() -> None:
    """Of 4 families 2.4, so 3, must rise."""
    two = paired([0.5] * 4, [0.7, 0.7, 0.5, 0.5], families=tuple("abcd"))
    assert gate(variant="family").decide(two).verdict is Verdict.REJECT
    three = paired([0.5] * 4, [0.7, 0.7, 0.6, 0.5], families=tuple("abcd"))
    assert gate(variant="family").decide(three).verdict is Verdict.ACCEPT


def test_family_strict_doubles_what_a_safety_critical_task_lost() -> None:
    """e falls by 0.08 on one of its two tasks: mean -0.04; critical, at 4 in place of 2, -0.08, and at 6 -0.12."""
    table = _by_family(0.1, 0.1, 0.1, 0.1, 0.0)
    table.candidates[0, 9] -= 0.08
    assert gate(variant="family").decide(table).evidence["balanced_change"] == pytest.approx((0.4 - 0.04) / 5)
    critical = replace(table, critical=("t9",))
    twice = gate(variant="family").decide(critical)
    assert twice.verdict is Verdict.ACCEPT
    assert twice.evidence["balanced_change"] == pytest.approx((0.4 - 0.08) / 5)
    assert twice.evidence["family e"] == pytest.approx(-0.04), "the family's own mean is told as it is"
    assert gate(variant="family", safety=6).decide(critical).verdict is Verdict.REJECT


@pytest.mark.parametrize("variant", ["graded", "family"])
def test_a_family_that_was_not_measured_leaves_it_undecided(variant: str) -> None:
    table = paired([0.5] * 10 + [NAN], [0.7] * 11, families=(*FIVE, "f"))
    decision = gate(variant=variant).decide(table)
    assert decision.verdict is Verdict.UNDECIDED
    assert "no task of f was measured on both sides" in decision.reason
    assert gate(variant="binary").decide(table).verdict is Verdict.ACCEPT


def test_the_best_of_several_is_that_with_the_largest_u(table: MakeTable) -> None:
    """By the mean both gain 2 of 10; 4 - 2 x 2 = 0 and 2 - 0 = 2."""
    both = table("++++--====", "++========")
    decision = gate().decide(both)
    assert (decision.winner, decision.verdict) == (1, Verdict.ACCEPT)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"wieght": 2}, r"options of the gate repairs_over_regressions: wieght: .*allowed are variant, weight, min_u"),
        ({"variant": "gso"}, r"variant: Input should be 'binary', 'u_only', 'graded' or 'family'"),
        ({"weight": 0}, r"weight: Input should be greater than 0"),
        ({"coverage": 1.2}, r"coverage: Input should be less than or equal to 1"),
        ({"variant": "graded", "min_u": 2}, r"min_u counts tasks, and the variant 'graded' counts none"),
    ],
)
def test_wrong_options_are_refused_in_words(options: dict[str, object], words: str) -> None:
    with pytest.raises(SetupError, match=words):
        gate(**options)


def test_the_decision_survives_json(counts: MakeTable) -> None:
    decision = gate().decide(replace(counts(3, 1, n=20), families=("a", "b") * 10))
    assert Decision.model_validate_json(decision.model_dump_json()) == decision


def _exact(n: int, disagreement: float, *, weight: int, min_u: int) -> float:
    """P(accept), summed over the multinomial of repairs, regressions and neither."""
    half = disagreement / 2
    outcomes = [(r, b) for r in range(n + 1) for b in range(n + 1 - r) if r - weight * b >= max(min_u, 1)]
    drawn = [(r, b, n - r - b) for r, b in outcomes]
    return float(scipy_stats.multinomial.pmf(drawn, n, [half, half, 1 - disagreement]).sum())


TABLE = {
    (20, 2, 1): (0.15, 0.25, 0.27, 0.24, 0.20),
    (20, 1, 1): (0.15, 0.27, 0.35, 0.39, 0.41),
    (20, 2, 2): (0.01, 0.06, 0.11, 0.13, 0.12),
    (40, 2, 1): (0.22, 0.26, 0.22, 0.18, 0.13),
}
"""gso.md, section 6.2: (n, weight, min_u) to the false-accept rate at each disagreement."""

CELLS = [
    (n, weight, least, p, said)
    for (n, weight, least), row in TABLE.items()
    for p, said in zip((0.02, 0.05, 0.10, 0.16, 0.25), row, strict=True)
]


@pytest.mark.parametrize(("n", "weight", "min_u", "disagreement", "said"), CELLS)
def test_the_false_accepts_are_those_of_the_specification_and_the_gate_has_them(
    n: int, weight: int, min_u: int, disagreement: float, said: float
) -> None:
    exact = _exact(n, disagreement, weight=weight, min_u=min_u)
    assert exact == pytest.approx(said, abs=0.01)
    rule = gate(weight=weight, min_u=min_u)
    printed = false_accept_rate(rule, n=n, candidates=1, disagreement=disagreement, simulations=2000, seed=11)
    assert abs(printed.rate - exact) <= 3.5 * math.sqrt(exact * (1 - exact) / 2000)
