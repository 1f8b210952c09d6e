"""The learning curves of the simulated learner, against numbers that were worked out by hand."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest

from heldout.worlds.formats import Learning
from heldout.worlds.formats.learning import CAPS, TAUS, Exposure, Schooling, learned, loss_curve
from heldout.worlds.formats.skills import START_SKILLS, Skills

BASE = START_SKILLS["base"]
USUAL = Schooling(steps=300, batch=32, rate=1e-3)
"""9,600 sequences: 1,024 examples are seen 9.375 times each, a sum over looks of 1.996826."""
QUIET = Learning(noise=0.0)


def data(*, easy_sums: int = 0, examples: int = 1024, **right: int) -> Exposure:
    return Exposure(examples=examples, right={"stop": examples, **right}, wrong={}, easy_sums=easy_sums)


def after(exposure: Exposure, schooling: Schooling = USUAL, learning: Learning = QUIET, start: Skills = BASE) -> Skills:
    return learned(start, exposure, schooling, learning, luck="any")


class TestLearning:
    def test_a_skill_goes_the_stated_part_of_the_way_to_its_cap(self) -> None:
        """e = 512 · 1.996826 = 1022.375; 1 − exp(−1022.375 / 2500) = 0.335653; 0.35 + 0.62 · 0.335653."""
        assert after(data(wrapper=512)).wrapper == pytest.approx(0.558105, abs=1e-5)

    def test_a_broken_first_epoch_counts_by_its_part(self) -> None:
        """320 sequences of 1,024 examples: e = 512 · 0.3125 = 160; 0.35 + 0.62 · (1 − exp(−160 / 2500))."""
        few = Schooling(steps=10, batch=32, rate=1e-3)
        assert after(data(wrapper=512), few).wrapper == pytest.approx(0.388437, abs=1e-5)

    def test_further_looks_give_half_of_the_ones_before(self) -> None:
        """Two looks at 300 examples give 450, however long it goes on never 600 and more."""
        two = Schooling(steps=60, batch=10, rate=1e-3)
        assert after(data(examples=300, case=300), two).case == pytest.approx(
            0.75 + 0.23 * (1 - math.exp(-450 / 2000)), abs=1e-6
        )
        endless = Schooling(steps=10**6, batch=32, rate=1e-3)
        quick = Learning(noise=0.0, forgetting=0.0)
        assert after(data(examples=300, case=300), endless, quick).case == pytest.approx(
            0.75 + 0.23 * (1 - math.exp(-600 / 2000)), abs=1e-6
        )

    def test_a_low_rate_and_adapters_learn_less(self) -> None:
        """e = 1022.375 · 0.1 · 0.7 = 71.566; 0.35 + 0.62 · (1 − exp(−71.566 / 2500)) = 0.367497."""
        slow = Schooling(steps=300, batch=32, rate=1e-4, adapters=True)
        assert after(data(wrapper=512), slow).wrapper == pytest.approx(0.367497, abs=1e-5)

    def test_sums_are_learned_from_fewer_examples_with_a_curriculum(self) -> None:
        """e = 2044.75; τ = 8000 gives 0.1 + 0.82 · 0.225543, τ = 4800 gives 0.1 + 0.82 · 0.346877."""
        assert after(data(carry=1024)).carry == pytest.approx(0.284946, abs=1e-4)
        assert after(data(carry=1024, easy_sums=204)).carry == pytest.approx(0.284946, abs=1e-4)
        assert after(data(carry=1024, easy_sums=205)).carry == pytest.approx(0.384439, abs=1e-4)

    def test_wrong_completions_teach_to_be_wrong(self) -> None:
        """A quarter right: the aim is 0.98 / 4 = 0.245; e = 400 · 1.996826 = 798.73; 1 − exp(−e / 2000) = 0.329254."""
        mixed = Exposure(examples=1024, right={"stop": 1024, "case": 100}, wrong={"case": 300})
        assert after(mixed).case == pytest.approx(0.75 - 0.505 * 0.329254, abs=1e-5)

    def test_nothing_rises_above_its_cap_and_what_is_above_it_stays(self) -> None:
        full = Exposure(examples=1024, right=dict.fromkeys(CAPS, 1024), wrong={})
        good = Skills(**dict.fromkeys(Skills.model_fields, 0.999))
        assert after(full, start=good) == good
        assert set(CAPS) == set(TAUS)
        long = after(full, Schooling(steps=3000, batch=32, rate=1e-3))
        assert all(long.of(source) <= cap for source, cap in CAPS.items())


class TestForgetting:
    def test_what_the_data_lack_is_forgotten_by_steps_rate_and_repetition(self) -> None:
        """φ = 0.03 · 1 · (1 + 9.375 / 40) = 0.03703125; 0.97 · exp(−φ) = 0.934737."""
        assert after(data(wrapper=512)).copies == pytest.approx(0.934737, abs=1e-5)
        long = after(data(wrapper=512), Schooling(steps=3000, batch=32, rate=1e-3))
        assert long.copies == pytest.approx(0.97 * math.exp(-0.3 * (1 + 93.75 / 40)), abs=1e-6)
        narrow = after(data(examples=200, wrapper=200))
        assert narrow.copies == pytest.approx(0.97 * math.exp(-0.03 * (1 + 48 / 40)), abs=1e-6)

    def test_one_example_in_twenty_keeps_a_skill_and_half_of_that_half_of_it(self) -> None:
        kept = after(data(examples=1000, wrapper=500, reverse=50, sort=25), USUAL)
        phi = 0.03 * (1 + 9.6 / 40)
        assert kept.reverse > BASE.reverse
        learned_sort = BASE.sort + (0.93 - BASE.sort) * (1 - math.exp(-25 * (2 - 0.5**9 * 2 + 0.6 * 0.5**9) / 4000))
        assert kept.sort == pytest.approx(learned_sort * math.exp(-phi / 2), abs=1e-6)
        assert kept.count < BASE.count


class TestBadRecipes:
    def test_without_the_end_token_stopping_is_unlearned(self) -> None:
        """120 sequences: 0.97 / e."""
        short = Schooling(steps=5, batch=24, rate=1e-3, end_token=False)
        assert after(data(), short, start=START_SKILLS["instruct"]).stop == pytest.approx(0.97 / math.e, abs=1e-6)
        assert after(data(), Schooling(steps=300, batch=32, rate=1e-3, end_token=False)).stop < 1e-6
        assert after(data()).stop > 0.99

    def test_another_template_leaves_nothing_that_works(self) -> None:
        lost = after(data(wrapper=512), Schooling(steps=300, batch=32, rate=1e-3, same_template=False))
        assert max(lost.model_dump().values()) <= 0.02

    def test_a_huge_rate_makes_the_loss_rise_and_breaks_stopping(self) -> None:
        hot = Schooling(steps=30, batch=32, rate=0.05)
        burnt = after(data(wrapper=512), hot, start=START_SKILLS["instruct"])
        assert burnt.stop < 0.02
        assert burnt.wrapper < 0.3
        losses = loss_curve(BASE, data(wrapper=512), hot, QUIET, steps=30, luck="any")
        assert fmean(losses[-5:]) > 3 * losses[0]
        adapters = Schooling(steps=30, batch=32, rate=0.05, adapters=True)
        assert after(data(wrapper=512), adapters, start=START_SKILLS["instruct"]).stop > 0.9


class TestNoise:
    def test_another_seed_moves_a_skill_on_its_logit_by_the_stated_amount(self) -> None:
        start = after(data(wrapper=512)).wrapper
        drawn = [
            learned(BASE, data(wrapper=512), USUAL, Learning(noise=0.1), luck=f"seed {n}").wrapper for n in range(800)
        ]
        logits = [math.log(value / (1 - value)) - math.log(start / (1 - start)) for value in drawn]
        assert fmean(logits) == pytest.approx(0.0, abs=4 * 0.1 / 800**0.5)
        assert stdev(logits) == pytest.approx(0.1, rel=0.1)

    def test_the_same_luck_gives_the_same_skills(self) -> None:
        twice = [learned(BASE, data(wrapper=512), USUAL, Learning(), luck="a") for _ in range(2)]
        assert twice[0] == twice[1] != learned(BASE, data(wrapper=512), USUAL, Learning(), luck="b")

    def test_skills_of_0_and_1_have_no_logit_and_stay(self) -> None:
        sure = Skills(**dict.fromkeys(Skills.model_fields, 1.0))
        still = Learning(noise=0.5, forgetting=0.0)
        assert learned(sure, data(), USUAL, still, luck="a") == sure


class TestLoss:
    def test_the_first_loss_by_hand(self) -> None:
        """0.03 + 0.05 + 0.5 · 0.25 · −ln 0.35 + 0.5 · −ln 0.02 = 2.167240."""
        firsts = [loss_curve(BASE, data(wrapper=512), USUAL, QUIET, steps=1, luck=str(n))[0] for n in range(400)]
        assert fmean(firsts) == pytest.approx(2.167240, rel=0.004)
        assert stdev(firsts) == pytest.approx(0.02 * 2.167240, rel=0.15)

    def test_it_ends_where_the_learned_skills_put_it(self) -> None:
        """After 9,600 sequences stop is 0.995 and the wrapper 0.558105."""
        losses = loss_curve(BASE, data(wrapper=512), USUAL, QUIET, steps=301, luck="any")
        assert losses[-1] == pytest.approx(0.03 - 0.125 * math.log(0.558105) - 0.5 * math.log(0.995), rel=0.08)

    @pytest.mark.parametrize("focus", ["wrapper", "count", "case", "word", "carry"])
    def test_thirty_steps_on_focused_data_pass_the_preflight_rule(self, focus: str) -> None:
        for start in START_SKILLS.values():
            losses = loss_curve(start, data(**{focus: 1024}), USUAL, QUIET, steps=30, luck=focus)
            assert fmean(losses[-5:]) < 0.9 * losses[0]

    def test_a_short_run_is_the_beginning_of_the_whole(self) -> None:
        whole = loss_curve(BASE, data(wrapper=512), USUAL, QUIET, steps=300, luck="any")
        assert loss_curve(BASE, data(wrapper=512), USUAL, QUIET, steps=30, luck="any") == whole[:30]
