"""`heldout bench improve_any_task`: parts, what they leave, and the page."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from heldout.errors import SetupError, StoreError
from heldout.studies import load_rewriter, load_study
from heldout.studies.improve_any_task.arms import (
    FULL,
    HARMFUL,
    RANDOM_STRATEGY,
    TWICE,
    WITHOUT_START,
    arms_of,
    budget_s,
    run_config,
)
from heldout.studies.improve_any_task.bench import Bench
from heldout.studies.improve_any_task.gate_noise import gate_noise
from heldout.studies.improve_any_task.kept_runs import keep_runs, kept_path, read_runs
from heldout.studies.improve_any_task.main_table import pocket_part, simulated_part
from heldout.studies.improve_any_task.plans import STARTS, Plan, Sizes
from heldout.studies.keeping import Done, keep_part, write_overview
from heldout.studies.page import page_text
from heldout.studies.results import Part

TINY = Sizes(train=20, select=20, audit=30, retain=15, items=140, budget_s=1100.0, trainings=1, examples=1 / 64)
TINY_PLAN = Plan(sizes=TINY, seeds=2, tables=8, workers=1, quick=True, few_arms=(FULL, RANDOM_STRATEGY, WITHOUT_START))


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(TINY_PLAN)


@pytest.fixture(scope="module")
def simulated(bench: Bench) -> Part:
    return simulated_part(bench)


def test_the_study_is_registered_and_knows_its_parts(tmp_path: Path) -> None:
    study = load_study("improve_any_task")
    with pytest.raises(SetupError, match="no part 'z'; there is a, b, c"):
        study(tmp_path, quick=True, only="z", command="test")
    assert not list(tmp_path.iterdir())


def test_a_part_has_every_table_that_the_specification_asks_for(simulated: Part) -> None:
    assert simulated.simulated
    assert [table.name for table in simulated.tables] == [
        *("gains", "differences", "attempts", "dominant", "retained", "start", "noise"),
    ]
    starts = {str(row[0]) for row in simulated.tables[0].rows}
    assert starts == {"base", "instruct", "trained"}
    assert {claim.id for claim in simulated.claims} >= {"C2", "C4", "C6", "C8"}
    assert all(table.rows for table in simulated.tables)


def test_the_introduction_names_the_arms_without_a_budget_and_counts_the_trainings_of_full(simulated: Part) -> None:
    """Whatever a plan's sizes are made for."""
    assert f"Every arm but `{TWICE}` and `{HARMFUL}`, which end after a fixed number of rounds" in simulated.intro
    assert "may spend 1,100 processor seconds" in simulated.intro
    attempts = next(table for table in simulated.tables if table.name == "attempts")
    start, arm, count = (attempts.columns.index(name) for name in ("start", "arm", "measured"))
    counted = ", ".join(f"{row[start]} {row[count]:.3g}" for row in attempts.rows if row[arm] == FULL)
    assert f"so many children in it, on average: {counted}." in simulated.intro
    assert "which is about" not in simulated.intro


def test_an_arm_has_a_budget_or_a_fixed_number_of_rounds() -> None:
    for start in STARTS:
        for arm in (one for one in arms_of(start).values() if not one.of):
            config = run_config(arm, start, TINY, seed=1)
            assert (config.budget.cpu_s is None) == bool(arm.rounds)
            assert config.budget.cpu_s == budget_s(arm, TINY)


def test_equal_plans_leave_equal_parts(simulated: Part) -> None:
    assert simulated_part(Bench(TINY_PLAN)) == simulated


def test_the_gate_part_shares_runs_with_the_main_one(bench: Bench, simulated: Part) -> None:
    assert simulated.id == "a"
    before = dict(bench._known)
    part = gate_noise(bench)
    assert bench._known == before  # one recipe trained twice was run for part a
    null_gates, two_noises = part.tables
    assert {row[1] for row in null_gates.rows} == {"net", "greedy", "noise", "mcnemar"}
    assert len(null_gates.rows) == 8
    assert [row[0] for row in two_noises.rows] == ["base", "instruct"]


def test_tables_are_written_again_from_kept_runs(bench: Bench, simulated: Part, tmp_path: Path) -> None:
    made = {"a": simulated, "c": gate_noise(bench)}
    for name, part in made.items():
        keep_part(Done(part, 1.0), tmp_path, command=f"heldout bench improve_any_task --only {name}")
        keep_runs(bench.kept(*((TWICE,) if name == "c" else ())), kept_path(tmp_path, name))
    write_overview(tmp_path, ("a", "b", "c"), page=partial(page_text, "improve_any_task"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("README.md", "claims.csv", "part_a.json", "gains.csv", "overstatement.svg", "part_c.json"):
        (tmp_path / name).unlink()
    written = load_rewriter("improve_any_task")(tmp_path, only=None)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert {path.name for path in written} == before.keys() - {"runs_a.jsonl.gz", "runs_c.jsonl.gz"}


def test_kept_runs_come_back_as_they_were_with_the_sizes_that_made_them(bench: Bench, tmp_path: Path) -> None:
    kept = bench.kept()
    path = keep_runs(kept, kept_path(tmp_path, "a"))
    assert read_runs(path) == kept
    assert kept.plan == TINY_PLAN
    assert {one.arm for one in kept.runs} == {FULL, RANDOM_STRATEGY, TWICE, HARMFUL}
    assert len(path.read_bytes()) < 400 * len(kept.runs) + 2000
    assert keep_runs(kept, kept_path(tmp_path, "b")).read_bytes() == path.read_bytes()


def test_what_is_not_kept_is_told_and_never_run(bench: Bench, tmp_path: Path) -> None:
    rewrite = load_rewriter("improve_any_task")
    with pytest.raises(SetupError, match="--only a"):
        rewrite(tmp_path, only=None)
    with pytest.raises(SetupError, match="no part 'z'"):
        rewrite(tmp_path, only="z")
    some = bench.kept(FULL)
    with pytest.raises(SetupError, match="the kept runs lack some that the tables need"):
        simulated_part(Bench.of(some))
    keep_runs(bench.kept(), kept_path(tmp_path, "a"))
    with pytest.raises(StoreError, match="tells nothing of these runs of part a"):
        rewrite(tmp_path, only="a")
    kept_path(tmp_path, "a").write_bytes(b"torn")
    with pytest.raises(StoreError, match="is not what this version writes"):
        rewrite(tmp_path, only="a")
    with pytest.raises(SetupError, match="keeps no runs"):
        load_rewriter("verse")


def test_the_page_calls_a_simulation_one_and_names_what_was_not_run(simulated: Part, tmp_path: Path) -> None:
    paths = keep_part(Done(simulated, 1.0), tmp_path, command="heldout bench improve_any_task --only a")
    paths += write_overview(tmp_path, ("a", "b", "c"), page=partial(page_text, "improve_any_task"))
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert page.startswith("**Part a of this page is a simulation")
    assert "A mixture of all data at once may win." in page
    assert "--only b`" in page
    assert "A quick version" in page
    assert not re.search(r"(?<!\w)-\d", page), "a minus is no hyphen"
    assert all(path.is_file() for path in paths)
    assert (tmp_path / "overstatement.svg").read_text(encoding="utf-8").count("(simulation)") >= 1


@pytest.mark.slow
def test_the_same_part_trains_real_models(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    sizes = Sizes(
        simulated=False,
        train=16,
        select=16,
        audit=16,
        retain=6,
        items=120,
        budget_s=8.0,
        steps=5,
        short=3,
        trainings=1,
        examples=1 / 16,
        step_s=0.13,
    )
    part = pocket_part(Bench(Plan(sizes=sizes, seeds=1, workers=1, quick=True, few_arms=(FULL, WITHOUT_START))))
    assert not part.simulated
    gains = part.tables[0]
    assert "exact gain" not in gains.columns
    assert {row[0] for row in gains.rows} == {"base", "instruct"}
    keep_part(Done(part, 1.0), tmp_path, command="heldout bench improve_any_task --only b")
    write_overview(tmp_path, ("a", "b", "c"), page=partial(page_text, "improve_any_task"))
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert page.startswith("**This page holds part b alone: real models")
