from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy import stats as scipy_stats

from heldout.config import GateConfig
from heldout.gates import GATES, Gate, false_accept_rate, make_gate, smallest_tables
from heldout.stats import pace_decision


def _gate(kind: str) -> Gate:
    return make_gate(GateConfig(kind=kind, prior=(0.0, 0.05)))


def _exact_rate(kind: str, n: int, disagreement: float) -> float:
    """P(accept) of one candidate, summed over the numbers of discordant tasks and of wins."""
    rate = 0.0
    for discordant in range(n + 1):
        wins = np.arange(discordant + 1)
        losses = discordant - wins
        accepts = {
            "greedy": wins > losses,
            "net": wins > losses,
            "mcnemar": scipy_stats.binom.sf(wins - 1, discordant, 0.5) <= 0.05,
            "ladder": (wins > losses) & ((wins - losses) ** 2 > discordant),
            "tolerance": (wins - losses) / n > -0.03,
            "near_best": ((wins - losses) / n >= -0.03) | (losses - wins < 3),
            "manifest": losses == 0,
            "keep_all": wins >= 0,
            "repairs_over_regressions": wins > 2 * losses,
        }[kind]
        share = scipy_stats.binom.pmf(discordant, n, disagreement)
        rate += share * float(scipy_stats.binom.pmf(wins, discordant, 0.5)[accepts].sum())
    return rate


@pytest.mark.parametrize(
    "kind",
    [
        *("greedy", "net", "mcnemar", "ladder", "tolerance", "near_best", "manifest", "keep_all"),
        "repairs_over_regressions",
    ],
)
@pytest.mark.parametrize(("n", "disagreement"), [(16, 0.2), (64, 0.1)])
def test_invariant_12_printed_rate_equals_the_exact_rate(kind: str, n: int, disagreement: float) -> None:
    printed = false_accept_rate(_gate(kind), n=n, candidates=1, disagreement=disagreement, seed=1)
    exact = _exact_rate(kind, n, disagreement)
    assert abs(printed.rate - exact) <= 3.5 * math.sqrt(exact * (1 - exact) / 2000)


def test_invariant_12_printed_rate_of_pace_equals_its_simulated_rate() -> None:
    printed = false_accept_rate(_gate("pace"), n=64, candidates=1, disagreement=0.4, seed=2)
    rng = np.random.default_rng(99)
    null = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.6, 0.2], size=(4000, 64))
    simulated = np.mean([pace_decision(row, np.arange(64)).accepts for row in null])
    assert abs(printed.rate - simulated) <= 3.5 * math.hypot(printed.standard_error, 0.05 / math.sqrt(1000))


def test_invariant_12_printed_rate_of_the_best_of_four_equals_its_simulated_rate() -> None:
    printed = false_accept_rate(_gate("greedy"), n=64, candidates=4, disagreement=0.2, seed=3)
    rng = np.random.default_rng(98)
    right = rng.binomial(64, 0.5, size=20_000)
    losses = rng.binomial(right[:, None], 0.2, size=(20_000, 4))
    wins = rng.binomial(64 - right[:, None], 0.2, size=(20_000, 4))
    simulated = float((wins > losses).any(axis=1).mean())
    assert abs(printed.rate - simulated) <= 3.5 * math.hypot(printed.standard_error, 0.5 / math.sqrt(20_000))


@pytest.mark.parametrize("kind", ["mcnemar", "pace"])
def test_false_accepts_of_one_candidate_stay_below_alpha_over_2000_null_runs(kind: str) -> None:
    assert false_accept_rate(_gate(kind), n=64, candidates=1, disagreement=0.3, seed=4).rate <= 0.05


def _exact_family_rate(sizes: list[int], disagreement: float) -> float:
    """P(accept) of the variant `family`, summed over the changes of every family: the mean of their means rises, 3 of 5
    of them do, and none falls by more than 0.10."""
    found = {(0.0, 0): 1.0}
    for size in sizes:
        wins, losses = np.divmod(np.arange((size + 1) ** 2), size + 1)
        half = disagreement / 2
        rest = size - wins - losses
        chances = np.where(rest >= 0, scipy_stats.binom.pmf(wins, size, half), 0.0)
        chances *= scipy_stats.binom.pmf(losses, np.maximum(size - wins, 0), half / (1.0 - half))
        grown: dict[tuple[float, int], float] = {}
        for (total, rose), chance in found.items():
            for win, loss, share in zip(wins, losses, chances, strict=True):
                mean = float(win - loss) / size
                if share > 0.0 and mean >= -0.10 - 1e-9:
                    key = (round(total + mean, 9), rose + (mean > 0))
                    grown[key] = grown.get(key, 0.0) + chance * float(share)
        found = grown
    needed = math.ceil(0.6 * len(sizes))
    return sum(chance for (total, rose), chance in found.items() if total > 1e-6 and rose >= needed)


def test_invariant_12_printed_rate_of_the_family_rule_is_that_at_the_families_of_the_tasks() -> None:
    gate = make_gate(GateConfig(kind="repairs_over_regressions", options={"variant": "family"}))
    families = ["a"] * 12 + ["b"] * 12 + ["c"] * 12
    printed = false_accept_rate(gate, n=36, candidates=1, disagreement=0.2, seed=6, families=families)
    exact = _exact_family_rate([12, 12, 12], 0.2)
    assert abs(printed.rate - exact) <= 3.5 * math.sqrt(exact * (1 - exact) / 2000)
    single = false_accept_rate(gate, n=36, candidates=1, disagreement=0.2, seed=6)
    assert abs(single.rate - _exact_family_rate([36], 0.2)) <= 3.5 * math.sqrt(0.25 / 2000)
    assert single.rate > printed.rate + 0.1


def test_families_of_other_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="a family of each of 4 tasks, got 2"):
        false_accept_rate(_gate("net"), n=4, candidates=1, disagreement=0.2, families=["a", "b"])


def test_keep_all_accepts_every_null_generation_by_construction() -> None:
    assert false_accept_rate(_gate("keep_all"), n=50, candidates=3, disagreement=0.16, simulations=500).rate == 1.0


def test_invariant_12_printed_rate_of_dual_split_equals_its_simulated_rate() -> None:
    printed = false_accept_rate(_gate("dual_split"), n=50, candidates=1, disagreement=0.16, seed=5)
    rng = np.random.default_rng(97)
    gains = rng.choice([-1, 0, 1], p=[0.08, 0.84, 0.08], size=(20_000, 2, 25)).sum(axis=2)
    simulated = float(((gains.min(axis=1) >= 0) & (gains.max(axis=1) > 0)).mean())
    assert abs(printed.rate - simulated) <= 3.5 * math.hypot(printed.standard_error, 0.5 / math.sqrt(20_000))
    assert printed.rate < false_accept_rate(_gate("net"), n=50, candidates=1, disagreement=0.16, seed=5).rate


def test_confirmation_halves_the_false_accepts_and_more() -> None:
    greedy = false_accept_rate(_gate("greedy"), n=64, candidates=4, disagreement=0.2)
    for kind in ("select_confirm", "fresh"):
        assert false_accept_rate(_gate(kind), n=64, candidates=4, disagreement=0.2).rate < greedy.rate / 2


def test_rate_is_seeded_and_has_its_standard_error() -> None:
    def run(seed: int) -> tuple[float, float]:
        return false_accept_rate(_gate("greedy"), n=16, candidates=2, disagreement=0.2, simulations=400, seed=seed)

    rate, standard_error = run(1)
    assert (rate, standard_error) == run(1)
    assert rate != run(2)[0]
    assert standard_error == pytest.approx(math.sqrt(rate * (1 - rate) / 400))


@pytest.mark.parametrize("kind", sorted(GATES))
def test_two_thousand_null_generations_take_under_three_seconds(kind: str) -> None:
    begin = time.process_time()
    false_accept_rate(_gate(kind), n=64, candidates=4, disagreement=0.2, simulations=2000)
    assert time.process_time() - begin < 3.0


@pytest.mark.parametrize(
    ("kind", "rows", "tables"),
    [
        ("greedy", 1, "1-0"),
        ("net", 2, "1-0, 2-1"),
        ("repeats", 1, "1-0"),
        ("mcnemar", 5, "5-0, 7-1, 9-2, 10-3, 12-4"),
        ("pace", 3, "8-0, 10-1, 11-2"),
        ("ladder", 3, "2-0, 4-1, 5-2"),
        ("tolerance", 3, ""),
        ("select_confirm", 3, ""),
        ("bayes_pilot", 3, ""),
        ("bayes_online", 3, ""),
        ("fresh", 3, ""),
        ("keep_all", 3, "0-0, 0-1, 0-2"),
        ("dual_split", 3, ""),
        ("near_best", 3, ""),
        ("manifest", 3, ""),
        ("repairs_over_regressions", 3, "1-0, 3-1, 5-2"),
    ],
)
def test_smallest_tables_of_the_specification(kind: str, rows: int, tables: str) -> None:
    assert smallest_tables(_gate(kind), rows=rows) == tables


@pytest.mark.parametrize("n", [24, 40, 64, 100])
def test_tables_of_pace_commit_in_every_order(n: int) -> None:
    """9-1 and 12-3 commit in some orders of the tasks, and are not listed."""
    assert smallest_tables(_gate("pace"), n=n, rows=4) == "8-0, 10-1, 11-2, 13-3"


def test_too_few_tasks_have_no_committing_table() -> None:
    assert smallest_tables(_gate("mcnemar"), n=4) == ""
    assert smallest_tables(_gate("mcnemar"), n=6) == "5-0"
