"""Page and terminal of a loop over skills: complete, escaped, labelled, narrow enough, and quick."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from shown import printed, section, words
from skill_story import Told, skill_run
from test_report_html import read

from heldout.report import summary, write_report
from heldout.store import Index, RunFolder

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}</style>\x1b[31m\u202e\x07[bold]"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return skill_run(tmp_path_factory.mktemp("shown") / "run")


@pytest.fixture(scope="module")
def page(run: RunFolder) -> str:
    return write_report(run).read_text()


STORIES = {
    "whole": Told(),
    "one skill for all tasks": Told(target="skill"),
    "unchanged": Told(moved=False),
    "refused": Told(refused="no arm without a skill was run on train"),
    "unaudited": Told(audited=False, judged=False),
    "running": Told(finished=False, rounds=2),
    "before round 1": Told(finished=False, rounds=0),
}


@pytest.mark.parametrize("told", STORIES.values(), ids=STORIES.keys())
def test_every_kind_of_run_gives_a_well_formed_page_and_a_summary(told: Told, tmp_path: Path) -> None:
    folder = skill_run(tmp_path / "run", told)
    text = write_report(folder).read_text()
    reader = read(text)
    links = {value for _, name, value in reader.attributes if name == "href"}
    assert links <= {f"#{value}" for _, name, value in reader.attributes if name == "id"}
    assert {"#retention", "#rounds"} <= links
    assert not re.search(r">\s*[+−]?(None|nan|inf)\b", text)
    assert "Believed" in printed(folder)


def test_the_bold_gain_says_final_minus_start_guide_on_the_page_and_in_the_terminal(run: RunFolder, page: str) -> None:
    card = page.partition('<div class="measured">')[2].partition("</div>\n")[0]
    assert '<div class="big">+15.0<' in card
    assert "<strong>learning: final − start guide</strong>" in page
    told = " ".join(re.sub(r"[\s|]+", " ", printed(run)).split())
    assert "learning: final - start" in told
    assert "+20.0 points +10.0 points +15.0 points" in told


def test_no_skill_is_a_named_third_arm_on_the_page_and_in_the_terminal(run: RunFolder, page: str) -> None:
    hero = words(page.partition('<p class="arms">')[2].partition("</p>")[0])
    assert hero == "On audit: no skill 10.0 % start guide 30.0 % final guide 45.0 %"
    assert "On audit: no skill 10.0 %; start guide 30.0 %; final guide 45.0 %." in printed(run)


def test_retention_has_a_chart_for_desk_and_phone_and_a_table_with_verdicts(run: RunFolder, page: str) -> None:
    inside = page.partition('<section id="retention">')[2].partition("</section>")[0]
    assert inside.count('class="diagonal"') == 2 + 1, "two charts and the legend"
    assert inside.count('aria-label="Simulation. Train gain against audit gain') == 2
    text = section(page, "retention")
    assert re.search(
        r"final [0-9a-f]{12} \+62.5 \+30.0 to \+90.0 \+35.0 \+10.0 to \+55.0 −27.5 −50.0 to −5.0 partly", text
    )
    assert "No skill solves 12.5 % of train and 10.0 % of audit." in text
    lines = [re.sub(r"[\s|]+", " ", line).strip() for line in printed(run).splitlines()]
    assert "final +62.5 +35.0 -27.5 partly kept" in lines
    assert "one_shot +50.0 -5.0 -55.0 harmful" in lines


def test_refused_retention_gives_its_reason_and_no_chart(tmp_path: Path) -> None:
    folder = skill_run(tmp_path / "run", Told(refused="no arm without a skill was run on train"))
    text = write_report(folder).read_text()
    assert "Retention on audit is refused. no arm without a skill was run on train" in section(text, "retention")
    assert "Train gain against audit gain" not in text
    assert "no skill <strong>not measured</strong>" in text
    assert "Retention on audit: refused. no arm without a skill was run on train" in printed(folder)


def test_the_guides_difference_is_told_by_module_and_unchanged_ones_are_named(page: str) -> None:
    text = section(page, "change")
    assert "Sources and tools m2_sources.md changed" in text
    assert "+ - Name the source of each binding." in text
    assert "Unchanged: Task classification ( m1_task.md ), Skill construction" in text


def test_one_skill_for_all_tasks_has_a_plain_difference(tmp_path: Path) -> None:
    text = section(write_report(skill_run(tmp_path / "run", Told(target="skill"))).read_text(), "change")
    assert text.startswith("What changed From the start")
    assert "SKILL.md added" in text


def test_a_draft_is_named_and_not_numbered(tmp_path: Path) -> None:
    folder = skill_run(tmp_path / "run", Told(target="skill"))
    text = write_report(folder).read_text()
    assert "draft – – NO_SKILL.md SKILL.md accepted +1 1 0 10 100.0 %" in section(text, "rounds")
    assert "First draft: accepted" in section(text, "rounds")
    assert "First draft from 30.0 %" in section(text, "candidates")
    assert "Draft: repaired select-3." in printed(folder)


def test_the_round_table_has_batch_fault_edit_and_decision(page: str) -> None:
    text = section(page, "rounds")
    assert "1 2 of 4 (1 not measured) train-0 source selection → Sources and tools m2_sources.md accepted" in text
    assert "accepted +1 3 1 10 100.0 %" in text
    assert "2 1 of 4 train-4 contract parsing → Task classification m1_task.md rejected −1 1 1 9 90.0 %" in text
    assert "3 2 of 4 train-0 skill compilation → Skill construction m3_skill.md refused – – – – –" in text
    assert "4 1 of 4 train-6 non-learnable – nothing to learn – – – – –" in text
    assert "If none of these edits had any effect, the gate would accept about 0.5 of them by chance" in text


def test_each_round_names_the_tasks_that_it_repaired_and_broke(page: str) -> None:
    text = section(page, "rounds")
    assert "Repaired (3) select-4 select-5 select-6 Broken (1) select-0 Not confirmed by a second run" in text
    assert "so they count as no flip (1) select-7" in text
    assert "Not measured: neither repaired nor broken (1) select-9" in text
    assert "repairs_over_regressions. 1 repaired, 1 broken: u = -1" in text
    assert "By family: filter +20.0, join −10.0 points." in text


def test_a_fault_record_shows_its_evidence_and_the_skill_that_was_thrown_away(page: str) -> None:
    text = section(page, "rounds")
    assert "Stage source selection (step 1) Module Sources and tools m2_sources.md Mechanism the wrong column" in text
    assert "The skill that was written for this task, and thrown away after it" in text
    assert "BIND column &#34;Umsatz&#34; SOURCE guess" in text
    assert "Not run. the module names the train literal &#39;Umsatz&#39;" in text


def test_the_terminal_names_repaired_and_broken_tasks_and_why_an_edit_was_not_run(run: RunFolder) -> None:
    text = " ".join(printed(run).split())
    assert "Round 1: repaired select-4, select-5, select-6; broken select-0; not confirmed select-7." in text
    assert "Round 2: repaired select-7; broken select-2; not measured select-9." in text
    assert "Round 3: not run: the module names the train literal 'Umsatz'." in text
    assert "about 0.5 of them by chance" in text
    assert "repairs_over_regressions" in text


def test_skill_calls_and_recoveries_are_named_beside_the_costs(run: RunFolder, page: str) -> None:
    assert "audit 60 40 0 3 3 2" in section(page, "cost")
    assert "total 169 141 20 13 13 10" in section(page, "cost")
    lines = [re.sub(r"[\s|]+", " ", line).strip() for line in printed(run).splitlines()]
    assert "audit 60 40 3 3 2" in lines
    assert any(line.startswith("attribute 0 4") for line in lines)


def test_judge_scores_say_that_they_accepted_nothing(run: RunFolder, page: str) -> None:
    text = section(page, "judge")
    assert "computed after the audit; never used to accept" in text
    assert "start guide rules 3.00 generalizability 3.0" in text
    assert "capped a fixed name" in text
    assert "computed after the audit; never used to accept" in printed(run)


def test_without_a_judge_there_is_no_such_section(tmp_path: Path) -> None:
    folder = skill_run(tmp_path / "run", Told(judged=False))
    assert 'id="judge"' not in write_report(folder).read_text()
    assert "Judge" not in printed(folder)


def test_a_simulation_is_labelled_and_a_real_run_is_not(run: RunFolder, page: str, tmp_path: Path) -> None:
    real = skill_run(tmp_path / "run", Told(simulated=False))
    text = write_report(real).read_text()
    assert "a simulated solver" in section(page, "retention")
    assert printed(run).lstrip().startswith("SIMULATION")
    assert "imulat" not in text.partition('id="repeat"')[0].replace("simulated_worker", "")
    assert "SIMULATION" not in printed(real)


def test_the_summary_fits_into_eighty_columns_and_is_ascii_elsewhere(run: RunFolder) -> None:
    text = printed(run)
    assert text.isascii()
    assert "?" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, printed(run, terminal=True).splitlines())) <= 80


@pytest.mark.parametrize("terminal", [True, False])
def test_untrusted_text_neither_becomes_markup_nor_moves_the_terminal(tmp_path: Path, terminal: bool) -> None:
    folder = skill_run(tmp_path / "run", Told(says=HOSTILE))
    text = write_report(folder).read_text()
    reader = read(text)
    assert not {"script", "img"} & set(reader.tags)
    assert text.count("</style>") == 1
    assert "{{ 7 * 7 }}" in text
    for where in (text, printed(folder, terminal=terminal)):
        assert not set("\x1b\u202e\x07") & set(where)
        assert "\\x1b[31m" in where


def test_an_unreadable_guide_costs_only_its_difference(tmp_path: Path) -> None:
    folder = skill_run(tmp_path / "run")
    with Index.open(folder) as index:
        final = summary(index.connection).final.digest
    (folder.blobs / final / "m2_sources.md").write_text("tampered")
    text = write_report(folder).read_text()
    assert "The candidate folders cannot be read" in section(text, "change")
    assert "Repaired (3)" in section(text, "rounds")


def test_a_hundred_thousand_outcomes_of_skills_take_less_than_a_second(tmp_path: Path) -> None:
    """Of processor time, which is what it takes on a machine that does nothing else. The index, which other commands
    share, is built before the clock starts."""
    folder = skill_run(tmp_path / "run", Told(outcomes=100_000))
    Index.open(folder).close()
    taken = []
    for _ in range(3):
        begun = time.process_time()
        write_report(folder)
        taken.append(time.process_time() - begun)
    assert min(taken) < 1.0
