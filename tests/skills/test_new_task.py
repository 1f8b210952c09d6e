"""A task that a person brings: where its request is, which files are shown, and what is refused."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from skill_parts import workbook

from heldout.errors import SetupError
from heldout.skills import new_task, visible
from heldout.skills.new_task import read_task


def test_a_text_file_is_a_request_without_files(tmp_path: Path) -> None:
    (tmp_path / "ask.txt").write_text("  Count them.\n")
    found = read_task(tmp_path / "ask.txt")
    assert (found.request, dict(found.scene.files), found.left_out) == ("Count them.", {}, ())


@pytest.mark.parametrize("name", ["instruction.txt", "request.md", "prompt.txt"])
def test_a_folder_holds_its_request_and_its_input_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Count them.")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "book.xlsx").write_bytes(base64.b64decode(workbook({"Data": [["id"], [1]]})))
    (tmp_path / "plain.csv").write_text("a,b\n1,2\n")
    (tmp_path / ".hidden").write_text("secret")
    found = read_task(tmp_path)
    assert found.request == "Count them."
    assert set(found.scene.files) == {"in/book.xlsx", "plain.csv"}
    assert found.scene.encoded == (".xlsx",)
    shown = visible(found.scene)
    assert 'Sheet "Data"' in shown
    assert "Headers: a | b" in shown


def test_all_files_of_a_suffix_are_bytes_where_one_is(tmp_path: Path) -> None:
    (tmp_path / "request.md").write_text("Look.")
    (tmp_path / "a.dat").write_bytes(b"\xff\xfe")
    (tmp_path / "b.DAT").write_bytes(b"text")
    (tmp_path / "binary").write_bytes(b"\0")
    (tmp_path / "words").write_text("words")
    found = read_task(tmp_path)
    assert found.scene.files == {"a.dat": "//4=", "b.DAT": "dGV4dA==", "binary": "AA==", "words": "words"}


def test_answers_beside_the_inputs_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Fill.")
    for name in ("1_7_init.xlsx", "1_7_golden.xlsx", "1_7_answer.xlsx", "answer.txt", "answers_needed.txt"):
        (tmp_path / name).write_bytes(b"x")
    found = read_task(tmp_path)
    assert set(found.scene.files) == {"1_7_init.xlsx", "answers_needed.txt"}
    assert found.left_out == ("1_7_answer.xlsx", "1_7_golden.xlsx", "answer.txt")


def test_no_link_in_a_folder_is_followed_not_even_one_that_stands_for_the_request(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret of this machine")
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "instruction.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(SetupError, match="holds no request"):
        read_task(folder)
    (folder / "prompt.txt").write_text("Fill.")
    (folder / "all").symlink_to(tmp_path)
    found = read_task(folder)
    assert (found.request, dict(found.scene.files)) == ("Fill.", {})


def test_a_request_of_any_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "request.md").open("wb") as file:
        file.truncate(1 << 40)  # no memory could hold it
    with pytest.raises(SetupError, match=r"has 1099511627776 bytes; at most 1048576 are taken"):
        read_task(tmp_path)


def test_what_is_no_task_is_refused_with_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match=r"no task at .*absent'.*instruction\.txt, request\.md or prompt\.txt"):
        read_task(tmp_path / "absent")
    (tmp_path / "x.csv").write_text("a")
    with pytest.raises(SetupError, match=r"holds no request: put it into instruction\.txt.*; there is x\.csv"):
        read_task(tmp_path)
    for data, fault in ((b" \n", "it is blank"), (b"\xff", "not UTF-8"), (b"a\0", "a NUL character")):
        (tmp_path / "request.md").write_bytes(data)
        with pytest.raises(SetupError, match=fault):
            read_task(tmp_path)
    (tmp_path / "request.md").write_text("Fine.")
    monkeypatch.setattr(new_task, "TASK_FOLDER_BYTES", 5)
    with pytest.raises(SetupError, match="more than 5 bytes"):
        read_task(tmp_path)


def test_links_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "request.md").write_text("Look.")
    (tmp_path / "passwd").symlink_to("/etc/passwd")
    assert dict(read_task(tmp_path).scene.files) == {}
