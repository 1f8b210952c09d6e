"""`heldout bench winners_curse`: what is written, kept and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heldout.errors import SetupError, StoreError
from heldout.studies import load_study

COMMAND = "heldout bench winners_curse --quick"


def test_an_unknown_study_is_refused_with_what_there_is() -> None:
    with pytest.raises(SetupError, match=r"no study 'curse'; there is .*verse_published, winners_curse"):
        load_study("curse")


def test_a_quick_study_writes_page_tables_plots_and_provenance_and_a_part_may_be_run_again(tmp_path: Path) -> None:
    study = load_study("winners_curse")
    target = tmp_path / "results" / "quick" / "winners_curse"
    written = study(target, quick=True, only=None, command=COMMAND)
    assert all(path.is_file() for path in written)
    assert len(set(written)) == len(written)
    names = {path.name for path in written}
    assert {"README.md", "claims.csv", "provenance.json", "simulated_reference.csv", "simulated_inflation.svg"} <= names
    page = (target / "README.md").read_text(encoding="utf-8")
    assert page.startswith("**Parts a and b of this page are simulations; no real model was run for this page.**")
    assert page.count("| b | **") == 8
    made = json.loads((target / "provenance.json").read_text(encoding="utf-8"))["parts"]
    assert made["b"]["command"] == COMMAND
    assert made["b"]["seeds"] == 20
    assert made["b"]["runtime_s"] > 0
    repeatable = [path for path in written if path.name not in ("README.md", "provenance.json")]
    before = {path: path.read_bytes() for path in repeatable}
    study(target, quick=True, only="a", command=COMMAND)
    assert "Part b" in (target / "README.md").read_text(encoding="utf-8"), "what an earlier call left is kept"
    assert {path: path.read_bytes() for path in repeatable} == before


@pytest.mark.parametrize(
    ("only", "quick", "words"),
    [("e", True, "there is a, b, c, d"), ("c", True, "no quick version"), ("d", False, "not built yet")],
)
def test_a_part_that_cannot_run_is_refused_before_anything_is_written(
    tmp_path: Path, only: str, quick: bool, words: str
) -> None:
    with pytest.raises(SetupError, match=words):
        load_study("winners_curse")(tmp_path / "t", quick=quick, only=only, command=COMMAND)
    assert not (tmp_path / "t").exists()


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    target = tmp_path / "results" / "winners_curse"
    target.mkdir(parents=True)
    (target / "part_b.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError, match=r"part_b\.json"):
        load_study("winners_curse")(target, quick=True, only="a", command=COMMAND)
