"""Part (c) on a simulated model: whole runs through the workbench, resumable, read back from their indexes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from heldout.store import read_events
from heldout.studies import Estimate
from heldout.studies.winners_curse import RealPlan, real_model
from heldout.studies.winners_curse.real_claims import real_claims
from heldout.studies.winners_curse.real_model import RealResult
from heldout.studies.winners_curse.real_tables import RealRun, inflation, real_tables

PLAN = RealPlan(
    rules=("greedy", "select_confirm"),
    model="simulated",
    gold={"questions": 40},
    sizes=(16,),
    seeds=1,
    generations=2,
    train=32,
    audit=30,
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RealResult]:
    """The study's runs, and what came of them."""
    runs = tmp_path_factory.mktemp("bench")
    return runs, real_model(PLAN, runs=runs, command="heldout bench winners_curse")


def _run(**changes: object) -> RealRun:
    usual = {
        "source": "questions",
        "n": 16,
        "rule": "greedy",
        "seed": 0,
        "simulated": False,
        "select_start": 0.5,
        "select_final": 0.75,
        "gold_start": 0.5,
        "gold_final": 0.6,
        "gold_gain": 0.1,
        "audit": None,
        "modelled": 0.1,
        "commits": 1,
        "evaluations": 100,
        "tokens": 1000,
    }
    return RealRun(**{**usual, **changes})  # type: ignore[arg-type]


def test_a_study_that_was_stopped_goes_on_and_repeats_no_finished_run(bench: tuple[Path, RealResult]) -> None:
    runs, first = bench
    folders = sorted(runs.iterdir())
    assert len(folders) == 2
    before = [len(list(read_events(folder / "events.jsonl"))) for folder in folders]
    again = real_model(PLAN, runs=runs, command="heldout bench winners_curse")
    assert again == first
    assert [len(list(read_events(folder / "events.jsonl"))) for folder in folders] == before


def test_a_run_that_was_killed_is_continued_to_the_same_result(bench: tuple[Path, RealResult], tmp_path: Path) -> None:
    runs, first = bench
    shutil.copytree(runs, tmp_path / "runs")
    journal = next((tmp_path / "runs").glob("*greedy*")) / "events.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    assert real_model(PLAN, runs=tmp_path / "runs", command="x").part == first.part


def test_the_part_says_that_it_is_simulated_and_names_every_run(bench: tuple[Path, RealResult]) -> None:
    part = bench[1].part
    assert part.simulated
    assert len(part.config_digests) == 2
    assert len(part.tables[1].rows) == 2
    assert "(simulation)" in part.plots[0].title


def test_inflation_of_a_run_that_kept_its_start_comes_from_gold_of_a_sibling() -> None:
    sibling = _run(rule="select_confirm")
    unchanged = _run(gold_start=None, gold_final=None, gold_gain=0.0, select_final=0.5, commits=0)
    assert inflation(sibling, [sibling]) == pytest.approx(0.15)
    assert inflation(unchanged, [unchanged, sibling]) == pytest.approx(0.0)
    assert inflation(unchanged, [unchanged, _run(seed=1)]) is None


def test_an_arm_averages_over_seeds() -> None:
    runs = [_run(seed=0, gold_gain=0.1), _run(seed=1, gold_gain=0.2)]
    row = dict(zip(real_tables(runs)[0].columns, real_tables(runs)[0].rows[0], strict=True))
    gold = row["gold gain"]
    assert isinstance(gold, Estimate)
    assert (gold.value, gold.standard_error) == (pytest.approx(15.0), pytest.approx(5.0))
    assert row["RMSE of believed"] == pytest.approx(100 * ((0.15**2 + 0.05**2) / 2) ** 0.5)


def test_claims_pair_runs_on_the_same_tasks() -> None:
    runs = [
        _run(n=n, rule=rule, seed=seed, gold_gain=0.1 + 0.05 * (n == 64) + 0.001 * seed * (n == 64))
        for n in (16, 64)
        for rule in ("greedy", "select_confirm")
        for seed in range(3)
    ]
    growth = next(claim for claim in real_claims(runs) if claim.id == "C7")
    assert growth.number == pytest.approx(5.1)
    assert growth.verdict.value == "reproduced"
    same = next(claim for claim in real_claims(runs) if claim.id == "C5")
    assert same.verdict.value == "undecided", "equal runs say nothing"


def test_a_config_holds_no_path_of_the_users_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "trec").mkdir()
    monkeypatch.setenv("HELDOUT_DATA", str(tmp_path))
    plan = RealPlan()
    assert set(plan.gold) == {"questions", "trec:6"}
    assert all(config.tasks.path is None for config in plan.configs())
    monkeypatch.setenv("HELDOUT_DATA", str(tmp_path / "elsewhere"))
    assert set(RealPlan().gold) == {"questions"}
    assert len(list(RealPlan().configs())) == 2 * 3, "two sizes, three seeds"
