"""Page and terminal of a loop over model weights: complete, escaped, labelled, narrow enough, and quick."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from shown import printed, section, words
from test_report_html import read
from training_story import AGAIN, START, W1, Told, training_run

from heldout.report import print_summary, run_json, summary, write_report
from heldout.report.marks import Point
from heldout.report.model_card import Origins, model_card
from heldout.report.training_charts import Child, LossCurve, loss_plot, score_chart
from heldout.store import Index, Journal, RunFolder
from heldout.store.events import RunFinished
from heldout.store.training_events import DatasetBuilt, TrustedHash
from heldout.store.weights import WeightsOrigin

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}</style>\x1b[31m\u202e\x07[bold]"

SECTIONS = ("change", "curve", "rounds", "failures", "training", "abilities", "candidates", "noise", "audit", "cost")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return training_run(tmp_path_factory.mktemp("shown") / "run")


@pytest.fixture(scope="module")
def page(run: RunFolder) -> str:
    return write_report(run).read_text()


STORIES = {
    "whole": Told(),
    "unchanged": Told(moved=False),
    "floor": Told(floor=True),
    "decided on the diagnosed": Told(decide_on="train"),
    "measured anew": Told(fresh=True),
    "adapters of a real model": Told(simulated=False, method="lora"),
    "changed": Told(changed=True, rounds=1, finished=False),
    "unaudited": Told(audited=False),
    "running": Told(finished=False, rounds=2),
    "before round 1": Told(finished=False, rounds=0),
    "cut in a diagnosis": Told(stopped="no room for train"),
    "cut in a select sweep": Told(stopped="no room for select"),
}


@pytest.mark.parametrize("told", STORIES.values(), ids=STORIES.keys())
def test_every_kind_of_run_gives_a_well_formed_page_and_a_summary(told: Told, tmp_path: Path) -> None:
    folder = training_run(tmp_path / "run", told)
    text = write_report(folder).read_text()
    reader = read(text)
    links = {value for _, name, value in reader.attributes if name == "href"}
    assert links <= {f"#{value}" for _, name, value in reader.attributes if name == "id"}
    assert {f"#{name}" for name in SECTIONS} <= links
    assert not re.search(r">\s*[+−]?(None|nan|inf)\b", text)
    assert "Believed" in printed(folder)


def test_the_round_table_has_focal_problem_strategy_status_gain_and_cost(page: str) -> None:
    text = section(page, "rounds")
    assert "1 stop 12 of 20 tasks end_token accepted 0 +40.0 +5.0 to +75.0 40 s 4 wins, 0 losses" in text
    assert "2 wrapper 7 of 20 tasks wrong_template failed preflight 1 – 10 s stops: 3 of 32 answers" in text
    assert "4 wrapper 7 of 20 tasks wrapper_data rejected 0 −10.0 −33.0 to +13.0 28 s" in text
    assert "6 – – not measured 0 – 1.0 s the model did not answer" in text


def test_strategies_stand_with_their_figures_and_the_losers_with_their_reasons(page: str) -> None:
    text = section(page, "rounds")
    assert re.search(r"end_token Train on it\. Source: a catalogue\..* 1\.00 \+10\.0 0\.50 20 s 900 chosen", text)
    assert re.search(r"mixture_all .* 0\.75 \+9\.0 0\.50 20 s 800 fewer points per hour", text)
    assert re.search(r"null_paraphrase .* 0\.50 \+8\.0 0\.50 20 s – fewer points per hour", text)


def test_failed_checks_say_what_was_found_and_wanted(page: str) -> None:
    text = section(page, "rounds")
    assert "Preflight a: failed" in text
    assert "template found by template more FAILED" in text
    assert "Preflight b, repair 1: failed" in text


def test_data_sets_say_what_was_removed_and_why_one_is_void(page: str) -> None:
    text = section(page, "training")
    assert "1 formats:end 100 97 13-gram 2, duplicate 1 2.0 %" in text
    assert "3 formats:end 100 60 text 40 40.0 % void not run not run" in text
    assert "2, repair 1 formats:end 100 100 none 0.0 % 212121212121 passed failed : stops" in text
    assert "end_token-config config 1b1b1b1b1b1b round 1" in text


def test_failures_have_a_chart_whose_focal_part_is_marked_and_a_table(page: str) -> None:
    inside = page.partition('<section id="failures">')[2].partition("</section>")[0]
    assert inside.count('aria-label="Failed tasks by first fault. round 1: wrapper 4, carry 2, stop 12') == 2
    assert len(re.findall(r'<rect class="fault tone-\d focal"', inside)) == 2 * 5, "five diagnoses, desk and phone"
    assert "wrapper 4 7 7 7 7" in section(page, "failures")


def test_the_score_chart_has_children_with_intervals_the_audits_ends_and_a_cross_for_each_dead_round(page: str) -> None:
    drawn = page.partition('<section id="curve">')[2].partition('class="phone"')[0]
    assert drawn.count('class="whisker child"') == 2 * 3
    assert drawn.count('class="whisker measured"') == 2 * 3
    crosses = re.findall(r'<path class="cross"[^>]*><title>(.*?)</title>', drawn)
    assert crosses == [
        *("round 2: failed preflight", "round 3: contaminated data", "round 5: training died", "round 6: not measured"),
    ]
    assert "round 4: 50.0 %, rejected, gain −10.0 (−33.0 to +13.0)" in drawn


def test_the_interval_of_a_gain_is_laid_on_the_parents_score() -> None:
    child = Child(1, score=0.5, parent=0.6, gain=-0.1, interval=(-0.3, 0.0), fate="rejected")
    drawn = str(score_chart([Point(0, 0.6), Point(1, 0.6)], [child], [], failed=[], width=760))
    (parent,) = re.findall(r'<line class="incumbent"[^>]* y1="([\d.]+)"', drawn)
    assert parent in re.findall(r'<line class="whisker child"[^>]* y1="([\d.]+)"', drawn), "its upper end is no gain"


def test_each_training_and_short_run_has_a_curve(page: str) -> None:
    inside = page.partition('<section id="training">')[2].partition("</section>")[0]
    told = re.findall(r'aria-label="(Loss of .*?)"', inside)
    assert [line.partition(":")[0] for line in told] == [
        *("Loss of round 1, end_token", "Loss of round 2, wrong_template"),
        *("Loss of round 4, wrapper_data", "Loss of round 5, huge_rate"),
    ]
    assert told[0].endswith("the full training from 2 to 0.5; the short run from 2 to 1; the second seed from 2 to 0.5")
    assert told[1].endswith(": the short run from 2 to 1")


def test_a_loss_that_is_no_number_is_not_drawn() -> None:
    picture = str(loss_plot(LossCurve("round 1", 3, (2.0, float("nan"), 1.0), (), 0)))
    assert "nan" not in picture.lower().replace("aria-label", "")
    assert 'class="line measured"' in picture


def test_abilities_kept_and_lost_stand_by_family(page: str, run: RunFolder) -> None:
    text = section(page, "abilities")
    assert "100.0 % → 58.3 %: −41.7 points (−61.7 to −21.7, 95 %) on 12 tasks. Abilities were lost." in text
    assert "copy 6 100.0 % 100.0 % 0.0 −30.0 to +30.0 kept or cannot be told" in text
    assert "sort 6 100.0 % 16.7 % −83.3 −113.3 to −53.3 lost" in text
    lines = [re.sub(r"[\s|]+", " ", line).strip() for line in printed(run).splitlines()]
    worst = lines.index("sort 6 100.0 % 16.7 % -83.3 -113.3 to -53.3")
    assert lines[worst + 1].startswith("copy 6"), "the worst first"


def test_a_floor_that_decides_is_told_wherever_its_figures_stand(tmp_path: Path) -> None:
    folder = training_run(tmp_path / "run", Told(floor=True))
    text = write_report(folder).read_text()
    for name in ("abilities", "audit"):
        assert "The role retain was opened during the search" in section(text, name)
    assert "aa3f3d621dd4 12 58.3 % −41.7 copy 100.0 %, sort 16.7 %" in section(text, "abilities")
    assert "further tasks that no decision saw" not in section(text, "audit")
    told = printed(folder)
    assert "The role retain was opened during the search" in told
    assert "on tasks that no decision saw" not in told


def test_without_a_report_role_the_page_says_that_nothing_is_known_elsewhere(tmp_path: Path) -> None:
    text = section(write_report(training_run(tmp_path / "run", Told(audited=False))).read_text(), "abilities")
    assert "Not measured: the report roles are still sealed." in text


def test_models_stand_with_their_lineage(page: str) -> None:
    text = section(page, "candidates")
    assert "1 · final 1b1b1b1b1b1b 0a0a0a0a0a0a 101010101010 full 7 60.0 % +40.0 +5.0 to +75.0 accepted yes" in text
    assert "1, second seed 1c1c1c1c1c1c 0a0a0a0a0a0a 101010101010 full 8 70.0 % – not weighed pruned" in text


def test_the_wasted_share_and_the_dominant_error_stand_on_top_and_in_the_terminal(page: str, run: RunFolder) -> None:
    hero = words(page.partition('<p class="arms">')[2].partition("</p>")[0])
    assert hero.startswith("The dominant error went stop → wrapper. Wasted: 41.9 % of the search’s seconds")
    told = " ".join(printed(run).split())
    assert "The dominant error went stop -> wrapper." in told
    assert "Wasted: 41.9 % of the search's 1 min 52 s of work" in told
    assert "2 ended before the full training (12 s); 1 ended in the full training (6.0 s)" in told
    assert "before the full training 2 12 s" in section(page, "cost")


def test_a_round_that_the_budget_cut_is_told_as_one_and_never_as_no_waste(tmp_path: Path) -> None:
    folder = training_run(
        tmp_path / "run", Told(rounds=1, stopped="budget.evaluations = 500 leaves no room for select")
    )
    text, told = write_report(folder).read_text(), " ".join(printed(folder).split())
    assert "1 cut by the budget (11 s)." in told
    assert "in vain" not in told
    assert "Round 7: budget.evaluations = 500 leaves no room for select." in told
    assert "7 – – cut by the budget 0 – 11 s budget.evaluations = 500" in section(text, "rounds")
    assert "cut by the budget 1 11 s" in section(text, "cost")


@pytest.mark.parametrize(("unanswered", "said"), [(False, "gave up"), (True, "did not answer")])
def test_a_builder_that_left_no_recipe_is_no_repair_anywhere(tmp_path: Path, unanswered: bool, said: str) -> None:
    folder = training_run(tmp_path / "run", Told(rounds=1))
    with Journal.open(folder.events) as journal:
        left = DatasetBuilt(round=1, attempt=1, error="why", missing=unanswered, unanswered=unanswered)
        journal.append("dataset", left)
    text = write_report(folder).read_text()
    assert "end_token accepted 0 +40.0" in section(text, "rounds")
    assert re.findall(r"No further repair: the builder (gave up|did not answer)", text) == [said]
    assert "repair 1" not in section(text, "training")
    assert "1 repaired" not in printed(folder)


def test_lost_abilities_stand_beside_the_headline_and_on_the_model_card(page: str, run: RunFolder) -> None:
    lost = "Abilities were lost on retain: −41.7 points (−61.7 to −21.7)."
    hero = words(page.partition('<p class="detail">')[2].partition("</p>")[0])
    assert hero.startswith(lost)
    assert lost.replace("−", "-") in " ".join(printed(run).split())
    assert f"**{lost}**" in _card(run)


def test_abilities_that_may_have_been_kept_are_not_called_lost(tmp_path: Path) -> None:
    folder = training_run(tmp_path / "run", Told(moved=False))
    assert "Abilities were lost" not in printed(folder) + _card(folder) + write_report(folder).read_text()


def test_an_interval_below_zero_alone_is_no_loss_where_the_audit_cannot_tell(tmp_path: Path) -> None:
    folder = training_run(tmp_path / "run", Told(doubted=True))
    text = write_report(folder).read_text()
    assert "Abilities were lost" not in printed(folder) + _card(folder) + text
    told = "(−61.7 to −21.7, 95 %) on 12 tasks. Neither a loss nor a gain can be told. A sentence."
    assert told in section(text, "abilities")


def _card(run: RunFolder) -> str:
    with Index.open(run) as index:
        found = summary(index.connection)
    assert found.training is not None
    origins = Origins(W1, ((W1, WeightsOrigin(parent=None, source="pocket:base")),), False, "model", "the harness")
    return model_card(found, found.training, origins)


def test_a_change_between_rounds_is_told_as_one_in_every_view(tmp_path: Path) -> None:
    folder = training_run(tmp_path / "run", Told(rounds=1, finished=False))
    with Journal.open(folder.events) as journal:
        changed = TrustedHash(round=2, moment="before", digests={"grader": "cc"}, changed=("grader",))
        journal.append("trusted.hash", changed)
    told = "Trusted parts CHANGED (between rounds 1 and 2: grader)"
    assert told in " ".join(printed(folder).split())
    assert told in section(write_report(folder).read_text(), "rounds")
    with Index.open(folder) as index:
        training = json.loads(run_json(summary(index.connection)).model_dump_json())["training"]
    assert (training["trusted_changed"], training["trusted_changed_between"]) == ({"2": ["grader"]}, [2])


def test_where_the_final_is_the_start_the_views_say_that_nothing_was_measured(tmp_path: Path) -> None:
    folder = training_run(tmp_path / "run", Told(moved=False))
    told = " ".join(printed(folder).split())
    assert "On audit, retain the final is the start: nothing was measured" in told
    assert "(95 %)" not in told.partition("Overstatement")[0]
    assert "The final is the start, so nothing was measured." in section(write_report(folder).read_text(), "abilities")
    assert "nothing was measured" not in printed(training_run(tmp_path / "moved"))


def test_of_a_start_that_stayed_the_card_claims_no_measured_gain_and_no_training(tmp_path: Path) -> None:
    card = _card(training_run(tmp_path / "run", Told(moved=False)))
    assert "The final is the start, so there was no gain to audit." in card
    assert "the audit found" not in card
    assert "training may have spoiled it" not in card


def test_where_no_training_came_to_a_model_the_start_is_the_best_of_one(tmp_path: Path) -> None:
    told = "No training came to a model that could be compared with it."
    assert told in " ".join(printed(training_run(tmp_path / "none", Told(rounds=0, moved=False))).split())
    assert told not in " ".join(printed(training_run(tmp_path / "run", Told(moved=False))).split())


def test_a_final_that_is_the_second_training_of_a_recipe_is_said_to_be_one(run: RunFolder, tmp_path: Path) -> None:
    told = "The final is the second training of round 1's recipe, with another seed: no round weighed it"
    folder = training_run(tmp_path / "run", Told(audited=False))
    done = RunFinished(
        status="improved", stop_reason="", start=START.digest, final=AGAIN.digest, start_select=0.2,
        final_select=0.7, elapsed_s=1.0,
    )  # fmt: skip
    with Journal.open(folder.events) as journal:
        journal.append("run.finished", done)
    assert told in " ".join(printed(folder).split())
    assert told not in " ".join(printed(run).split())


def test_the_terminal_names_where_the_model_lies_and_how_to_use_it(run: RunFolder, tmp_path: Path) -> None:
    assert f"weights/{W1}" in printed(run)
    assert "Simulated weights" in printed(run)
    full = training_run(tmp_path / "full", Told(simulated=False))
    assert "transformers loads this folder as it is." in printed(full)
    adapters = printed(training_run(tmp_path / "lora", Told(simulated=False, method="lora")))
    assert "heldout export trained --to model --out DIR" in " ".join(adapters.split())
    assert "Adapters" in adapters


def test_with_a_report_the_models_path_is_whole(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with Index.open(run) as index:
        print_summary(summary(index.connection), report=run.report)
    assert f"Final model {run.path}/weights/{W1}\n" in capsys.readouterr().out


def test_a_simulation_is_labelled_and_a_real_run_is_not(page: str, tmp_path: Path) -> None:
    assert "This is a simulation." in page
    assert "Simulated weights" in section(page, "change")
    assert "those of training are simulated too" in section(page, "cost")
    real = write_report(training_run(tmp_path / "run", Told(simulated=False))).read_text()
    assert "imulat" not in real.partition('id="repeat"')[0]


def test_nothing_improved_is_told_as_a_result(tmp_path: Path) -> None:
    folder = training_run(tmp_path / "run", Told(moved=False))
    text = write_report(folder).read_text()
    assert "Nothing improved: the start is still the best" in text
    assert "6 attempts were made. 0 were accepted on the way." in words(text)
    assert "Nothing changed: the final model is the start." in section(text, "change")


def test_the_summary_fits_into_eighty_columns_and_is_ascii_elsewhere(run: RunFolder) -> None:
    text = printed(run)
    assert text.isascii()
    assert "?" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, printed(run, terminal=True).splitlines())) <= 80


@pytest.mark.parametrize("terminal", [True, False])
def test_untrusted_text_neither_becomes_markup_nor_moves_the_terminal(tmp_path: Path, terminal: bool) -> None:
    folder = training_run(tmp_path / "run", Told(says=HOSTILE, floor=True))
    text = write_report(folder).read_text()
    reader = read(text)
    assert not {"script", "img"} & set(reader.tags)
    assert text.count("</style>") == 1
    assert "{{ 7 * 7 }}" in text
    for where in (text, printed(folder, terminal=terminal)):
        assert not set("\x1b\u202e\x07") & set(where)
        assert "\\x1b[31m" in where


def test_a_hundred_thousand_outcomes_of_trainings_take_less_than_a_second(tmp_path: Path) -> None:
    """Of processor time, which is what it takes on a machine that does nothing else. The index, which other commands
    share, is built before the clock starts."""
    folder = training_run(tmp_path / "run", Told(outcomes=100_000))
    Index.open(folder).close()
    taken = []
    for _ in range(3):
        begun = time.process_time()
        write_report(folder)
        taken.append(time.process_time() - begun)
    assert min(taken) < 1.0
