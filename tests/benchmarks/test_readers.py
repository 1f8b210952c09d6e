"""Published data in its published formats, and small files in the same formats with faults."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmarks import Banking77Source, Gsm8kSource, TrecSource
from heldout.config import TasksConfig
from heldout.errors import SetupError
from heldout.tasks import TaskSource, check_source, find_duplicates, load_source, load_tasks


def config(source: str, path: Path | None, **changes: Any) -> TasksConfig:
    return TasksConfig.model_validate({"source": source, "path": path and str(path), **changes})


@pytest.mark.data
def test_trec_counts_and_labels(shared_data: Path) -> None:
    coarse = TrecSource(path=str(shared_data / "trec"))
    items = coarse.items()
    assert (len(items), items[0].id, items[-1].id) == (5952, "train-1", "test-500")
    assert items[0].input == "How did serfdom develop in and then leave Russia ?"
    assert items[0].reference == "description"
    # The published training counts (Li and Roth): 86, 1250, 1162, 1223, 835, 896.
    assert Counter(item.stratum for item in items if item.id.startswith("train")) == {
        "ABBR": 86, "ENTY": 1250, "DESC": 1162, "HUM": 1223, "LOC": 835, "NUM": 896,
    }  # fmt: skip
    fine = TrecSource(path=str(shared_data / "trec"), classes=50)
    assert len(set(fine.labels)) == 50
    assert {item.reference for item in fine.items()} == set(fine.labels)
    assert fine.items()[0].reference == "description: manner"
    codes = TrecSource(path=str(shared_data / "trec"), classes=50, codes=True)
    assert codes.items()[0].reference == "DESC:manner"
    assert "DESC:manner" in codes.instruction


@pytest.mark.data
def test_trec_duplicates(shared_data: Path) -> None:
    pairs = find_duplicates(TrecSource(path=str(shared_data / "trec")).items())
    exact = [(pair.a[:5], pair.b[:5]) for pair in pairs if pair.exact]
    assert Counter(exact) == {("train", "train"): 76, ("train", "test-"): 11}
    assert sum(not pair.exact for pair in pairs) == 18


@pytest.mark.data
@pytest.mark.slow
def test_banking77_counts_and_duplicates(shared_data: Path) -> None:
    source = Banking77Source(path=str(shared_data / "banking77"))
    items = source.items()
    assert len(items) == 13083
    assert len(source.labels) == 77
    assert {item.reference for item in items} == set(source.labels)
    assert (items[0].input, items[0].reference) == ("I am still waiting on my card?", "card arrival")
    pairs = find_duplicates(items)
    assert (sum(pair.exact for pair in pairs), sum(not pair.exact for pair in pairs)) == (60, 320)


@pytest.mark.data
def test_gsm8k_reads_and_grades_its_own_answers(shared_data: Path) -> None:
    items = Gsm8kSource(path=str(shared_data / "gsm8k")).items()
    assert len(items) == 8792
    first_test = next(item for item in items if item.id == "test-1")
    assert first_test.reference.endswith("#### 18")
    assert "<<" not in first_test.reference


def check(source: str, data: Path) -> None:
    report = check_source(config(source, data / source.partition(":")[0], duplicates="drop"))
    assert report.ok, report.failures
    assert report.gold_right == report.wrong_refused == report.items


@pytest.mark.data
@pytest.mark.parametrize("source", ["trec:6", "trec:50"])
def test_gold_answers_score_one_and_wrong_ones_zero(shared_data: Path, source: str) -> None:
    check(source, shared_data)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("source", ["banking77", "gsm8k"])
def test_gold_answers_of_larger_data_score_one_and_wrong_ones_zero(shared_data: Path, source: str) -> None:
    check(source, shared_data)


@pytest.mark.data
def test_trec_split_drops_duplicates_and_opens(shared_data: Path) -> None:
    tasks = load_tasks(
        config("trec:6", shared_data / "trec", train=256, select=64, reports={"gold": 600}, duplicates="drop")
    )
    assert tasks.dropped == 105
    assert tasks.sizes == {"train": 256, "select": 64, "audit": 200, "gold": 600}
    assert len(tasks.open_role("gold").tasks) == 600
    with pytest.raises(SetupError, match="would stand in two roles"):
        load_tasks(config("trec:6", shared_data / "trec", train=2000, select=600, audit=600))


@pytest.mark.data
def test_the_data_folder_may_come_from_the_environment(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELDOUT_DATA", str(shared_data))
    assert len(load_source(config("gsm8k", None)).items()) == 8792


@pytest.mark.parametrize("source", ["trec:6", "banking77", "gsm8k"])
def test_no_folder_says_how_to_give_one(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HELDOUT_DATA", raising=False)
    with pytest.raises(SetupError, match=r"tasks\.path=FOLDER, or HELDOUT_DATA"):
        load_source(config(source, None))
    with pytest.raises(SetupError, match="no such folder"):
        load_source(config(source, tmp_path / "absent"))
    with pytest.raises(SetupError, match="published at https://"):
        load_source(config(source, tmp_path)).items()


def trec_folder(folder: Path, train: bytes) -> Path:
    (folder / "train_5500.label").write_bytes(train)
    (folder / "TREC_10.label").write_bytes(b"NUM:dist How far is it ?\n")
    return folder


def test_the_original_latin_1_file_is_read(tmp_path: Path) -> None:
    source = load_source(config("trec:6", trec_folder(tmp_path, b"LOC:city Which sister\xf0city ?\n")))
    assert [(item.id, item.input, item.reference) for item in source.items()] == [
        ("train-1", "Which sisterðcity ?", "location"),
        ("test-1", "How far is it ?", "number"),
    ]


@pytest.mark.parametrize("line", ["NUM:How How far ?", "HUM:ind", "nothing at all"])
def test_a_faulty_trec_line_is_named(tmp_path: Path, line: str) -> None:
    source = load_source(config("trec:6", trec_folder(tmp_path, f"HUM:ind Who ?\n{line}\n".encode())))
    with pytest.raises(SetupError, match="line 2: expected COARSE:fine question"):
        source.items()


def test_published_file_names_without_prefix(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text('text,category\n"Where, is it?",card_arrival\n')
    (tmp_path / "test.csv").write_text("text,category\nWhere?,card_arrival\n")
    banking: TaskSource = Banking77Source(path=str(tmp_path))
    assert [(item.id, item.reference) for item in banking.items()] == [
        ("train-1", "card arrival"),
        ("test-1", "card arrival"),
    ]
    (tmp_path / "test.csv").write_text("text,label\nWhere?,card_arrival\n")
    with pytest.raises(SetupError, match=r"row 1 \(line 2\): expected the columns text and category"):
        banking.items()


def test_a_gsm8k_row_without_a_final_number_is_named(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / f"{part}.jsonl").write_text('{"question": "q", "answer": "2+2=<<2+2=4>>4\\n#### 4"}\n')
    source = Gsm8kSource(path=str(tmp_path))
    assert source.items()[0].reference == "2+2=4\n#### 4"
    (tmp_path / "test.jsonl").write_text('{"question": "q", "answer": "four"}\n')
    with pytest.raises(SetupError, match=r"test\.jsonl', row 1 \(line 1\)"):
        source.items()
