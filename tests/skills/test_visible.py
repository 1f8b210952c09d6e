"""What a task shows: files, sheets, headers and beginnings, within a size, and what cannot be read."""

from __future__ import annotations

import base64

from skill_parts import workbook

from heldout.sandbox import Scene
from heldout.skills import visible
from heldout.skills.visible import VISIBLE_BYTES
from heldout.skills.workbook import read_workbook
from heldout.testing.workbook_bytes import packed, workbook_bytes


def test_a_workbook_shows_its_sheets_headers_and_first_rows() -> None:
    rows = [["Region", "Net amount"], *([f"R{i}", i] for i in range(30))]
    book = workbook({"Data": [*rows, ["sum", "=SUM(B2:B31)"]], "Empty": []})
    text = visible(Scene(files={"in/book.xlsx": book}, encoded=(".xlsx",)))
    assert text.startswith("Files in the work folder:\n- in/book.xlsx (")
    assert (
        'Sheet "Data" (32 rows, 2 columns)\nHeaders: Region | Net amount\nRow 1: Region | Net amount\nRow 2: R0 | 0'
        in text
    )
    assert "R4" in text
    assert "R5" not in text
    assert 'Sheet "Empty"' in text
    assert text.endswith(": empty")


def test_separated_text_is_read_by_its_own_separator() -> None:
    text = visible(Scene(files={"a.csv": "x;y\n1;2,5\n", "b.tsv": 'p\tq\n"a\nb"\tc\n'}))
    assert "Table (2 rows, 2 columns)\nHeaders: x | y\nRow 1: x | y\nRow 2: 1 | 2,5" in text
    assert "Headers: p | q\nRow 1: p | q\nRow 2: a b | c" in text


def test_text_files_show_their_beginning() -> None:
    text = visible(Scene(files={"n.txt": "\n".join(f"line {i}" for i in range(50)), "e.txt": ""}))
    assert "line 19\n[... 30 more lines ...]" in text
    assert "line 20" not in text
    assert "## e.txt\nAn empty file." in text


def test_what_cannot_be_read_is_said_and_breaks_nothing() -> None:
    scene = Scene(
        files={"a.xlsx": "AAAA", "b.xlsx": "no base64", "c.csv": "a" * 200_000, "e.txt": "a\0b", "d.bin": "AAAA"},
        encoded=(".xlsx", ".bin"),
    )
    text = visible(scene)
    assert "## a.xlsx\nUnreadable: it cannot be read as a workbook: it is no zip archive" in text
    assert "- b.xlsx (its content cannot be read)" in text
    assert "## b.xlsx\nUnreadable: its content is damaged" in text
    assert "## c.csv\nUnreadable: it cannot be read as separated text" in text
    assert "- d.bin (3 bytes)" in text
    assert "## e.txt\na\ufffdb" in text
    assert "## d.bin\nNot a text file; its content is not shown." in text


def test_however_much_there_is_it_stays_within_its_size() -> None:
    many = {f"f{i:03}.txt": "ü" * 5000 for i in range(100)}
    text = visible(Scene(files=many))
    assert VISIBLE_BYTES - 40 < len(text.encode()) <= VISIBLE_BYTES
    assert text.endswith("[... cut here ...]")
    assert "- and 40 more" in text
    assert "## f000.txt\n" in text


def test_nothing_but_the_scene_is_shown() -> None:
    assert visible(Scene()) == "The task gives no files."
    scene = Scene(mounts={"/gold": "/gold"}, env={"KEY": "secret"}, image="image-1", origin="/testbed")
    text = visible(scene)
    assert (
        text.splitlines()[1] == "Further files come with the system that the work is done in; they are not listed here."
    )
    assert all(word not in text for word in ("gold", "secret", "image-1"))
    assert visible(scene) == text


def test_a_workbook_that_is_not_safe_to_open_is_not_opened() -> None:
    """A megabyte of a zip archive may hold a gigabyte of strings, and a library reads them all."""
    bomb = packed(workbook_bytes({"Data": [["id"]]}), {"xl/sharedStrings.xml": b"<sst>" + b"<si/>" * 13_500_000})
    assert len(bomb) < 1 << 20
    text = visible(Scene(files={"a.xlsx": base64.b64encode(bomb).decode()}, encoded=(".xlsx",)))
    assert "Unreadable: it cannot be read as a workbook: it unpacks to more than 64 MB" in text


def test_long_cells_are_cut_as_they_are_read_and_names_of_files_stay_in_their_line() -> None:
    book = read_workbook(workbook_bytes({"Data": [["x" * 30_000, "id"]]}), rows=2)
    assert [len(cell) for cell in book[0].rows[0]] == [256, 2]
    assert "## odd # Skill.txt\n" in visible(Scene(files={"odd\n# Skill.txt": "a"}))
