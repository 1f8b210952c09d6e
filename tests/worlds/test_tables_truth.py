"""What the simulated worker is worth, exactly: levels of parts, the closed form, and episodes without a sandbox."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
from table_texts import ALWAYS, EVERY_RULE, NONE, START_RULES, full_guide, guide_with, guide_without, job, skill

from heldout.harness.steps import Step
from heldout.skills.guide import start_guide
from heldout.skills.modules import MODULE_OF_STAGE, MODULES, Stage
from heldout.worlds.tables.catalogue import CATALOGUE, HARMFUL
from heldout.worlds.tables.job import Job
from heldout.worlds.tables.levels import ASSUMED, Manner, level, manners, read_guide, read_skill, read_text
from heldout.worlds.tables.odds import CHECK_OF, MENDING, PartOdds, odds_of
from heldout.worlds.tables.parts import CHANCE, RULES, SUMMARY_CHANCE, Part
from heldout.worlds.tables.skill_lines import write_skill
from heldout.worlds.tables.symbolic import outlook, play
from heldout.worlds.tables.truth import PART_MODULE, PART_STAGE, disagreement, mean_rate, pass_rate, wrong_parts

NOTHING = read_text("")
NAMED = {Part.FILE: "orders.xlsx", Part.SHEET: "Plan", Part.COLUMNS: "Amount", Part.LAYOUT: "Total"}
EVERY_PART = tuple(part for part in Part if part is not Part.STEPS)


def _guides() -> Mapping[str, Mapping[str, str]]:
    return {
        "none": NONE,
        "start": start_guide(),
        "full": full_guide(),
        "empty": guide_without(START_RULES),
        "literal": guide_with('The key column is "Amount".', 'The sheet to work on is "Elsewhere".'),
        "always": guide_with(ALWAYS),
        "trust": guide_with(next(edit.text for edit in HARMFUL if edit.name == "trust")),
        "skill": skill(START_RULES, 'The key column is "Amount".'),
        "full skill": skill(EVERY_RULE),
    }


def _jobs(count: int) -> list[Job]:
    """Jobs of all kinds: with and without a summary, with all parts and with few."""
    return [
        job(
            *[part for at, part in enumerate(EVERY_PART) if part in NAMED or (number >> at) % 2],
            number=number,
            steps=2 + number % 3,
            summary="sum.csv" if number % 3 == 0 else None,
            names=NAMED,
        )
        for number in range(count)
    ]


def _where(fits: Callable[[Mapping[Part, PartOdds]], bool], files: Mapping[str, str], *parts: Part) -> Job:
    """The first task whose fixed luck under these files is the wanted one."""
    for number in range(4000):
        made = job(*parts, number=number)
        if fits({one.part: one for one in outlook(files, made).odds}):
            return made
    raise AssertionError("no task has this luck")


class TestLevels:
    def test_without_a_rule_a_part_is_left_to_chance(self) -> None:
        for part in EVERY_PART:
            assert level(part, job(*EVERY_PART), NOTHING, None) == CHANCE[part]
        assert level(Part.OUTPUTS, job(*EVERY_PART, summary="s.csv"), NOTHING, None) == SUMMARY_CHANCE

    def test_a_line_of_this_task_is_better_than_a_sentence_and_neither_is_worse_than_chance(self) -> None:
        for part in EVERY_PART:
            assert level(part, job(*EVERY_PART), NOTHING, Manner.LINE) == 0.97
            assert level(part, job(*EVERY_PART), NOTHING, Manner.SENTENCE) == max(0.85, CHANCE[part])

    def test_a_right_literal_makes_a_part_certain_and_every_wrong_one_costs_seven_per_cent(self) -> None:
        made = job(*EVERY_PART, names=NAMED)
        right, wrong = 'The key column is "Amount".', 'The key column is "Weight".'
        assert level(Part.COLUMNS, made, read_text(right), None) == 1.0
        assert level(Part.COLUMNS, made, read_text(wrong), None) == pytest.approx(CHANCE[Part.COLUMNS] * 0.93)
        both = read_text(f"{right}\n{wrong}\n- {wrong.replace('Weight', 'Rate')}")
        assert level(Part.COLUMNS, made, both, Manner.SENTENCE) == pytest.approx(0.93 * 0.93)
        assert level(Part.SHEET, made, both, None) == CHANCE[Part.SHEET]

    def test_a_harmful_sentence_bounds_its_part_whatever_else_holds(self) -> None:
        made = job(*EVERY_PART, names=NAMED)
        for edit in HARMFUL:
            reading = read_text(f'{edit.text}\nThe sheet to work on is "Plan".')
            for part in EVERY_PART:
                expected = 0.3 if part is edit.part else 1.0 if part is Part.SHEET else 0.97
                assert level(part, made, reading, Manner.LINE) == expected

    def test_the_trap_always_is_right_where_a_summary_is_asked_for_and_wrong_elsewhere(self) -> None:
        reading = read_text(f"- {ALWAYS}")
        assert level(Part.OUTPUTS, job(*EVERY_PART, summary="s.csv"), reading, Manner.LINE) == 1.0
        assert level(Part.OUTPUTS, job(*EVERY_PART), reading, Manner.LINE) == 0.0

    def test_white_space_and_case_do_not_hide_a_rule(self) -> None:
        shouted = "- LIST the outputs that the request\n  names, and  treat any other output as a fault."
        assert read_text(shouted).rules == {"outputs"}
        assert read_text(shouted.replace("names", "holds")).rules == frozenset()

    def test_lines_of_this_task_hold_their_rules_and_those_of_another_mislead(self) -> None:
        here = job(*EVERY_PART, names=NAMED)
        names = {part: f"{name} 2" for part, name in NAMED.items()}
        there = job(*EVERY_PART, number=1, names=names, summary="s.csv", family="join")
        reading = read_text(write_skill(here, EVERY_RULE, digest="ab"))
        assert manners(reading, here) == dict.fromkeys(EVERY_RULE, Manner.LINE)
        held = manners(reading, there)
        assert set(EVERY_RULE) - set(held) == {"outputs", "sheet", "headers", "decoy", "layout", "ambiguity"}
        assert level(Part.COLUMNS, there, reading, held.get("headers")) == pytest.approx(CHANCE[Part.COLUMNS] * 0.93)
        assert level(Part.OUTPUTS, there, reading, held.get("outputs")) == pytest.approx(0.03)
        assert level(Part.OUTPUTS, here, reading, Manner.LINE) == 0.97

    def test_the_digest_is_that_of_the_guide_and_headings_are_no_part_of_it(self) -> None:
        here = job(Part.COLUMNS)
        assert read_skill(write_skill(here, (), digest="00ff"), here).digest == "00ff"
        assert read_skill(write_skill(here, (), digest=""), here).digest == "", "that of an empty guide"
        assert read_guide("# Module 1\n\n## Inputs\n\n- one\n").digest == read_guide("## Inputs\n- one").digest
        assert read_guide("- one").digest != read_guide("- two").digest
        assert read_text("").digest == ""

    def test_skills_of_one_guide_for_one_task_are_one_text_in_draws_whatever_lines_they_lack(self) -> None:
        for made in _jobs(20):
            written = {write_skill(made, EVERY_RULE[:count], digest="00ff", carried=[ALWAYS]) for count in range(19)}
            assert len(written) > 3
            assert {read_skill(text.strip(), made).digest for text in written} == {"00ff"}

    def test_a_lasting_skill_cannot_choose_its_draws(self) -> None:
        """Neither with the digest of a guide, nor as what was written for one task."""
        guide = read_guide("\n\n".join(start_guide().values())).digest
        jobs = _jobs(40)
        planted = [
            skill(START_RULES)["SKILL.md"].replace("\n---\n\n", f'\nmetadata:\n  guide: "{said}"\n---\n\n')
            for said in ("00ff", guide, f"{guide}0000")
        ]
        assert len(set(planted)) == 3
        own = play(start_guide(), jobs[0], seed=0).skill()
        for text in (*planted, own):
            others = {read_skill(text, made).digest for made in jobs[1:]}
            assert others == {read_text(text).digest}
            assert guide not in others
        assert len({read_text(text).digest for text in planted}) == 3, "another text redraws everything"
        assert read_skill(own, jobs[0]).digest == guide
        for made in jobs[:5]:
            plain, *rest = (play({"SKILL.md": text}, made, seed=0).outlook for text in planted)
            assert all(one.odds == plain.odds for one in rest), "and it says the same of the task"


class TestOdds:
    def test_the_luck_of_a_task_is_fixed_and_a_higher_level_never_hurts(self) -> None:
        for made in _jobs(60):
            for one in outlook(full_guide(), made).odds:
                assert one.right[0] <= one.right[1]
                assert one.found[0] <= one.found[1]
                assert list(one.mended) == sorted(one.mended)
            assert outlook(full_guide(), made).odds == odds_of(
                made, read_text(""), dict.fromkeys(EVERY_RULE, Manner.LINE), slip=0.02
            )

    def test_the_share_of_tasks_in_which_a_part_is_right_is_its_level(self) -> None:
        n, level_of_values = 4000, CHANCE[Part.VALUES]
        odds = [outlook(NONE, job(Part.VALUES, number=number)).odds[0] for number in range(n)]
        for values, expected in (
            ([one.right[0] for one in odds], level_of_values),
            ([one.found[0] for one in odds], ASSUMED.no_check),
            ([one.mended[3] for one in odds], 0.4 + 0.5 * 3 / 6),
        ):
            share = sum(value == 0.99 for value in values) / n
            assert set(values) == {0.99, 0.01}
            assert abs(share - expected) < 4.5 * math.sqrt(expected * (1 - expected) / n)

    def test_steps_slip_each_on_its_own_and_more_without_an_order(self) -> None:
        made = job(Part.COLUMNS, steps=3)
        assert outlook(NONE, made, slip=0.1).odds[-1].right == pytest.approx((0.87**3, 0.9**3))

    def test_a_program_that_needs_no_check_gets_none(self) -> None:
        for made in _jobs(20):
            for one in outlook(_guides()["trust"], made).odds:
                assert one.found[0] == one.found[1]


class TestTruth:
    def test_by_hand_a_part_that_goes_wrong_is_found_and_mended(self) -> None:
        made = _where(
            lambda one: (
                (one[Part.COLUMNS].right[0], one[Part.COLUMNS].found[0], one[Part.COLUMNS].mended[0])
                == (0.01, 0.99, 0.99)
                and (one[Part.STEPS].found[0], one[Part.STEPS].mended[0]) == (0.01, 0.01)
            ),
            NONE,
            Part.COLUMNS,
        )
        # r_c = 0.01, r_s = 0.95² = 0.9025: 0.01·0.9025 + 0.99·0.9025·0.99·0.99 + 0.01·0.0975·0.01·0.01
        assert pass_rate(NONE, made) == pytest.approx(0.009025 + 0.8756948475 + 0.0000000975, abs=1e-12)
        assert pass_rate(NONE, made, recovery=False) == pytest.approx(0.009025, abs=1e-12)

    def test_by_hand_what_the_writer_leaves_out(self) -> None:
        guide = guide_without(set(START_RULES) - {"headers", "reopen", "first", "single"})
        made = _where(
            lambda one: (
                one[Part.COLUMNS].right == (0.01, 0.99)
                and one[Part.COLUMNS].found == (0.01, 0.99)
                and one[Part.COLUMNS].mended[:3] == (0.01, 0.01, 0.99)
                and one[Part.STEPS].found == (0.99, 0.99)
                and one[Part.STEPS].mended[:3] == (0.99, 0.99, 0.99)
            ),
            guide,
            Part.COLUMNS,
        )
        right = 0.97 * 0.99 + 0.03 * 0.01
        found = 0.97 * 0.99 + 0.03 * 0.01
        mended = 0.97**2 * 0.99 + (1 - 0.97**2) * 0.01
        expected = right * 0.9025 + (1 - right) * 0.9025 * found * mended + right * 0.0975 * 0.99 * 0.99
        assert pass_rate(guide, made) == pytest.approx(expected, abs=1e-12)

    def test_the_mean_over_luck_by_hand(self) -> None:
        """E r = 0.98 L + 0.01, and so for D and M; the three are drawn apart."""
        jobs = [job(Part.VALUES, number=number) for number in range(6000)]
        right, found, mended = (0.98 * x + 0.01 for x in (CHANCE[Part.VALUES], ASSUMED.no_check, 0.4))
        steps = 0.95**2
        expected = right * steps + ((1 - right) * steps + right * (1 - steps)) * found * mended
        assert mean_rate(NONE, jobs) == pytest.approx(expected, abs=4.5 * 0.5 / math.sqrt(len(jobs)))

    @pytest.mark.parametrize("name", list(_guides()))
    @pytest.mark.parametrize("recovery", [True, False])
    def test_it_is_the_mean_of_twenty_thousand_episodes(self, name: str, recovery: bool) -> None:
        files, jobs, seeds = _guides()[name], _jobs(100), 200
        rates = [pass_rate(files, made, recovery=recovery) for made in jobs]
        passed = sum(play(files, made, seed=seed, recovery=recovery).passed for made in jobs for seed in range(seeds))
        error = math.sqrt(sum(rate * (1 - rate) for rate in rates) * seeds) / (len(jobs) * seeds)
        assert passed / (len(jobs) * seeds) == pytest.approx(sum(rates) / len(jobs), abs=4.5 * error)

    def test_it_is_the_mean_task_by_task(self) -> None:
        for made in _jobs(12):
            rate, n = pass_rate(start_guide(), made), 3000
            share = sum(play(start_guide(), made, seed=seed).passed for seed in range(n)) / n
            assert share == pytest.approx(rate, abs=4.5 * math.sqrt(max(rate * (1 - rate), 1e-3) / n))

    def test_an_edit_without_effect_changes_no_rate_and_flips_both_ways_alike(self) -> None:
        null = next(edit for edit in CATALOGUE if edit.kind == "null")
        jobs, child = _jobs(1500), guide_with(null.text, module=null.module)
        assert mean_rate(child, jobs) == mean_rate(start_guide(), jobs)
        pairs = [(play(start_guide(), made, seed=3).passed, play(child, made, seed=3).passed) for made in jobs]
        repairs, regressions = pairs.count((False, True)), pairs.count((True, False))
        expected = disagreement(start_guide(), jobs)
        error = math.sqrt(expected * (1 - expected) / len(jobs))
        assert (repairs + regressions) / len(jobs) == pytest.approx(expected, abs=4.5 * error)
        assert abs(repairs - regressions) < 4.5 * math.sqrt(repairs + regressions)

    def test_every_rule_that_the_start_guide_lacks_adds_and_every_trap_takes(self) -> None:
        jobs = _jobs(400)
        start = mean_rate(start_guide(), jobs)
        for edit in CATALOGUE:
            if edit.kind == "literal":
                continue
            changed = mean_rate(guide_with(edit.text, module=edit.module), jobs) - start
            if edit.kind == "useful":
                lacking = edit.name not in START_RULES
                assert (changed > 0.002) is lacking, (edit.name, changed)
            else:
                assert (changed < -0.01) is (edit.kind != "null"), (edit.name, changed)

    def test_a_literal_of_train_helps_there_and_hurts_elsewhere(self) -> None:
        here = [job(*EVERY_PART, number=number, names=NAMED) for number in range(2000)]
        there = [job(*EVERY_PART, number=number, names=dict.fromkeys(NAMED, "Other")) for number in range(2000)]
        bound = skill(START_RULES, 'The key column is "Amount".', 'The sheet to work on is "Plan".')
        plain = skill(START_RULES)
        assert mean_rate(bound, here) > mean_rate(plain, here) + 0.02
        assert mean_rate(bound, there) < mean_rate(plain, there) - 0.01

    def test_without_slips_and_without_flips_of_luck_a_full_guide_nearly_always_passes(self) -> None:
        assert mean_rate(full_guide(), _jobs(300), slip=0.0) > mean_rate(full_guide(), _jobs(300), slip=0.1) + 0.01


class TestPlays:
    def test_the_same_seed_is_the_same_episode_and_another_text_another(self) -> None:
        jobs = _jobs(200)
        first = [play(start_guide(), made, seed=5) for made in jobs]
        assert first == [play(dict(reversed(start_guide().items())), made, seed=5) for made in jobs]
        for other in (
            [play(start_guide(), made, seed=6) for made in jobs],
            [play(guide_with("Be kind."), made, seed=5) for made in jobs],
        ):
            assert [one.kept for one in other] != [one.kept for one in first]
            assert [one.wrong_first for one in other] != [one.wrong_first for one in first]

    def test_a_repair_mends_the_one_fault_that_was_found_or_none(self) -> None:
        seen = set()
        for made in _jobs(200):
            for seed in range(5):
                one, bare = play(start_guide(), made, seed=seed), play(start_guide(), made, seed=seed, recovery=False)
                assert one.wrong_first == bare.wrong_first == bare.wrong
                assert one.wrong_first - one.wrong <= {one.declared}
                assert one.recovered is (one.declared is not None)
                assert not bare.recovered
                assert one.calls == (5 if one.recovered else 3)
                assert bare.calls == 3
                seen.add((len(one.wrong_first) > 1, one.recovered, one.passed))
        assert {(False, True, True), (False, True, False), (True, True, False), (False, False, False)} <= seen
        assert (True, True, True) not in seen

    def test_a_failed_repair_is_declared_where_the_guide_has_the_check_run_again(self) -> None:
        failed = [
            (one.faults, "again" in one.kept)
            for made in _jobs(300)
            if (one := play(full_guide(), made, seed=1)).recovered and one.declared in one.wrong
        ]
        assert {faults for faults, again in failed if again} == {2}
        assert {
            play(start_guide(), made, seed=1).faults
            for made in _jobs(300)
            if play(start_guide(), made, seed=1).declared is not None
        } == {1}

    def test_the_writer_leaves_out_three_lines_in_a_hundred(self) -> None:
        kept = [len(play(full_guide(), made, seed=seed).kept) for made in _jobs(100) for seed in range(10)]
        share = sum(kept) / (len(kept) * len(EVERY_RULE))
        assert share == pytest.approx(0.97, abs=4.5 * math.sqrt(0.97 * 0.03 / (len(kept) * 18)))

    def test_no_skill_and_one_skill_for_all_cost_no_writer(self) -> None:
        made = _jobs(4)[3]
        for files in (NONE, skill(START_RULES)):
            one = play(files, made, seed=0, recovery=False)
            assert (one.calls, one.skill(), one.kept) == (2, "", frozenset())
        fresh = play(start_guide(), made, seed=0, recovery=False)
        assert fresh.tokens_in > play(NONE, made, seed=0, recovery=False).tokens_in + 1000
        assert read_skill(fresh.skill(), made).digest == fresh.outlook.reading.digest


class TestTraces:
    def test_wrong_parts_are_read_from_the_last_program_or_the_first(self) -> None:
        program = "python3 - <<'PY'\n# simulated decisions: outputs ok, columns {}, steps ok\nprint(1)\nPY"
        steps = [
            Step(kind="command", command=program.format("wrong")),
            Step(kind="format_error"),
            Step(kind="command", command="echo 'HELDOUT_FAULT source selection: columns'; echo HELDOUT_SUBMIT"),
            Step(kind="command", command=program.format("ok")),
        ]
        assert wrong_parts(steps) == frozenset()
        assert wrong_parts(steps[:3]) == {Part.COLUMNS}
        assert wrong_parts(steps, which="first") == {Part.COLUMNS}
        assert wrong_parts([Step(kind="command", command="ls")]) == frozenset()

    def test_every_part_has_the_stage_and_the_module_of_its_rule(self) -> None:
        assert set(PART_STAGE) == set(PART_MODULE) == set(Part)
        for part in Part:
            assert MODULE_OF_STAGE[Stage(PART_STAGE[part])] == PART_MODULE[part]
        assert (PART_STAGE[Part.STEPS], PART_MODULE[Part.STEPS]) == ("execution", "m4_validation.md")
        assert (PART_STAGE[Part.FILE], PART_STAGE[Part.OUTPUTS], PART_STAGE[Part.LAYOUT]) == (
            "source selection",
            "contract parsing",
            "skill compilation",
        )
        for rule in RULES:
            assert rule.part is None or PART_MODULE[rule.part] == rule.module

    def test_every_part_has_one_check_and_six_rules_help_to_mend(self) -> None:
        assert set(CHECK_OF) == set(Part)
        assert len(MENDING) == 6
        assert {rule.module for rule in RULES if rule.name in MENDING} == set(list(MODULES)[4:])
