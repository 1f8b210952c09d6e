"""Books and sets of files compared by what they hold, with the first differences in words."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.errors import TaskError
from heldout.sandbox import make_sandboxes
from heldout.tasks.workbooks import (
    Book,
    CellError,
    Sheet,
    Value,
    compare,
    explain,
    file_bytes,
    grade_files,
    read_areas,
    same_value,
)
from heldout.testing.workbook_bytes import packed, workbook_bytes

FAULT = make_sandboxes("bubblewrap").fault()
needs_sandbox = pytest.mark.skipif(FAULT is not None, reason=str(FAULT))

DAY = datetime.datetime(2024, 2, 29)
VALUES = st.one_of(
    st.none(),
    st.text(max_size=6),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2100, 1, 1)),
    st.sampled_from([CellError("#N/A"), CellError("#DIV/0!")]),
)


def book(**sheets: list[list[Any]]) -> Book:
    made = []
    for name, rows in sheets.items():
        cells: dict[tuple[int, int], Value] = {}
        for row, line in enumerate(rows, start=1):
            cells |= {(row, at): value for at, value in enumerate(line, start=1) if value is not None}
        made.append(Sheet(name, cells))
    return Book("b.xlsx", tuple(made))


def told(expected: Book, found: Book, **options: Any) -> list[str]:
    return [str(one) for one in compare(expected, found, **options)]


class TestValues:
    @pytest.mark.parametrize(
        ("wanted", "given"),
        [
            (1, 1.0),
            (1_000_000, 1_000_000.9),
            (0, 1e-10),
            ("a", "a  "),
            (None, ""),
            ("", "  "),
            (DAY, DAY.date()),
            (DAY, 45351),
            (DAY, DAY.replace(microsecond=400_000)),
            (datetime.time(12), 0.5),
            (datetime.timedelta(days=1, hours=6), 1.25),
            (CellError("#N/A"), CellError("#N/A")),
        ],
    )
    def test_the_same(self, wanted: Value, given: Value) -> None:
        assert same_value(wanted, given)
        assert same_value(given, wanted)

    @pytest.mark.parametrize(
        ("wanted", "given"),
        [
            (1, "1"),
            (1, True),
            (0, False),
            (0, None),
            (1_000_000, 1_000_002),
            (0, 1e-8),
            ("a", " a"),
            ("a", "A"),
            ("a", "a\n"),
            (DAY, "2024-02-29"),
            (DAY, DAY + datetime.timedelta(seconds=1)),
            (DAY, 45351.001),
            (CellError("#N/A"), CellError("#REF!")),
            (CellError("#N/A"), "#N/A"),
            (CellError("#N/A"), CellError("#N/A", "it cannot be computed")),
        ],
    )
    def test_not_the_same(self, wanted: Value, given: Value) -> None:
        assert not same_value(wanted, given)
        assert not same_value(given, wanted)

    def test_text_numbers_and_decimals_are_options(self) -> None:
        assert same_value("1.0", 1, text_numbers=True)
        assert not same_value("nan", 1, text_numbers=True)
        assert same_value("nan", "nan", text_numbers=True)
        assert same_value(3.3333, 3.33, decimals=2)
        assert not same_value(3.3333, 3.34, decimals=2)
        assert not same_value(DAY, 45351.001, decimals=2)

    @given(VALUES, VALUES)
    def test_sameness_is_symmetric_and_every_value_is_itself(self, one: Value, other: Value) -> None:
        assert same_value(one, one)
        assert same_value(one, other) == same_value(other, one)


class TestBooks:
    def test_the_order_of_sheets_and_empty_cells_do_not_count(self) -> None:
        expected = book(A=[[1, None]], B=[["x"]])
        assert told(expected, book(B=[["x ", ""], [None, "  "]], A=[[1.0]])) == []

    def test_sheets_are_found_by_name_and_others_are_faults(self) -> None:
        assert told(book(A=[[1]]), book(B=[[1]])) == [
            "A: there is no such sheet; there is 'B'",
            "B: no such sheet is wanted; wanted is 'A'",
        ]

    def test_the_first_differences_are_told_with_their_places(self) -> None:
        expected = book(A=[["k", "v"], ["a", 1], ["b", 2], ["c", 3]])
        found = book(A=[["k", "v"], ["a", 7], ["b", None], ["c", 3], ["d", 4]])
        assert told(expected, found, most=3) == [
            "'A'!B2: holds 7, expected 1",
            "'A'!B3: is empty, expected 2",
            "'A'!A5: holds 'd', expected nothing",
        ]

    def test_long_text_is_shortened(self) -> None:
        assert len(told(book(A=[["x"]]), book(A=[["y" * 999]]))[0]) < 120

    def test_ranges_leave_out_all_else(self) -> None:
        expected, found = book(A=[[1, 2], [3, 4]], B=[[5]]), book(A=[[1, 9], [3, 9]], C=[[0]])
        assert told(expected, found, ranges=read_areas("A!A1:A2")) == []
        assert told(expected, found, ranges=read_areas("B1:B1")) == ["'A'!B1: holds 9, expected 2"]
        assert told(expected, found, ranges=read_areas("B!A1")) == ["B: there is no such sheet; there is 'A', 'C'"]
        assert told(expected, found, ranges=read_areas("D!A1")) == [
            "D: the expected workbook has no such sheet; it has 'A', 'B'"
        ]

    def test_a_formula_that_cannot_be_computed_is_right_where_it_is_the_expected_one(self) -> None:
        broken = CellError("#NAME?", "there is no function SUBTOTAL here")
        cells: dict[tuple[int, int], Value] = {(1, 1): broken}
        formula = {(1, 1): "=_xlfn.SUBTOTAL(9, A2:A3)"}
        found = Book("b", (Sheet("S", cells, formula),))
        expected = Book("b", (Sheet("S", {(1, 1): 5}, {(1, 1): "=subtotal(9,A2:A3)"}),))
        assert told(expected, found) == []
        other = Book("b", (Sheet("S", {(1, 1): 5}, {(1, 1): "=SUM(A2:A3)"}),))
        assert told(other, found) == ["'S'!A1: holds #NAME? (there is no function SUBTOTAL here), expected 5"]
        error = Book("b", (Sheet("S", {(1, 1): CellError("#DIV/0!")}, {(1, 1): "=subtotal(9,A2:A3)"}),))
        assert told(expected, error) != []


WANTED = {"b.xlsx": workbook_bytes({"S": [["k", "v"], ["a", 1]]}), "t.csv": b"k,v\na,1\n", "n.txt": b"one\ntwo\n"}


class TestFiles:
    def test_the_same_content_in_other_bytes_is_right(self) -> None:
        found = {
            "b.xlsx": workbook_bytes({"S": [["k", "v", ""], ["a", 1.0]]}),
            "t.csv": b'"k",v\r\na,1.0\r\n',
            "n.txt": b"one  \r\ntwo\n\n",
        }
        grade = grade_files(WANTED, found)
        assert grade.right
        assert grade.score == 1.0
        assert explain(grade) == ""

    def test_every_kind_of_fault_is_told(self) -> None:
        found = {"b.xlsx": b"no workbook", "extra.csv": b"", "n.txt": b"one\nthree\n"}
        grade = grade_files({**WANTED, "new.csv": b"x\n"}, found, inputs=("t.csv", "b.xlsx"))
        assert grade.score == 0.0
        assert explain(grade).splitlines() == [
            "there is no file new.csv, which is wanted",
            "the input t.csv was deleted",
            "there is a file extra.csv, which nobody asked for",
            "b.xlsx: it cannot be read: it is no zip archive, or a damaged one, and so no .xlsx workbook",
            "n.txt: it is not the text that is wanted",
        ]

    def test_an_executor_that_deletes_its_input_is_a_failed_outcome(self) -> None:
        grade = grade_files({"b.xlsx": WANTED["b.xlsx"]}, {}, inputs=("b.xlsx",))
        assert grade.score == 0.0
        assert explain(grade) == "the input b.xlsx was deleted"

    def test_a_workbook_that_does_not_open_is_a_failed_outcome(self) -> None:
        bomb = packed(WANTED["b.xlsx"], {"xl/media/x.bin": b"\0" * (4 << 20)})
        torn = packed(WANTED["b.xlsx"], {"xl/worksheets/sheet1.xml": b"<worksheet>"})
        for data in (bomb, torn, b"", WANTED["b.xlsx"][:200]):
            grade = grade_files({"b.xlsx": WANTED["b.xlsx"]}, {"b.xlsx": data})
            assert grade.score == 0.0
            assert "b.xlsx: it cannot be read" in explain(grade)

    def test_an_expected_file_that_does_not_open_is_no_score(self) -> None:
        with pytest.raises(TaskError, match="expected file"):
            grade_files({"b.xlsx": b"broken"}, {"b.xlsx": WANTED["b.xlsx"]})

    def test_many_faults_are_counted_and_cut(self) -> None:
        grade = grade_files({f"f{number}": b"" for number in range(9)}, {})
        assert explain(grade).splitlines()[-1] == "… and 3 more"
        assert len(explain(grade, characters=50)) == 50

    def test_bytes_of_a_snapshot_are_decoded_and_what_is_no_base64_is_a_workbook_that_does_not_open(self) -> None:
        text = base64.b64encode(WANTED["b.xlsx"]).decode()
        assert file_bytes({"b.xlsx": text, "a.csv": "ä"}) == {"b.xlsx": WANTED["b.xlsx"], "a.csv": "ä".encode()}
        assert not grade_files({"b.xlsx": WANTED["b.xlsx"]}, file_bytes({"b.xlsx": "no base64!"})).right
        assert file_bytes({"a.csv": "\ud800"}) == {"a.csv": b"\xed\xa0\x80"}

    @needs_sandbox
    def test_a_formula_counts_by_its_value_and_an_error_is_none(self) -> None:
        expected = {"b.xlsx": workbook_bytes({"S": [[2, 3, "=SUM(A1:B1)", "=A1"]]})}
        right = {"b.xlsx": workbook_bytes({"S": [[2, 3, "=A1+B1", 2]]})}
        wrong = {"b.xlsx": workbook_bytes({"S": [[2, 3, "=A1/0", "=A1"]]})}
        assert grade_files(expected, right).right
        assert explain(grade_files(expected, wrong)) == "b.xlsx: 'S'!C1: holds #DIV/0!, expected 5"
