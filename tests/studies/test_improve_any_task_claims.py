"""The claims of `heldout bench improve_any_task`, on results made by hand so that the right verdict is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from heldout.studies.improve_any_task.arms import (
    ARMS,
    AS_DIAGNOSED,
    FIXED,
    FULL,
    HARMFUL,
    MIXTURE,
    NO_PREFLIGHT,
    RANDOM_FOCAL,
    RANDOM_STRATEGY,
    WITHOUT_START,
    arms_of,
)
from heldout.studies.improve_any_task.claims import MENDED, claims_of
from heldout.studies.improve_any_task.forgetting import retained_table
from heldout.studies.improve_any_task.leads import lead_of
from heldout.studies.improve_any_task.measuring import Worth
from heldout.studies.improve_any_task.plans import Start
from heldout.studies.improve_any_task.reading import Noise, Round, Trail
from heldout.studies.improve_any_task.runs import Final, Result
from heldout.studies.improve_any_task.summaries import ArmRuns, Arms, share
from heldout.studies.improve_any_task.tables import (
    attempts_table,
    differences_table,
    dominant_table,
    gains_table,
)
from heldout.studies.improve_any_task.training_noise import noise_table
from heldout.studies.improve_any_task.without_start import start_table
from heldout.studies.results import Claim, ClaimVerdict
from heldout.studies.tables import Cell, Table

SEEDS = 12
KEPT = {"copy": 0.9, "reverse": 0.9, "sort": 0.9}


@dataclass(frozen=True)
class Made:
    """An arm by hand: fractions of one, the start at 0.3 on both audit and select."""

    audit: float = 0.6
    select: float = 0.6
    first: float = 0.45
    wasted: float = 0.0
    dominant: Sequence[str] = ("stop", "count")
    retain: Mapping[str, float] = field(default_factory=lambda: KEPT)
    spread: float = 0.01
    """From seed to seed, so that there is something to test with."""
    shipped: float | None = None
    """What the final would be on audit without the start."""


def _final(audit: float, select: float, retain: Mapping[str, float]) -> Final:
    return Final(worth=Worth(weights=f"{audit:.6f}", audit=audit, tasks=100, exact=audit, retain=retain), select=select)


def _results(made: Made, start: Start, *, shift: int) -> tuple[Result, ...]:
    found = []
    for seed in range(SEEDS):
        moved = made.spread * np.sin(seed * (1.0 + shift))
        rounds = [Round(number=at + 1, dominant=code, status="accepted") for at, code in enumerate(made.dominant)]
        rounds.append(Round(number=9, dominant="", status="rejected", cpu_s=100.0 * made.wasted + moved))
        final = _final(made.audit + moved, made.select, made.retain)
        found.append(
            Result(
                seed=seed,
                start=start,
                config_digest="made",
                begun=_final(0.3, 0.3, KEPT),
                final=final,
                without_start=final if made.shipped is None else _final(made.shipped, 0.2, KEPT),
                first=_final(made.first, 0.4, KEPT).worth,
                trail=Trail(rounds=tuple(rounds), spent_s=100.0),
            )
        )
    return tuple(found)


def _arms(starts: Sequence[Start] = ("base", "instruct"), **changed: Made) -> Arms:
    """Every arm equal but for those that are named (by variable names of the arms' module, in small letters)."""
    names = {
        **{"full": FULL, "fixed": FIXED, "mixture": MIXTURE, "as_diagnosed": AS_DIAGNOSED},
        **{"random_focal": RANDOM_FOCAL, "random_strategy": RANDOM_STRATEGY, "no_preflight": NO_PREFLIGHT},
        "without_start": WITHOUT_START,
    }
    given = {names[key]: made for key, made in changed.items()}
    return {
        start: {
            name: ArmRuns(name, arm, _results(given.get(name, Made()), start, shift=at))
            for at, (name, arm) in enumerate(ARMS.items())
        }
        for start in starts
    }


def _claim(arms: Arms, name: str) -> Claim:
    return next(one for one in claims_of(arms, "a") if one.id == name)


def test_every_claim_of_the_specification_is_judged_once() -> None:
    assert [one.id for one in claims_of(_arms(), "a")] == [f"C{number}" for number in range(1, 9)]


@pytest.mark.parametrize(("name", "arm"), [("C1", "random_focal"), ("C2", "random_strategy")])
def test_a_module_that_matters_and_one_that_does_harm(name: str, arm: str) -> None:
    worse, same, better = (_claim(_arms(**{arm: Made(audit=audit)}), name) for audit in (0.5, 0.6, 0.7))
    assert worse.verdict is ClaimVerdict.REPRODUCED
    assert worse.number == pytest.approx(10.0, abs=0.5)
    assert same.verdict is ClaimVerdict.UNDECIDED
    assert better.verdict is ClaimVerdict.NOT_REPRODUCED


def test_no_preflight_must_lose_and_waste() -> None:
    both = _claim(_arms(no_preflight=Made(audit=0.5, wasted=0.4)), "C3")
    loses = _claim(_arms(no_preflight=Made(audit=0.5)), "C3")
    wastes = _claim(_arms(no_preflight=Made(audit=0.7, wasted=0.4)), "C3")
    assert both.verdict is ClaimVerdict.REPRODUCED
    assert "higher by +40.0" in both.sentence
    assert loses.verdict is not ClaimVerdict.REPRODUCED
    assert wastes.verdict is ClaimVerdict.NOT_REPRODUCED


def test_a_claim_of_two_halves_shows_the_number_of_the_half_that_decided() -> None:
    loses, neither = (_claim(_arms(no_preflight=Made(audit=audit)), "C3") for audit in (0.5, 0.6))
    thrifty = _claim(_arms(full=Made(wasted=0.4), no_preflight=Made(audit=0.5)), "C3")
    assert loses.verdict is ClaimVerdict.UNDECIDED  # it loses, and wastes no more
    assert loses.rests_on.startswith("the second half, which decides: share of wasted spend")
    assert loses.number == pytest.approx(0.0, abs=0.5)
    assert neither.rests_on.startswith("the first half, which decides: audited score")
    assert (thrifty.verdict, thrifty.number) == (ClaimVerdict.NOT_REPRODUCED, pytest.approx(-40.0, abs=0.5))
    stalls, keeps_up = (_claim(_arms(fixed=Made(audit=audit)), "C5") for audit in (0.46, 0.56))
    assert stalls.number == pytest.approx(14.0, abs=1.0)  # points above the fixed recipe
    assert stalls.rests_on.startswith("the first half, which decides: audited score")
    assert keeps_up.number == pytest.approx(0.5 * 15.0 - 11.0, abs=1.0)  # half of full's later gain minus its own
    assert keeps_up.rests_on.startswith("the second half, which decides: audited gain after the first acceptance")
    assert keeps_up.interval is not None
    assert keeps_up.interval[1] < 0.0


def test_the_dominant_error_changes_in_most_runs_or_in_none() -> None:
    assert _claim(_arms(), "C4").verdict is ClaimVerdict.REPRODUCED
    never = _claim(_arms(full=Made(dominant=("stop", "stop"))), "C4")
    assert never.verdict is ClaimVerdict.NOT_REPRODUCED
    assert never.number == 0.0
    assert "base: stop (12 of 12)" in never.sentence


def test_the_commonest_path_is_no_tie_that_was_broken_and_no_path_that_occurs_once() -> None:
    def told(paths: Sequence[Sequence[str]]) -> str:
        runs = _results(Made(), "base", shift=0)
        changed = []
        for one, path in zip(runs, paths, strict=True):
            rounds = tuple(Round(number=at + 1, dominant=code) for at, code in enumerate(path))
            changed.append(one.model_copy(update={"trail": Trail(rounds=rounds, spent_s=100.0)}))
        arms = dict(_arms())
        arms["base"] = {**arms["base"], FULL: ArmRuns(FULL, ARMS[FULL], tuple(changed))}
        return _claim(arms, "C4").sentence

    once = [("stop", f"fault {number}") for number in range(SEEDS)]
    assert "base: no path occurs twice in 12 runs; instruct: stop → count (12 of 12)" in told(once)
    tied = [("stop", "wrapper"), ("carry",)] * 2 + once[4:]
    assert "base: carry and stop → wrapper (2 of 12 each);" in told(tied)
    assert "base: carry (3 of 12);" in told([*tied[:-1], ("carry",)])


def test_seeds_are_the_unit_of_the_dominant_error_and_the_page_says_since_when() -> None:
    same = Made(dominant=("stop", "stop"))
    arms = dict(_arms())
    arms["base"] = {**arms["base"], FULL: ArmRuns(FULL, ARMS[FULL], _results(same, "base", shift=0))}
    half = _claim(arms, "C4")
    assert half.number == 0.0  # 12 of 24 runs change, and in no seed both of its runs
    assert half.interval == share(0, SEEDS).interval
    assert "In 0 of 12 seeds" in half.sentence
    assert "(12 of 24 runs)" in half.sentence
    assert MENDED in half.sentence
    assert _claim(_arms(), "C4").interval == share(SEEDS, SEEDS).interval


def test_a_fixed_recipe_stalls_where_it_gains_little_after_its_first_acceptance() -> None:
    stalls = _claim(_arms(fixed=Made(audit=0.46)), "C5")
    keeps_up = _claim(_arms(fixed=Made(audit=0.56)), "C5")
    assert stalls.verdict is ClaimVerdict.REPRODUCED
    assert keeps_up.verdict is ClaimVerdict.NOT_REPRODUCED  # below full, and yet more than half of what it gains later


def test_the_page_says_whether_the_mixture_wins() -> None:
    wins, loses, equal = (_claim(_arms(mixture=Made(audit=audit)), "C5").sentence for audit in (0.8, 0.4, 0.6))
    assert "at once wins in this world" in wins
    assert "does not win here" in loses
    assert "not told apart from full" in equal
    assert "p after Holm over all 9 rows 0.000" in wins


def test_the_mixture_wins_by_holm_s_rule_alone() -> None:
    spread = [0.07, 0.07, 0.07, 0.07, 0.07, -0.01, -0.01, -0.01, -0.01, -0.01, -0.01, 0.07]
    sentence = _claim(_led_by(MIXTURE, spread), "C5").sentence
    assert "Training on all data at once is ahead of full by +3.0 (+" in sentence
    assert "(plain interval; p after Holm over all 9 rows 0." in sentence
    assert "wins" not in sentence


def test_holm_s_rule_corrects_for_the_whole_family() -> None:
    spread = [-0.07, -0.07, -0.07, -0.07, -0.07, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, -0.07]
    arms = _led_by(RANDOM_FOCAL, spread)
    alone = lead_of(arms, [RANDOM_FOCAL]).p_values[RANDOM_FOCAL]
    three = lead_of(arms, [RANDOM_FOCAL, RANDOM_STRATEGY, NO_PREFLIGHT]).p_values
    assert 0.05 / 3 < alone < 0.05
    assert three[RANDOM_FOCAL] == pytest.approx(3 * alone)
    assert _claim(arms, "C1").verdict is ClaimVerdict.UNDECIDED  # one comparison alone would be called reproduced


def _led_by(name: str, spread: Sequence[float]) -> Arms:
    """Every arm with the same scores, but for one that differs from them by these."""

    def of(start: Start, moves: Sequence[float]) -> tuple[Result, ...]:
        plain = _results(Made(), start, shift=0)
        audits = [0.6 + move for move in moves]
        return tuple(
            one.model_copy(update={"final": _final(audit, 0.6, KEPT)}) for one, audit in zip(plain, audits, strict=True)
        )

    return {
        start: {
            other: ArmRuns(other, arm, of(start, spread if other == name else [0.0] * SEEDS))
            for other, arm in ARMS.items()
        }
        for start in ("base", "instruct")
    }


def test_the_chance_to_ship_a_loss_is_that_from_the_start_that_is_hardest_to_improve() -> None:
    never = _claim(_arms(), "C6")
    assert never.number == 0.0
    assert never.verdict is ClaimVerdict.UNDECIDED  # of 12 runs: less than one in a hundred cannot be told
    arms = dict(_arms())
    full = _results(Made(audit=0.3, select=0.3, spread=0.0, shipped=0.2), "trained", shift=0)
    shipped = tuple(one.model_copy(update={"final": one.without_start}) for one in full)
    arms["trained"] = {
        FULL: ArmRuns(FULL, ARMS[FULL], full),
        WITHOUT_START: ArmRuns(WITHOUT_START, ARMS[WITHOUT_START], shipped),
    }
    often = _claim(arms, "C6")
    assert often.number == 100.0
    assert often.verdict is ClaimVerdict.REPRODUCED
    assert "from trained 12 of 12" in often.sentence
    assert "in 0 of" in often.sentence
    assert "(by −10.0 points on audit on average, exactly −10.0)" in often.sentence


def test_measured_scores_say_that_they_decide_and_how_many_losses_are_clear() -> None:
    """Of 100 tasks at 0.3 a standard error of a difference is √(0.3 · 0.7 · 2 / 100) = 6.5 points."""
    shipped = [0.29] * 6 + [0.2] * 4 + [0.3] * 2
    given = [_results(Made(shipped=audit), "instruct", shift=0)[0] for audit in shipped]
    real = tuple(_measured(one.model_copy(update={"final": one.without_start})) for one in given)
    arms = {start: dict(runs) for start, runs in _arms().items()}
    arms["instruct"][WITHOUT_START] = ArmRuns(WITHOUT_START, ARMS[WITHOUT_START], real)
    claim = _claim(arms, "C6")
    assert claim.number == pytest.approx(100 * 10 / 12)
    assert "10 of 12 (by −4.6 points on audit on average, 4 by more than one standard error)" in claim.sentence
    assert "Measured scores decide that here, so that one of 100 tasks is enough" in claim.sentence


def _measured(one: Result) -> Result:
    """As of a real model, whose exact scores nobody knows."""

    def final(given: Final) -> Final:
        return given.model_copy(update={"worth": given.worth.model_copy(update={"exact": None})})

    return one.model_copy(update={"begun": final(one.begun), "final": final(one.final)})


def test_a_final_below_the_start_on_select_refutes_the_half_about_the_start_in_the_pool() -> None:
    assert _claim(_arms(full=Made(select=0.2)), "C6").verdict is ClaimVerdict.NOT_REPRODUCED


def test_deciding_on_the_diagnosed_tasks_overstates_more_or_less() -> None:
    more, less = (_claim(_arms(as_diagnosed=Made(select=select)), "C7") for select in (0.7, 0.5))
    assert more.verdict is ClaimVerdict.REPRODUCED
    assert more.number == pytest.approx(10.0, abs=0.5)
    assert less.verdict is ClaimVerdict.NOT_REPRODUCED


def test_one_skill_that_falls_is_found_and_small_falls_do_not_count() -> None:
    assert "0 of" in _claim(_arms(), "C8").sentence
    lost = _claim(_arms(mixture=Made(retain={**KEPT, "reverse": 0.7})), "C8")
    assert lost.verdict is ClaimVerdict.REPRODUCED
    assert lost.number == pytest.approx(-20.0)
    assert "`reverse` in `mixture at once`" in lost.sentence
    assert lost.sentence.endswith("from base, −20.0 points.")


def test_a_fall_that_is_one_of_many_is_judged_among_all_of_them() -> None:
    arms = {start: dict(runs) for start, runs in _arms().items()}
    falls = [0.07, 0.07, 0.07, 0.07, 0.07, -0.01, -0.01, -0.01, -0.01, -0.01, -0.01, 0.07]  # alone: p < 0.05
    noisy = tuple(
        one.model_copy(update={"final": _final(0.6, 0.6, {**KEPT, "sort": 0.9 - fall})})
        for one, fall in zip(arms["base"][MIXTURE].results, falls, strict=True)
    )
    arms["base"][MIXTURE] = ArmRuns(MIXTURE, ARMS[MIXTURE], noisy)
    claim = _claim(arms, "C8")
    assert claim.sentence.startswith("0 of 54 skills of an arm fall significantly (Holm)")
    assert claim.verdict is ClaimVerdict.UNDECIDED


def test_arms_that_were_not_run_have_no_claim() -> None:
    few = {start: {name: given[name] for name in (FULL, RANDOM_STRATEGY)} for start, given in _arms().items()}
    assert [one.id for one in claims_of(few, "b")] == ["C2", "C4", "C8"]


def test_one_seed_decides_nothing() -> None:
    def first(runs: ArmRuns) -> ArmRuns:
        return ArmRuns(runs.name, runs.arm, runs.results[:1])

    one = {start: {name: first(runs) for name, runs in given.items()} for start, given in _arms().items()}
    by_id = {claim.id: claim for claim in claims_of(one, "a")}
    assert all(by_id[name].verdict is ClaimVerdict.UNDECIDED for name in ("C1", "C2", "C3", "C5", "C7", "C8"))
    assert all(by_id[name].number is None for name in ("C1", "C2", "C3", "C5"))


# ---- tables


def _rows(table: Table) -> list[dict[str, Cell]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_what_is_the_same_model_in_every_run_differs_by_exactly_nothing() -> None:
    still = tuple(
        one.model_copy(update={"final": one.begun, "without_start": one.begun})
        for one in _results(Made(), "base", shift=0)
    )
    arms = {start: {**runs, FIXED: ArmRuns(FIXED, ARMS[FIXED], still)} for start, runs in _arms().items()}
    arms = {start: {**runs, WITHOUT_START: runs[FULL]} for start, runs in arms.items()}
    gains, lost = (
        next(row for row in _rows(table) if row["arm"] == FIXED)
        for table in (gains_table(arms, name="g", simulated=True), retained_table(arms, name="r", simulated=True))
    )
    assert [gains[name] for name in ("audited gain", "low", "high", "note")] == [0.0, 0.0, 0.0, "the same models"]
    assert [lost[name] for name in ("mean", "low", "high", "note")] == [0.0, 0.0, 0.0, "the same models"]
    rows = {str(row["other arm"]): row for row in _rows(differences_table(arms, name="d"))}
    shared, other = rows[WITHOUT_START], rows[FIXED]
    assert [shared[name] for name in ("full minus it", "low", "high", "note")] == [0.0, 0.0, 0.0, "the same models"]
    assert other["note"] is None
    assert other["low"] != other["high"]


def test_equal_scores_of_different_models_are_no_identity() -> None:
    arms = _arms(full=Made(spread=0.0), random_focal=Made(spread=0.0))
    renamed = tuple(
        one.model_copy(
            update={
                "final": one.final.model_copy(update={"worth": one.final.worth.model_copy(update={"weights": "w"})})
            }
        )
        for one in arms["base"][RANDOM_FOCAL].results
    )
    arms = {**arms, "base": {**arms["base"], RANDOM_FOCAL: ArmRuns(RANDOM_FOCAL, ARMS[RANDOM_FOCAL], renamed)}}
    row = next(row for row in _rows(differences_table(arms, name="d")) if row["other arm"] == RANDOM_FOCAL)
    assert row["note"] is None
    assert (row["full minus it"], row["low"] == row["high"]) == (0.0, False)


def test_the_table_of_differences_has_what_both_spent_and_says_that_the_mixture_is_fixed() -> None:
    arms = {start: dict(runs) for start, runs in _arms().items()}
    for start, seconds in (("base", 50.0), ("instruct", 54.0)):
        less = tuple(
            one.model_copy(update={"trail": one.trail.model_copy(update={"spent_s": seconds})})
            for one in arms[start][MIXTURE].results  # type: ignore[index]
        )
        arms[start][MIXTURE] = ArmRuns(MIXTURE, ARMS[MIXTURE], less)  # type: ignore[index]
    table = differences_table(arms, name="d")
    row = next(row for row in _rows(table) if row["other arm"] == MIXTURE)
    assert (row["full spent, s"], row["it spent, s"]) == (pytest.approx(100.0), pytest.approx(52.0))
    assert "The steps of `mixture at once` are fixed beforehand" in table.note
    assert "The steps of `mixture at once` are fixed beforehand" in attempts_table(arms, name="a", simulated=False).note


def test_the_table_of_attempts_names_the_arms_without_a_budget() -> None:
    arms = {start: dict(runs) for start, runs in _arms().items()}
    assert "no budget" not in attempts_table(arms, name="a", simulated=False).note
    arms["instruct"][HARMFUL] = ArmRuns(HARMFUL, arms_of("instruct")[HARMFUL], arms["instruct"][FULL].results)
    note = attempts_table(arms, name="a", simulated=False).note
    assert "The rounds of `harmful recipe alone` are fixed, and have no budget." in note


def test_the_table_of_gains_holds_what_the_run_promised_beside_what_the_audit_found() -> None:
    table = gains_table(_arms(full=Made(audit=0.5, select=0.8, spread=0.0)), name="gains", simulated=True)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["start"], row["arm"]) == ("base", FULL)
    assert row["audited gain"] == pytest.approx(20.0)
    assert row["overstatement"].value == pytest.approx(30.0)  # type: ignore[union-attr]


def test_the_table_of_dominant_errors_counts_the_seeds_of_each_round() -> None:
    table = dominant_table(_arms(), name="dominant")
    assert table.columns == ("start", "arm", "round 1", "round 2")
    assert table.rows[0] == ("base", FULL, "stop 100", "count 100")


def test_the_table_of_the_start_has_the_loss_of_runs_below_it() -> None:
    arms = _arms(without_start=Made(audit=0.2, spread=0.0))
    row = dict(zip((table := start_table(arms, name="start")).columns, table.rows[0], strict=True))
    assert row["below the start, %"] == 100.0
    assert row["gain where below"] == pytest.approx(-10.0)


def test_training_noise_is_what_flips_alone_do_not_explain() -> None:
    made = _results(Made(), "base", shift=0)
    noisy = tuple(one.model_copy(update={"noise": Noise(n=100, difference=0.2, flips=0.2)}) for one in made)
    arm = arms_of("base")["one recipe trained twice"]
    table = noise_table({"base": {"one recipe trained twice": ArmRuns("twice", arm, noisy)}}, name="n", simulated=True)
    _, pairs, tasks, both, flips, alone, left = table.rows[0]
    assert (pairs, tasks, flips) == (12, 100.0, pytest.approx(20.0))
    assert both == pytest.approx(100 * 0.2 / np.sqrt(2))
    assert alone == pytest.approx(100 * np.sqrt(0.2 / 100 / 2))
    assert left == pytest.approx(np.sqrt(both**2 - alone**2))  # type: ignore[operator]


def test_a_share_of_nothing_is_not_known() -> None:
    assert np.isnan(share(0, 0).value)
    assert share(3, 12).value == 25.0
