"""The `training_catalog` improver: attribution, direction and repairs by rules, with hand-computed numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from training_views import (
    CLUSTERS,
    FAILURES,
    LIBRARY,
    asset,
    build_view,
    cluster,
    diagnosis_view,
    ended,
    failed,
    research_view,
    took,
)

from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.improvers import edits_weights, make_training_improver
from heldout.improvers.strategies import load_library
from heldout.improvers.training_catalog import TrainingCatalog
from heldout.improvers.training_repair import settings_of
from heldout.improvers.training_roles import Recipe, Research
from heldout.records import Spend
from heldout.store.training_events import WeighedStrategy
from heldout.testing.object_graph import reached
from heldout.training import OptimiserSettings, TrainConfig
from heldout.training.preflight import STAGE_A, STAGE_B

Make = Callable[..., TrainingCatalog]


def catalog(**options: Any) -> TrainingCatalog:
    """The improver with these options."""
    made = make_training_improver(ImproverConfig(kind="training_catalog", options=options))
    assert isinstance(made, TrainingCatalog)
    return made


@pytest.fixture
def three(tmp_path: Path) -> Make:
    """The improver over the library of three strategies."""
    path = tmp_path / "three.toml"
    path.write_text(LIBRARY, encoding="utf-8")
    return lambda **options: catalog(library=str(path), **options)


def rows(found: Research) -> dict[str, WeighedStrategy]:
    """The table by id."""
    return {row.id: row for row in found.table}


class TestDiagnosis:
    def test_recoverable_points_are_share_times_fix_rate_times_100_and_the_largest_is_the_focal_problem(self) -> None:
        found = catalog().diagnose(diagnosis_view())
        assert found.fix_rates == {"stop": 0.5, "wrapper": 0.5, "carry": 0.5}
        assert found.focal == "stop"
        assert "stop: 60 of 100 tasks (f 0.600), fix rate 0.50 (not tried yet): 30.0 recoverable points" in found.why
        assert "then wrapper 15.0; carry 2.5" in found.why
        assert found.spend == Spend()

    def test_fix_rates_are_beta_means_of_decided_attempts_on_the_same_problem(self) -> None:
        history = (
            ended(1, "a", "rejected"),
            ended(2, "a", "rejected"),
            ended(3, "b", "accepted", focal="wrapper"),
            ended(4, "a", "not_measured"),
            ended(5, "a", "undecided"),
            ended(6, "a", "preflight_failed"),
            ended(7, "a", "training_failed"),
        )
        found = catalog().diagnose(diagnosis_view(history=history))
        assert found.fix_rates == {"stop": 0.25, "wrapper": pytest.approx(2 / 3), "carry": 0.5}
        assert found.focal == "wrapper", "0.3 · 2/3 · 100 = 20 points against 0.6 · 0.25 · 100 = 15"

    def test_at_least_five_failures_are_cited_or_all_that_there_are(self) -> None:
        found = catalog().diagnose(diagnosis_view())
        assert found.cited == ("t0", "t1", "t2", "t3", "t4")
        few = (failed(20, "carry", "stop"), failed(21, "stop"), failed(22, "count"))
        assert catalog().diagnose(diagnosis_view(failures=few)).cited == ("t21", "t20", "t22")

    def test_it_says_what_the_failures_that_it_read_have_in_common(self) -> None:
        why = catalog().diagnose(diagnosis_view()).why
        assert "Of 5 read, 5 have it; 3 of these also wrapper; 0 of 5 stopped by themselves." in why

    def test_of_equal_points_the_larger_cluster_wins_and_then_the_code(self) -> None:
        equal = (cluster("word", 10), cluster("case", 10))
        assert catalog().diagnose(diagnosis_view(clusters=equal)).focal == "case"

    def test_where_nothing_fails_there_is_no_focal_problem(self) -> None:
        found = catalog().diagnose(diagnosis_view(clusters=(), failures=()))
        assert (found.focal, found.cited) == (None, ())
        assert "none of the 100" in found.why

    def test_the_random_arm_draws_every_cluster_by_its_seed_and_cites_that_one(self) -> None:
        improver = catalog(focal="random")
        drawn = [improver.diagnose(diagnosis_view(seed=seed)) for seed in range(60)]
        assert set(Counter(one.focal for one in drawn)) == {"stop", "wrapper", "carry"}
        assert drawn == [improver.diagnose(diagnosis_view(seed=seed)) for seed in range(60)]
        carry = next(one for one in drawn if one.focal == "carry")
        assert carry.cited[0] == "t10"
        assert "drawn at random" in carry.why


class TestResearch:
    def test_the_score_is_fit_times_reported_gain_times_reproduction_per_hour(self, three: Make) -> None:
        found = three().research(research_view())
        table = rows(found)
        assert table["alpha"].score == pytest.approx(1.0 * 10.0 * 0.5 / (36.0 * 1.05 / 3600.0))
        assert table["alpha"].score == pytest.approx(476.19, abs=0.01)
        assert table["beta"].score == pytest.approx(173.91, abs=0.01)
        assert (found.chosen, found.rule) == ("alpha", "expected_gain_per_hour")
        assert found.recipe == Recipe(builder="formats:end", count=100)

    def test_the_table_holds_every_strategy_with_why_it_lost(self, three: Make) -> None:
        found = three().research(research_view())
        assert [row.id for row in found.table] == ["alpha", "beta", "gamma"]
        assert rows(found)["alpha"].lost == ""
        assert rows(found)["beta"].lost == "174 points per hour; the chosen alpha has 476 points per hour"
        assert rows(found)["gamma"].lost == "does not fit 'stop'"
        assert rows(found)["gamma"].score is None
        assert found.why == (
            "alpha: fits 1.00 · 10 reported points · P 0.50 in 37.8 s: 476 points per hour; next beta with 174"
        )

    def test_the_other_rule_leaves_the_cost_out(self, three: Make) -> None:
        found = three(rule="expected_gain").research(research_view(focal="wrapper"))
        assert {name: row.score for name, row in rows(found).items()} == pytest.approx(
            {"alpha": 2.5, "beta": 4.0, "gamma": 4.0}
        )
        assert found.chosen == "beta", "of equal scores the first by id"

    def test_what_the_budget_does_not_allow_is_marked_and_never_chosen(self, three: Make) -> None:
        found = three().research(research_view(focal="wrapper", budget_s=30.0))
        assert found.chosen == "gamma"
        assert rows(found)["beta"].lost == "would take about 82.8 s, and 30.0 s are left"
        assert rows(found)["beta"].score is None
        nothing = three().research(research_view(budget_s=1.0))
        assert (nothing.chosen, nothing.recipe) == (None, None)
        assert "nothing is left to try: of 3 strategies 2 would take longer" in nothing.why
        assert len(nothing.table) == 3

    def test_costs_follow_the_pace_of_this_machine_and_leave_the_ranking_as_it_is(self, three: Make) -> None:
        history = (ended(1, "gamma", "accepted", focal="wrapper", spend=took(9.0)),)
        table = rows(three().research(research_view(history=history)))
        assert table["alpha"].cost_s == pytest.approx(37.8 / 2)
        assert table["beta"].cost_s == pytest.approx(82.8 / 2)
        twice = (ended(1, "gamma", "accepted", focal="wrapper", spend=took(16.0), noise_spend=took(7.0)),)
        assert rows(three().research(research_view(history=twice)))["alpha"].cost_s == pytest.approx(37.8 / 2)
        cheap = (ended(1, "gamma", "preflight_failed", focal="wrapper", spend=took(0.5)),)
        assert rows(three().research(research_view(history=cheap)))["alpha"].cost_s == pytest.approx(37.8)

    def test_reproduction_is_the_librarys_word_for_two_attempts_and_then_what_happened(self, three: Make) -> None:
        def after(*statuses: str) -> float:
            history = tuple(ended(number, "beta", status) for number, status in enumerate(statuses, start=1))
            return rows(three().research(research_view(history=history)))["beta"].reproduces

        assert after() == 0.4
        assert after("accepted") == pytest.approx(1.8 / 3)
        assert after("rejected", "rejected") == pytest.approx(0.8 / 4)
        assert after("preflight_failed") == pytest.approx(0.8 / 3)
        assert after("undecided") == 0.4

    def test_an_accident_is_missing_and_never_counts_as_a_rejected_idea(self, three: Make) -> None:
        found = three().research(research_view(history=(ended(1, "alpha", "not_measured"),)))
        assert found.chosen == "alpha"
        assert rows(found)["alpha"].reproduces == 0.5

    def test_a_rejected_recipe_is_not_run_again_until_the_head_moves(self, three: Make) -> None:
        rejected = ended(1, "alpha", "rejected")
        found = three().research(research_view(history=(rejected,)))
        assert found.chosen == "beta"
        assert rows(found)["alpha"].lost == "was rejected in round 1 with the same recipe on this model"
        moved = (rejected, ended(2, "beta", "accepted"))
        assert rows(three().research(research_view(history=moved)))["alpha"].score is not None

    @pytest.mark.parametrize("status", ["contaminated", "preflight_failed", "no_data", "training_failed"])
    def test_a_recipe_that_can_never_work_stays_barred_on_every_model(self, status: str, three: Make) -> None:
        history = (ended(1, "alpha", status), ended(2, "beta", "accepted"))
        found = three().research(research_view(history=history))
        assert found.chosen == "beta"
        assert "in round 1 with the same recipe" in rows(found)["alpha"].lost

    def test_where_all_were_rejected_one_is_tried_again_with_twice_the_examples(self, three: Make) -> None:
        history = (ended(1, "alpha", "rejected"), ended(2, "beta", "rejected"))
        found = three().research(research_view(history=history))
        assert found.chosen == "alpha"
        assert found.recipe is not None
        assert found.recipe.count == 200
        assert "Again, with 200 examples instead of 100." in rows(found)["alpha"].mechanism
        again = three().research(research_view(history=(*history, ended(3, "alpha", "rejected"))))
        assert (again.chosen, again.recipe and again.recipe.count) == ("alpha", 400)
        spent = (*history, *(ended(number, name, "rejected") for number in (3, 4) for name in ("alpha", "beta")))
        assert three().research(research_view(history=spent)).chosen is None

    def test_a_validated_builder_of_its_own_takes_the_cost_of_building_away(self, three: Make) -> None:
        table = rows(three().research(research_view(assets=(asset("alpha"),))))
        assert table["alpha"].cost_s == pytest.approx(36.0)
        assert table["beta"].cost_s == pytest.approx(82.8)

    def test_validated_builders_of_accepted_strategies_are_joined_to_the_best_and_make_it_cheaper(
        self, three: Make
    ) -> None:
        history = (ended(1, "gamma", "accepted", focal="wrapper"),)
        found = three().research(research_view(history=history, assets=(asset("gamma"),)))
        assert found.chosen == "alpha+kept"
        assert rows(found)["alpha+kept"].cost_s == pytest.approx(36.0 * (1 + 0.7 * 0.05))
        assert rows(found)["alpha"].lost.endswith("the chosen alpha+kept has 483 points per hour")
        assert found.recipe is not None
        assert found.recipe.builder == "train:combined"
        parts = found.recipe.params["parts"]
        assert [(one["builder"], round(one["weight"], 3)) for one in parts] == [
            ("formats:end", 0.7),
            ("formats:wrapper", 0.3),
        ]

    def test_a_builder_is_only_joined_where_its_strategy_was_accepted(self, three: Make) -> None:
        history = (ended(1, "gamma", "rejected", focal="wrapper"),)
        assert three().research(research_view(history=history, assets=(asset("gamma"),))).chosen == "alpha"

    def test_the_recipe_that_lies_in_an_asset_is_joined_and_one_without_a_builder_is_not(self, three: Make) -> None:
        history = (ended(1, "gamma", "accepted", focal="wrapper"),)
        own = asset("gamma", recipe=Recipe(builder="formats:word", params={}))
        found = three().research(research_view(history=history, assets=(own,)))
        assert found.recipe is not None
        assert found.recipe.params["parts"][1]["builder"] == "formats:word"
        script = asset("gamma", recipe=Recipe(script="print(1)"))
        assert three().research(research_view(history=history, assets=(script,))).chosen == "alpha"

    def test_a_rejected_combination_bars_itself_and_counts_against_its_strategy(self, three: Make) -> None:
        history = (ended(1, "gamma", "accepted", focal="wrapper"), ended(2, "alpha+kept", "rejected"))
        found = three().research(research_view(history=history, assets=(asset("gamma"),)))
        assert rows(found)["alpha"].reproduces == pytest.approx(1.0 / 3)
        assert rows(found)["alpha+kept"].lost.startswith("was rejected in round 2")
        assert found.chosen == "alpha"

    def test_training_on_references_needs_references(self) -> None:
        bare = tuple(failed(number, "wrong", solution="") for number in range(5))
        view = research_view(focal="wrong", clusters=(cluster("wrong", 50),), failures=bare)
        found = catalog().research(view)
        assert found.chosen is None
        assert {row.data_available for row in found.table} == {False}
        assert catalog().research(research_view(focal="wrong", clusters=(cluster("wrong", 50),))).chosen is not None

    def test_a_library_smaller_than_the_table_has_to_be_is_the_users_fault(self) -> None:
        improver = catalog(only=["end_token", "wrapper_data"])
        with pytest.raises(SetupError, match=r"'formats' offers 2 strategies \(end_token, wrapper_data\), and 3 must"):
            improver.research(research_view())
        assert improver.research(research_view(min_strategies=2)).chosen == "end_token"


class TestArms:
    def test_the_random_arm_draws_every_open_strategy_by_its_seed(self, three: Make) -> None:
        improver = three(strategy="random")
        drawn = [improver.research(research_view(seed=seed)) for seed in range(40)]
        assert {one.chosen for one in drawn} == {"alpha", "beta"}
        assert drawn == [improver.research(research_view(seed=seed)) for seed in range(40)]
        assert all(len(one.table) == 3 for one in drawn)
        assert drawn[0].why == "drawn at random from 2 open strategies"

    def test_exploring_draws_in_that_share_of_the_rounds(self, three: Make) -> None:
        improver = three(explore=0.5)
        drawn = sum(improver.research(research_view(seed=seed)).why.startswith("drawn") for seed in range(300))
        assert 110 < drawn < 190
        assert three(explore=0.0).research(research_view()).chosen == "alpha"

    def test_the_repeating_arm_takes_the_best_until_one_is_accepted_and_then_that_one(self, three: Make) -> None:
        improver = three(strategy="repeat_first")
        assert improver.research(research_view()).chosen == "alpha"
        assert improver.research(research_view(history=(ended(1, "alpha", "rejected"),))).chosen == "beta"
        history = (ended(1, "alpha", "rejected"), ended(2, "beta", "accepted"), ended(3, "beta", "rejected"))
        again = improver.research(research_view(history=history, focal="wrapper"))
        assert again.chosen == "beta"
        assert rows(again)["beta"].lost == ""
        assert again.recipe == Recipe(builder="formats:mixture", count=100)
        assert improver.research(research_view(history=history, budget_s=50.0)).chosen is None

    def test_a_strategys_id_is_that_one_in_every_round(self, three: Make) -> None:
        improver = three(strategy="beta")
        history = tuple(ended(number, "beta", "rejected") for number in range(1, 5))
        assert improver.research(research_view(history=history)).chosen == "beta"
        with pytest.raises(
            SetupError, match=r"no strategy 'delta'; .* best, random, repeat_first, or one of alpha, beta"
        ):
            three(strategy="delta")

    def test_ids_that_no_library_has_are_told_before_anything_is_spent(self, three: Make) -> None:
        with pytest.raises(SetupError, match="has no strategy 'delta'"):
            three(without=["delta"])
        with pytest.raises(SetupError, match="has no strategy 'delta'"):
            catalog(only=["delta"])
        assert catalog(only=["references", "adapters", "low_rate"]).options.only

    def test_options_are_checked(self) -> None:
        with pytest.raises(SetupError, match=r"explore.*allowed are library, only, without, rule"):
            catalog(explore=2.0)


class TestTheWorld:
    @pytest.mark.parametrize(
        ("focal", "strategy"),
        [
            ("stop", "end_token"),
            ("wrapper", "wrapper_data"),
            ("count", "counting_data"),
            ("case", "case_data"),
            ("word", "word_data"),
            ("carry", "carry_curriculum"),
        ],
    )
    def test_the_first_choice_for_a_problem_is_the_data_about_it(self, focal: str, strategy: str) -> None:
        assert catalog().research(research_view(focal=focal)).chosen == strategy

    def test_after_many_rejections_bad_strategies_come_up_and_die_of_what_they_are(self) -> None:
        improver, history, chosen = catalog(), [], []
        for number in range(1, 30):
            found = improver.research(research_view(history=tuple(history)))
            if found.chosen is None:
                break
            chosen.append(found.chosen)
            status = "contaminated" if found.chosen == "leak_select" else "rejected"
            history.append(ended(number, found.chosen, status))
        assert chosen[:2] == ["end_token", "mixture_all"]
        assert chosen.count("leak_select") == 1, "contaminated once, barred for good"
        assert len(set(chosen)) == len([one for one in load_library("formats").strategies if one.fit("stop") > 0.0])


class TestRepairs:
    def build(self, recipe: Recipe, *failing: str, **changes: Any) -> Recipe | None:
        return catalog().build(build_view(recipe, failing=failing, **changes)).recipe

    def test_the_first_call_returns_the_recipe(self) -> None:
        view = build_view()
        assert catalog().build(view).recipe == view.recipe

    @pytest.mark.parametrize("name", ["template", "round trip", "mask", "labels"])
    def test_another_template_is_dropped(self, name: str) -> None:
        recipe = Recipe(builder="formats:end", train={"template": "{{ messages }}", "steps": 9})
        changed = self.build(recipe, name)
        assert changed is not None
        assert settings_of(changed, TrainConfig()) == TrainConfig(steps=9)

    def test_a_missing_end_token_is_taught(self) -> None:
        changed = self.build(Recipe(builder="formats:end", train={"end_token": False}), "end token")
        assert changed is not None
        assert changed.train == {"end_token": True}

    @pytest.mark.parametrize("name", ["loss falls", "finite loss"])
    def test_a_loss_that_does_not_fall_quarters_the_rate(self, name: str) -> None:
        changed = self.build(Recipe(builder="formats:end", train={"optimiser": {"learning_rate": 0.4}}), name)
        assert changed is not None
        assert changed.train["optimiser"]["learning_rate"] == pytest.approx(0.1)
        run = TrainConfig(optimiser=OptimiserSettings(learning_rate=0.02))
        changed = self.build(Recipe(builder="formats:end"), name, settings=run)
        assert changed is not None
        assert changed.train["optimiser"]["learning_rate"] == pytest.approx(0.005), "of the run's own rate"

    def test_a_training_that_died_of_its_loss_quarters_the_rate_too(self) -> None:
        view = build_view(Recipe(builder="formats:end"), repair=1, errors=("the loss of step 3 is not finite",))
        changed = catalog().build(view).recipe
        assert changed is not None
        assert changed.train["optimiser"]["learning_rate"] == pytest.approx(0.00025)

    def test_answers_that_do_not_stop_get_the_end_token_then_end_data_then_a_larger_rate(self) -> None:
        first = self.build(Recipe(builder="formats:case", train={"end_token": False}), "stops")
        assert first is not None
        assert first.train == {"end_token": True}
        second = self.build(first, "stops")
        assert second is not None
        assert [(one["builder"], one["weight"]) for one in second.params["parts"]] == [
            ("formats:case", 1.0),
            ("formats:end", 1.0),
        ]
        third = self.build(second, "stops")
        assert third is not None
        assert third.train["optimiser"]["learning_rate"] == pytest.approx(2e-3)
        assert third.params == second.params

    def test_end_data_is_half_of_what_several_builders_make(self) -> None:
        parts = [{"builder": "formats:case", "weight": 0.7, "params": {}}, {"builder": "formats:word", "weight": 0.3}]
        changed = self.build(Recipe(builder="train:combined", params={"parts": parts}), "stops")
        assert changed is not None
        assert changed.params["parts"][-1] == {"builder": "formats:end", "weight": pytest.approx(1.0), "params": {}}

    def test_time_memory_and_length(self) -> None:
        changed = self.build(Recipe(builder="formats:end"), "time", "memory", "length")
        assert changed is not None
        assert changed.train == {"steps": 150, "accumulate": 2, "max_length": 512}

    def test_adapters_that_do_not_load_become_a_training_of_all_weights(self) -> None:
        changed = self.build(Recipe(builder="formats:end", train={"method": "lora"}), "loads")
        assert changed is not None
        assert changed.train == {"method": "full"}

    def test_what_no_rule_mends_is_given_up(self) -> None:
        assert self.build(Recipe(builder="formats:end"), "schema") is None
        assert self.build(Recipe(builder="formats:end", train={"end_token": False}), "data", "end token") is None
        assert self.build(Recipe(builder="formats:end"), "template") is None
        assert catalog().build(build_view(repair=1, errors=("the builder raised",))).note.startswith("no rule mends")

    def test_every_check_of_the_preflight_is_known(self) -> None:
        able = Recipe(builder="formats:case", train={"template": "x", "end_token": False, "method": "lora"})
        mended = {name for name in (*STAGE_A, *STAGE_B) if self.build(able, name) is not None}
        assert mended == {*STAGE_A, *STAGE_B} - {"data", "schema"}


def test_it_is_found_by_its_name_and_says_what_it_is() -> None:
    improver = catalog()
    assert edits_weights(improver)
    assert (improver.simulated, improver.uses_model, improver.bound) == (False, False, Spend())


def test_it_keeps_nothing_of_a_view() -> None:
    improver = catalog()
    improver.diagnose(diagnosis_view())
    improver.research(research_view())
    improver.build(build_view(failing=["time"]))
    texts = [one.task.input for one in FAILURES]
    assert reached(FAILURES, texts) == set(texts)
    assert reached(improver, texts) == set()


def test_same_view_same_answer() -> None:
    for _ in range(2):
        assert catalog().research(research_view()) == catalog().research(research_view())
        assert catalog().diagnose(diagnosis_view()) == catalog().diagnose(diagnosis_view(clusters=tuple(CLUSTERS)))
