"""The user's own files: what is read, and what is said about each fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError
from heldout.tasks import Item, load_source, read_items


def write_jsonl(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def read(source: str, path: str | None, **options: Any) -> tuple[Item, ...]:
    config = TasksConfig(source=source, path=path, options=options)
    return read_items(load_source(config), name=source)


def fault(source: str, path: str | None, **options: Any) -> str:
    with pytest.raises(SetupError) as caught:
        read(source, path, **options)
    return str(caught.value)


def test_jsonl_fields_and_defaults(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "t.jsonl",
        {"id": "a", "input": "1+1", "reference": 2, "stratum": "sum", "group": "g", "family": "f", "pool": "ood"},
        {"id": 7, "input": "ok?", "reference": True, "extra": [1]},
    )
    assert read("jsonl", path) == (
        Item(id="a", input="1+1", reference="2", stratum="sum", group="g", family="f", pool="ood"),
        Item(id="7", input="ok?", reference="true"),
    )


def test_named_fields(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", {"q": "why", "a": "so", "n": "x1", "kind": "k"})
    (item,) = read("jsonl", path, id="n", input="q", reference="a", stratum="kind")
    assert item == Item(id="x1", input="why", reference="so", stratum="k")


def test_csv_with_quoted_line_breaks_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('\ufeffid,input,reference\na,"two\nlines",x\nb,one,y\n')
    assert [item.input for item in read("csv", str(path))] == ["two\nlines", "one"]


def test_ids_are_row_numbers_only_where_no_row_has_one(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"input": "a", "reference": "x"}\n\n{"input": "b", "reference": "y"}\n')
    assert [item.id for item in read("jsonl", str(path))] == ["row-1", "row-2"]
    path.write_text('{"id": "k", "input": "a", "reference": "x"}\n\n{"input": "b", "reference": "y"}\n')
    assert "row 2 (line 3): no field 'id'" in fault("jsonl", str(path))


def test_labels_set_the_grader_and_the_strata(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", {"input": "a", "reference": "y"}, {"input": "b", "reference": "n"})
    plain = load_source(TasksConfig(source="jsonl", path=path))
    assert (plain.labels, plain.grader, plain.items()[0].stratum) == ((), "exact", "")
    source = load_source(TasksConfig(source="jsonl", path=path, options={"labels": "references"}))
    assert (source.labels, source.grader, source.items()[0].stratum) == (("n", "y"), "label", "y")
    assert "'n' is not among the labels y, z" in fault("jsonl", path, labels=["y", "z"])


def test_words_of_the_user_reach_the_source(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", {"input": "a", "reference": "y"})
    options = {"instruction": "Say y.", "description": "Says y.", "grader": "contains"}
    source = load_source(TasksConfig(source="jsonl", path=path, options=options))
    assert (source.instruction, source.description, source.grader) == ("Say y.", "Says y.", "contains")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["has no rows"]),
        ('{"input": "a", "reference": "x"}\n{oops\n', ["line 2", "not valid JSON"]),
        ("[1]\n", ["line 1", "expected a JSON object"]),
        ('{"id": "1", "input": "a"}\n', ["row 1 (line 1)", "'reference'", "it has 'id', 'input'"]),
        ('{"input": null, "reference": "x"}\n', ["row 1", "'input'"]),
        ('{"input": "  ", "reference": "x"}\n', ["row 1", "'input' is empty"]),
        ('{"input": ["a"], "reference": "x"}\n', ["row 1", "must be text or a number", "['a']"]),
        ('{"input": "a", "input": "b", "reference": "x"}\n', ["line 1", "'input' stands twice"]),
        ('{"input": "a", "reference": ' + "1" * 5000 + "}\n", ["line 1", "not valid JSON"]),
        (
            '{"id": "d", "input": "a", "reference": "x"}\n{"id": "d", "input": "b", "reference": "x"}\n',
            ["row 1 (line 1) and row 2 (line 2)", "same id 'd'"],
        ),
    ],
)
def test_faults_of_jsonl_name_file_row_and_field(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(text)
    message = fault("jsonl", str(path))
    assert all(word in message for word in [*words, "mine.jsonl"]), message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,input,reference\n", ["has no rows"]),
        ("id,input,reference\na,b,c,d\n", ["row 1 (line 2)", "4 cells under 3 columns"]),
        ("id,input,reference,input\na,b,c,d\n", ["two columns have the name 'input'"]),
        ("id,input,reference\na,b\n", ["row 1 (line 2)", "no field 'reference'"]),
        ("id,question,reference\na,b,c\n", ["no field 'input'", "'question'", "tasks.options.input"]),
        ('id,input,reference\na,"b,c\n', ["not valid CSV"]),
    ],
)
def test_faults_of_csv_name_file_row_and_field(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    message = fault("csv", str(path))
    assert all(word in message for word in [*words, "mine.csv"]), message


def test_half_a_character_is_refused_before_anything_is_hashed(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "t", "input": "\\ud83d smile", "reference": "x"}\n')
    with pytest.raises(TaskError, match=r"'t' holds half a character"):
        read("jsonl", str(path))


def test_no_such_file_no_path_and_not_utf8(tmp_path: Path) -> None:
    message = fault("jsonl", str(tmp_path / "absent.jsonl"))
    assert "absent.jsonl" in message
    assert "No such file" in message
    assert "set tasks.path" in fault("csv", None)
    (tmp_path / "latin.csv").write_bytes(b"id,input,reference\n1,caf\xe9,x\n")
    assert "not UTF-8: byte" in fault("csv", str(tmp_path / "latin.csv"))


def test_a_named_optional_field_must_be_there(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", {"input": "a", "reference": "x"})
    assert "no field 'topic' for the stratum" in fault("jsonl", path, stratum="topic")


def test_unknown_options_are_refused_with_what_is_allowed(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "t.jsonl", {"input": "a", "reference": "x"})
    message = fault("jsonl", path, inptu="q")
    assert "inptu" in message
    assert "allowed are id, input, reference" in message
    assert "set tasks.seed" in fault("jsonl", path, seed=3)
    assert "unexpected keyword argument 'coding'; its options are codes" in fault("trec:6", path, coding=True)


def test_an_unknown_source_says_what_there_is() -> None:
    assert "formats, gsm8k, harbor, humaneval, ifeval, jsonl, math500, minerva_math" in fault("trek", None)


PLUGIN = """
from heldout.tasks import Item
class Source:
    description, instruction, labels, grader = "d", "i", (), "exact"
    def __init__(self, *, path=None, seed=0, rows=2):
        self.rows, self.seed, self.path = rows, seed, path
    def items(self):
        if self.rows < 0:
            raise KeyError("gone")
        if self.rows == 99:
            return [Item(id="same", input="a", reference="b")] * 2
        return [Item(id=f"{self.path}-{self.seed}-{n}", input=f"q{n}", reference="b") for n in range(self.rows)]
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_task_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "my_task_plugin:Source"


def test_a_source_of_the_users_gets_path_seed_and_options(plugin: str) -> None:
    config = TasksConfig(source=plugin, path="p", seed=4, options={"rows": 3})
    assert [item.id for item in read_items(load_source(config), name=plugin)] == ["p-4-0", "p-4-1", "p-4-2"]


def test_faults_of_a_users_source_carry_its_name(plugin: str) -> None:
    assert "its options are rows" in fault(plugin, None, colour=1)
    assert "has no tasks" in fault(plugin, None, rows=0)
    with pytest.raises(TaskError, match=r"my_task_plugin:Source.*KeyError"):
        read(plugin, None, rows=-1)
    with pytest.raises(TaskError, match="two tasks have the id 'same'"):
        read(plugin, None, rows=99)
