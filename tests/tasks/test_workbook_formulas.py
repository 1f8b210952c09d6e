"""Values of formulas, computed in a sandbox: hand-computed numbers, errors as values, and nothing that hangs."""

from __future__ import annotations

import datetime
import io
import time
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import openpyxl
import pytest
from openpyxl.worksheet.formula import ArrayFormula

from heldout.errors import SandboxError, SetupError, TaskError
from heldout.sandbox import Limits, make_sandboxes
from heldout.tasks.workbooks import Book, CellError, Value, computed, coordinate, read_areas, read_book
from heldout.tasks.workbooks import formulas as computing
from heldout.testing.workbook_bytes import packed, workbook_bytes

FAULT = make_sandboxes("bubblewrap").fault()
needs_sandbox = pytest.mark.skipif(FAULT is not None, reason=str(FAULT))
NO_SANDBOX = "heldout.testing.local_sandbox:NoSuchKind"
"""Named where nothing may be computed: to open it would be an error."""


def book(sheets: Mapping[str, Sequence[Sequence[Any]]], *, names: Mapping[str, str] | None = None) -> Book:
    found = read_book("b.xlsx", workbook_bytes(sheets, names=names), stored=True)
    assert isinstance(found, Book)
    return found


def values(found: Book, sheet: str = "S") -> dict[str, Value]:
    one = found.sheet(sheet)
    assert one is not None
    return {coordinate(place): value for place, value in one.cells.items()}


@pytest.fixture(scope="module")
def mixed() -> dict[str, Value]:
    """One book for many formulas: a run of the library costs most of a second."""
    rows: list[list[Any]] = [
        ["key", "n", "text", None, None, "more"],
        ["a", 2, "12", None, None, 2],
        ["b", 3, "x", None, None, 3],
        ["a", 5, True, None, None, 5],
        ["=SUM(B2:B4)", "=AVERAGE(F:F)", "=SUM(C2:C4)", "=MAX(B2:C4)", "=COUNT(C2:C4)"],
        ['=SUMIF(A2:A4,"a",B2:B4)', '=COUNTIF(A2:A4,"a")', "=VLOOKUP(3,B2:C4,2,FALSE)", '=SUMIF(B2:B4,">0",C2:C4)'],
        ['=IF(B2>1,"yes","no")', '=A2&"-"&B2', "=ROUND(10/3,2)", "=IFERROR(1/0,7)", '=IF(B2=2,"",1)'],
        ["='Other one'!A1*2", "=Rate*B2", "=D9+1", "=DATE(2024,2,29)", "=SUM(2:2)"],
        ["=1/0", "=NOPE(1)", "=SUBTOTAL(9,B2:B4)", '="1"+1', "=A9+1"],
        ["=C9+1", "=B11", "=A12", "=B2+", "=TODAY()"],
        ["=[1]Sheet1!A1", "=A11", "=Gone!A1", "=1E400", '=_xlfn.STDEV.S(B2:B3)+LEN("=")'],
        ["=E11", '=INDIRECT("B3")', "=C12", "=RAND()", "=Table1[n]"],
        ["=#N/A", "=SQRT(-1)", "=A13", "=C11", "=LOG(0)"],
    ]
    made = book({"S": rows, "Other one": [["=S!B2+1"]]}, names={"Rate": "S!$B$4"})
    found = computed(made)
    return {**values(found), **{f"other {place}": value for place, value in values(found, "Other one").items()}}


@needs_sandbox
class TestValues:
    @pytest.mark.parametrize(
        ("cell", "value"),
        [
            ("A5", 10.0),
            ("B5", 10.0 / 3),  # of 2, 3 and 5; the header is text
            ("A6", 7.0),
            ("B6", 2),
            ("C6", "x"),
            ("A7", "yes"),
            ("B7", "a-2"),
            ("C7", 3.33),
            ("D7", 7),
            ("E7", ""),
            ("A8", 6.0),
            ("other A1", 3.0),
            ("B8", 10.0),
            ("C8", 3.0),
            ("D8", 45351),  # days since 1899-12-30
            ("E8", 4.0),
            ("D9", 2.0),
            ("E11", 1.0 + 0.5**0.5),
            ("A12", 1.0 + 0.5**0.5),
            ("B12", 3),
        ],
    )
    def test_a_formula_has_its_value(self, mixed: dict[str, Value], cell: str, value: Value) -> None:
        assert mixed[cell] == (pytest.approx(value) if isinstance(value, float) else value)

    @pytest.mark.parametrize(("cell", "value"), [("C5", 0.0), ("D5", 5), ("E5", 0), ("D6", 0.0)])
    def test_aggregates_pass_over_text_that_looks_like_a_number(
        self, mixed: dict[str, Value], cell: str, value: Value
    ) -> None:
        assert mixed[cell] == value

    @pytest.mark.parametrize(
        ("cell", "code"),
        [("A9", "#DIV/0!"), ("E9", "#DIV/0!"), ("C11", "#REF!"), ("A13", "#N/A"), ("B13", "#NUM!"), ("E13", "#NUM!")],
    )
    def test_a_formula_that_errors_has_its_error_as_value(self, mixed: dict[str, Value], cell: str, code: str) -> None:
        assert mixed[cell] == CellError(code)

    @pytest.mark.parametrize(
        ("cell", "why"),
        [
            ("B9", "no function NOPE"),
            ("C9", "no function SUBTOTAL"),
            ("A10", "it reads C9"),
            ("B10", "it reads B11"),  # which reads A11, which needs another workbook
            ("D10", "no formula that can be read"),
            ("E10", "TODAY depends on the day"),
            ("A11", "another workbook"),
            ("D11", "no formula that can be read"),
            ("D12", "RAND depends on"),
            ("E12", "a table by its name"),
        ],
    )
    def test_a_formula_that_cannot_be_computed_says_why(self, mixed: dict[str, Value], cell: str, why: str) -> None:
        value = mixed[cell]
        assert isinstance(value, CellError)
        assert why in value.why

    def test_cells_that_read_each_other_have_no_value(self) -> None:
        found = values(computed(book({"S": [["=B1", "=A1", 1], ["=IF(C1=1,C1,A1)"]]})))
        for cell in ("A1", "B1"):
            value = found[cell]
            assert isinstance(value, CellError)
            assert "its own value" in value.why

    def test_an_array_formula_fills_its_span(self) -> None:
        made = openpyxl.Workbook()
        made.active.title = "S"
        for row in (1, 2):
            made.active.cell(row, 1, row)
        made.active["B1"] = ArrayFormula("B1:B2", "=A1:A2*10")
        buffer = io.BytesIO()
        made.save(buffer)
        found = read_book("b.xlsx", buffer.getvalue())
        assert isinstance(found, Book)
        assert values(computed(found)) == {"A1": 1, "A2": 2, "B1": 10.0, "B2": 20.0}

    def test_dates_take_part_as_the_days_that_a_spreadsheet_keeps(self) -> None:
        found = values(computed(book({"S": [[datetime.datetime(2024, 2, 29), "=A1+1", "=YEAR(A1)"]]})))
        assert found["B1"] == 45352.0
        assert found["C1"] == 2024

    def test_text_that_looks_like_a_formula_stays_text(self) -> None:
        made = openpyxl.Workbook()
        made.active.title = "S"
        made.active["A1"] = '="x"'
        made.active["A1"].data_type = "s"
        made.active["B1"] = "=A1"
        buffer = io.BytesIO()
        made.save(buffer)
        found = read_book("b.xlsx", buffer.getvalue())
        assert isinstance(found, Book)
        assert values(computed(found))["B1"] == '="x"'

    def test_only_what_an_area_needs_is_computed(self) -> None:
        made = book({"S": [["=B1+1", "=C1*2", 4, "=1+1", "=NOPE()"]]})
        found = values(computed(made, only=read_areas("S!A1")))
        assert found == {"A1": 9.0, "B1": 8.0, "C1": 4}


class TestOutsideOfTheSandbox:
    def test_a_book_without_formulas_is_computed_nowhere(self) -> None:
        made = book({"S": [[1]]})
        assert computed(made, sandbox=NO_SANDBOX) is made

    def test_stored_values_are_taken_only_where_they_are_trusted(self) -> None:
        made = workbook_bytes({"S": [["=1+1"]]})
        sheet = "xl/worksheets/sheet1.xml"
        with_value = made_stored(made, sheet)
        found = read_book("b.xlsx", with_value, stored=True)
        assert isinstance(found, Book)
        assert values(computed(found, trust_stored=True, sandbox=NO_SANDBOX)) == {"A1": 99}
        with pytest.raises(SetupError, match="NoSuchKind"):
            computed(found, sandbox=NO_SANDBOX)

    def test_what_never_reaches_the_library_needs_no_sandbox(self) -> None:
        found = values(computed(book({"S": [["=TODAY()", "=[2]x!A1"]]}), sandbox=NO_SANDBOX))
        assert all(isinstance(value, CellError) and value.why for value in found.values())

    def test_a_sandbox_that_does_not_start_is_no_value(self) -> None:
        with pytest.raises(SandboxError, match="cannot start"):
            computed(book({"S": [["=1+2+3"]]}), sandbox="broken_kind:Broken")

    def test_a_library_that_does_not_start_is_named(self) -> None:
        with pytest.raises(TaskError, match=r"exit code 1.*no module"):
            computed(book({"S": [["=1+2+4"]]}), sandbox="broken_kind:Empty")

    def test_many_formulas_that_read_anywhere_are_gathered_once(self) -> None:
        """Once for each of them would be the square of their number."""
        found = book({"S": [['=INDIRECT("A1")'] for _ in range(3000)]})
        begun = time.process_time()
        values(computed(found, sandbox="broken_kind:GivesUp"))
        assert time.process_time() - begun < 5.0

    def test_a_program_that_gives_up_or_is_ended_is_why_there_is_no_value(self) -> None:
        for kind, why in (("GivesUp", "gave up"), ("Slow", "limit of time")):
            value = values(computed(book({"S": [["=1+2+5"]]}), sandbox=f"broken_kind:{kind}"))["A1"]
            assert isinstance(value, CellError)
            assert why in value.why


def made_stored(data: bytes, sheet: str) -> bytes:
    """With a stored value that is not the formula's."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text = archive.read(sheet)
    return packed(data, {sheet: text.replace(b"<v />", b"<v>99</v>").replace(b"<v></v>", b"<v>99</v>")})


@needs_sandbox
class TestConfinement:
    def test_a_formula_that_takes_too_long_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(computing, "LIMITS", Limits(**{**computing.LIMITS.model_dump(), "wall_s": 0.3}))
        value = values(computed(book({"S": [["=1+2+6"]]})))["A1"]
        assert value == CellError("#N/A", "computing the formulas passed the limit of time")

    def test_the_same_model_is_computed_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        first = computed(book({"S": [["=1+2+7", "not read"]]}))
        monkeypatch.setattr(computing, "make_sandboxes", None)
        again = computed(book({"S": [["=1+2+7", "changed"]]}))
        assert values(first)["A1"] == values(again)["A1"] == 10.0
