"""What an editor, an outage or a budget must not get past the loops over skills."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from agent_events import of_kind
from lesson_world import KINDS, only_on, say, search, select_ids, small, start, write

from heldout.errors import BudgetExhausted
from heldout.improvers.skill_roles import EditView
from heldout.loops import load_loop
from heldout.loops.agents.selecting import FRESH_REPEAT
from heldout.loops.skills.beginning import begin
from heldout.loops.skills.options import GsoOptions
from heldout.loops.skills.tabling import CONFIRMING, Measured, table_of
from heldout.records import Candidate, Edit, EditProposal, Task
from heldout.rollouts.engine import paired_seed
from heldout.skills.guide import start_guide
from heldout.skills.modules import MODULES
from heldout.stats import confirmed_null_rate, null_accept_rate
from heldout.workbench import Opening
from heldout.workbench.opening import open_run

ONE = {"search": {"generations": 1}}


def better(view: EditView) -> EditProposal:
    return write(view, "NEW WORDS")


def test_a_break_does_not_vanish_with_a_second_run_that_gave_nothing(tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"sweep": {"confirm_flips": True, "retries": 0}}})
    ids = select_ids(config)
    fixed, broken = ids[:2], ids[2:5]
    seeds = {paired_seed(config.seed, task, CONFIRMING + 1) for task in broken}
    play = only_on(ids, {"": ids[2:], "NEW WORDS": fixed + ids[5:]})

    def out(candidate: Candidate, task: Task, seed: int) -> bool:
        del task
        return "NEW WORDS" in str(candidate.files) and seed in seeds

    folder = search(tmp_path / "run", config, edit=better, plays=[play], outages=[out])
    (table,) = of_kind(folder, "skill.table")
    assert {table["cells"][task] for task in broken} == {"missing"}
    assert [one["decision"]["verdict"] for one in of_kind(folder, "decision")] != ["accept"]


def test_a_guide_does_not_become_one_skill(tmp_path: Path) -> None:
    def convert(_: EditView) -> EditProposal:
        text = "---\nname: one\ndescription: d\n---\n" + "".join(f"TEACH {kind}\n" for kind in KINDS)
        gone = tuple(Edit(path=module, content=None) for module in MODULES)
        return EditProposal(edits=(*gone, Edit(path="SKILL.md", content=text)))

    folder = search(tmp_path / "run", small("gso", ONE, {"options": {"modules": "any"}}), edit=convert)
    assert of_kind(folder, "skill.edit")[0]["fault"] == "the edit makes a skill of a guide"
    assert not of_kind(folder, "track.moved")


def test_a_skill_does_not_become_a_guide(tmp_path: Path) -> None:
    def convert(view: EditView) -> EditProposal:
        files = {**start_guide()}
        files["m3_skill.md"] += "".join(f"\nTEACH {kind}\n" for kind in KINDS)
        gone = (Edit(path=path, content=None) for path in view.head.files)
        return EditProposal(edits=(*gone, *(Edit(path=path, content=text) for path, text in files.items())))

    folder = search(tmp_path / "run", small("persistent_skill", ONE), edit=convert)
    assert of_kind(folder, "skill.edit")[-1]["fault"] == "the edit makes a guide of a skill"


def test_other_words_for_no_skill_are_no_skill(tmp_path: Path) -> None:
    def convert(_: EditView) -> EditProposal:
        return EditProposal(edits=(Edit(path="NO_SKILL.md", content="other words"),))

    folder = search(tmp_path / "run", small("merged_patches", ONE, {"options": {"passes": 1}}), edit=convert)
    assert of_kind(folder, "skill.edit")[0]["fault"] == "the edit makes no skill of a skill"


def test_a_head_that_went_missing_does_not_win_when_the_budget_ends(tmp_path: Path) -> None:
    config = small("one_shot_skill", {"options": {"sweep": {"retries": 0}}}, {"budget": {"evaluations": 40}})
    ids = select_ids(config)
    play = only_on(ids, {"": ids[1:6], "TEACH": ids[:1]})

    def out(candidate: Candidate, task: Task, seed: int) -> bool:
        del seed
        return "TEACH" in str(candidate.files) and task.id in ids[1:]

    say(plays=[play], outages=[out])
    with open_run(config, Opening(tmp_path / "run", command="test")) as opened:
        loop = load_loop(config.loop)(opened.session)
        with pytest.raises(BudgetExhausted):
            loop.run(opened.start)
        found = loop.found(opened.start)
    assert list(found.final.candidate.files) == ["NO_SKILL.md"]


def test_an_edit_larger_than_any_folder_is_not_journaled(tmp_path: Path) -> None:
    def large(_: EditView) -> EditProposal:
        return EditProposal(edits=(Edit(path="m3_skill.md", content="x" * 20_000_000),), note="n" * 1_000_000)

    folder = search(tmp_path / "run", small("gso", ONE), edit=large)
    assert "the edit has 20000011 bytes" in of_kind(folder, "skill.edit")[0]["fault"]
    assert folder.events.stat().st_size < 1_000_000


def test_a_break_of_a_critical_task_costs_what_the_gate_says(tmp_path: Path) -> None:
    ids = select_ids(small("gso", ONE))
    play = only_on(ids, {"": ids[3:], "NEW WORDS": ids[:3] + ids[4:]})  # 3 repairs, 1 break
    verdicts = []
    for critical in ((), (ids[3],)):
        config = small("gso", ONE, {"options": {"sweep": {"critical": list(critical)}}})
        folder = search(tmp_path / f"run{len(critical)}", config, edit=better, plays=[play])
        verdicts.append(of_kind(folder, "decision")[0]["decision"]["verdict"])
    assert verdicts == ["accept", "reject"]


def test_the_printed_false_accept_rate_knows_that_flips_are_confirmed(tmp_path: Path) -> None:
    rates = []
    for confirm in (False, True):
        noise = {"disagreement": 0.2, "simulations": 4000}
        config = small("gso", ONE, {"noise": noise, "options": {"sweep": {"confirm_flips": confirm}}})
        folder = search(tmp_path / str(confirm), config, edit=better)
        (measured,) = of_kind(folder, "noise.measured")
        rates.append(measured["gates"][0]["false_accept_rate"])
    n = config.tasks.select
    assert rates[0] == pytest.approx(null_accept_rate(n, 0.2), abs=0.03)
    assert rates[1] == pytest.approx(confirmed_null_rate(n, 0.2, both=True), abs=0.03)
    assert rates[0] > rates[1] + 0.05


def test_the_u_of_a_table_is_that_of_the_gate(tmp_path: Path) -> None:
    ids = select_ids(small("gso", ONE))
    play = only_on(ids, {"": ids[3:], "NEW WORDS": ids[:3] + ids[4:]})
    for kind, utility in (("repairs_over_regressions", 1.0), ("net", 2.0)):
        config = small("gso", ONE, {"gate": {"kind": kind}})
        folder = search(tmp_path / kind, config, edit=better, plays=[play])
        (table,) = of_kind(folder, "skill.table")
        assert (table["repairs"], table["regressions"], table["utility"]) == (3.0, 1.0, utility)


@pytest.mark.parametrize(
    ("loop", "stop_after", "ended"),
    [
        ("gso", 2, "2 rounds in a row without an acceptance"),
        ("gso", 0, "every generation was run"),
        ("persistent_skill", 2, "2 rounds in a row without an acceptance"),
        ("one_shot_skill", 2, "one skill was drafted"),
    ],
)
def test_a_run_says_why_its_search_was_over(loop: str, stop_after: int, ended: str, tmp_path: Path) -> None:
    config = small(loop, {"search": {"generations": 4}, "options": {"stop_after": stop_after}})
    folder = start(tmp_path / "run", config, edit=lambda _view: EditProposal())
    assert of_kind(folder, "run.finished")[0]["stop_reason"] == ended


def test_best_of_n_runs_every_round_however_idle(tmp_path: Path) -> None:
    config = small("gso", {"search": {"generations": 4, "iterate": False}, "options": {"stop_after": 2}})
    folder = start(tmp_path / "run", config, edit=lambda _view: EditProposal())
    assert len(of_kind(folder, "decision")) == 4
    assert of_kind(folder, "run.finished")[0]["stop_reason"] == "every generation was run"


def test_a_head_that_is_hardly_measured_in_the_final_selection_does_not_win(tmp_path: Path) -> None:
    config = small("gso", ONE, {"options": {"sweep": {"retries": 0}}})
    ids = select_ids(config)
    lost = {paired_seed(config.seed, task, FRESH_REPEAT) for task in ids[:2]}
    play = only_on(ids, {"": ids[2:3], "NEW WORDS": ids[2:]})  # the start fails on what the head lacks

    def out(candidate: Candidate, task: Task, seed: int) -> bool:
        del task
        return "NEW WORDS" in str(candidate.files) and seed in lost

    folder = search(tmp_path / "run", config, edit=better, plays=[play], outages=[out])
    (selected,) = of_kind(folder, "selected")
    assert len(of_kind(folder, "track.moved")) == 1
    assert selected["final"] == selected["finalists"][0]["digest"]


def test_invariant_2_the_gate_is_told_of_the_attributed_module_and_not_the_loop_alone(tmp_path: Path) -> None:
    config = small("gso", ONE)
    say()
    with open_run(config, Opening(tmp_path / "run", command="test")) as opened:
        state = begin(opened.session, opened.start, GsoOptions(), target="guide")
        measured = Measured(opened.start, opened.start, np.zeros(8), np.ones(8))
        tables = [
            table_of(state, measured, number=1, edited=("m1_task.md",), attributed=module)
            for module in ("m3_skill.md", "m1_task.md", None)
        ]
        verdicts = [opened.session.gate.decide(table).verdict.value for table in tables]
    assert [table.module_rule for table in tables] == [True, True, False]
    assert verdicts == ["reject", "accept", "accept"]


def test_a_head_that_lacks_what_the_start_passes_does_not_win_by_its_absence(tmp_path: Path) -> None:
    config = small("gso", ONE, {"tasks": {"select": 12}, "options": {"sweep": {"retries": 0}}})
    ids = select_ids(config)
    lost = paired_seed(config.seed, ids[0], FRESH_REPEAT)
    play = only_on(ids, {"": ids[:1], "NEW WORDS": ids[:2]})  # one up on the pairs, and none if the missing one failed

    def out(candidate: Candidate, task: Task, seed: int) -> bool:
        del task
        return "NEW WORDS" in str(candidate.files) and seed == lost

    folder = search(tmp_path / "run", config, edit=better, plays=[play], outages=[out])
    (selected,) = of_kind(folder, "selected")
    assert len(of_kind(folder, "track.moved")) == 1
    assert selected["final"] == selected["finalists"][0]["digest"]
