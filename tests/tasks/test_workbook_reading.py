"""Workbooks and CSV files from bytes of unknown origin: what they hold, and what is refused without a crash."""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.worksheet.formula import ArrayFormula

from heldout.tasks.workbooks import Book, CellError, Fault, coordinate, read_area, read_areas, read_book
from heldout.tasks.workbooks import packages as limits
from heldout.testing.workbook_bytes import packed, workbook_bytes

SHEET = "xl/worksheets/sheet1.xml"
PLAIN = workbook_bytes({"Data": [["name", "n"], ["a", 1]]})


def book(data: bytes, name: str = "b.xlsx", **options: Any) -> Book:
    found = read_book(name, data, **options)
    assert isinstance(found, Book), found
    return found


def fault(data: bytes, name: str = "b.xlsx") -> str:
    found = read_book(name, data)
    assert isinstance(found, Fault), found
    assert name in str(found)
    return found.reason


def part(data: bytes, name: str = SHEET) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)


class TestWorkbooks:
    def test_sheets_in_order_with_typed_values_and_formulas_apart(self) -> None:
        day = datetime.datetime(2024, 2, 29)
        data = workbook_bytes({"B": [["x", None, 1.5], [True, day]], "A": [["=SUM(B!C1,2)", ""]]})
        found = book(data)
        assert [sheet.name for sheet in found.sheets] == ["B", "A"]
        first, second = found.sheets
        assert first.cells == {(1, 1): "x", (1, 3): 1.5, (2, 1): True, (2, 2): day}
        assert first.dims == (2, 3)
        assert second.formulas == {(1, 1): "=SUM(B!C1,2)"}
        assert second.cells == {}
        assert found.has_formulas
        assert found.sheet("a") is second
        assert found.sheet("C") is None

    def test_an_error_that_a_cell_holds_is_an_error_and_the_same_text_is_text(self) -> None:
        made = openpyxl.Workbook()
        made.active["A1"] = "#N/A"
        made.active["A2"] = "#N/A"
        made.active["A2"].data_type = "s"
        buffer = io.BytesIO()
        made.save(buffer)
        assert book(buffer.getvalue()).sheets[0].cells == {(1, 1): CellError("#N/A"), (2, 1): "#N/A"}

    def test_an_array_formula_keeps_its_text_and_its_span(self) -> None:
        made = openpyxl.Workbook()
        made.active["B2"] = ArrayFormula("B2:C3", "=A1:A2*2")
        buffer = io.BytesIO()
        made.save(buffer)
        sheet = book(buffer.getvalue()).sheets[0]
        assert sheet.formulas == {(2, 2): "=A1:A2*2"}
        assert sheet.spans == {(2, 2): (3, 3)}

    def test_stored_values_are_read_only_when_asked_for(self) -> None:
        made = workbook_bytes({"S": [["=1+1"]]})
        data = packed(made, {SHEET: part(made).replace(b"<v />", b"<v>99</v>").replace(b"<v></v>", b"<v>99</v>")})
        assert book(data).stored == {}
        assert book(data, stored=True).stored == {"S": {(1, 1): 99}}

    def test_defined_names_are_kept(self) -> None:
        assert book(workbook_bytes({"S": [[1]]}, names={"Rate": "S!$A$1"})).names == {"rate": "S!$A$1"}

    def test_a_claimed_size_costs_nothing(self) -> None:
        far = part(PLAIN).replace(b'ref="A1:B2"', b'ref="A1:XFD1048576"')
        assert book(packed(PLAIN, {SHEET: far})).sheets[0].dims == (2, 2)


class TestRefusals:
    def test_what_is_no_zip_archive(self) -> None:
        assert "no zip" in fault(b"name,n\n")
        assert "no zip" in fault(b"")
        assert "no zip" in fault(PLAIN[: len(PLAIN) // 2])

    def test_a_zip_archive_that_is_no_workbook(self) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("a.txt", "x")
        assert "does not open" in fault(buffer.getvalue())

    def test_an_encrypted_or_old_workbook(self) -> None:
        assert "encrypted" in fault(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600)

    def test_an_encrypted_part(self) -> None:
        data = bytearray(PLAIN)
        at = data.find(b"PK\x01\x02")
        data[at + 8] |= 1
        assert "is encrypted" in fault(bytes(data))

    def test_a_part_that_unpacks_to_far_more_than_it_is(self) -> None:
        assert "times its size" in fault(packed(PLAIN, {"xl/media/x.bin": b"\0" * (4 << 20)}))

    def test_parts_that_are_too_large_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "LARGEST", 20_000)
        assert "unpacks to more" in fault(packed(PLAIN, {"xl/x.bin": b"ab" * 10_000}))

    def test_too_many_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MOST_PARTS", 20)
        assert "parts" in fault(packed(PLAIN, {f"p/{number}": b"" for number in range(20)}))

    def test_too_many_cells(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MOST_CELLS", 3)
        assert fault(PLAIN, "few.xlsx") == "it has 4 cells; at most 3 are read"

    def test_comments_whose_range_a_library_would_fill_with_cells(self) -> None:
        comments = b'<comments><commentList><comment ref="A1:XFD1048576"><text/></comment></commentList></comments>'
        assert "cells; at most" in fault(packed(PLAIN, {"xl/comments/comment1.xml": comments}))

    def test_one_long_formula_that_many_cells_share(self) -> None:
        """A library writes it out for each of them: minutes and gigabytes for a file of some kilobytes."""
        master = b'<c r="D1"><f t="shared" si="0" ref="D1:D3000">%s</f></c>' % b"+".join([b"A1"] * 1500)
        sharing = b"".join(b'<row r="%d"><c r="D%d"><f t="shared" si="0"/></c></row>' % (n, n) for n in range(9, 3000))
        sheet = (
            part(PLAIN).replace(b"</row>", master + b"</row>", 1).replace(b"</sheetData>", sharing + b"</sheetData>")
        )
        data = packed(PLAIN, {SHEET: sheet})
        assert len(data) < 30_000
        assert "its shared formulas have 13456509 characters written out" in fault(data)

    def test_a_short_formula_that_cells_share_is_read_for_each(self) -> None:
        cells = (
            b'<c r="D1"><f t="shared" si="0" ref="D1:D2">A1&amp;"x"</f></c>',
            b'<c r="D2"><f t="shared" si="0"/></c>',
        )
        rows = part(PLAIN).split(b"</row>")
        sheet = b"</row>".join([rows[0] + cells[0], rows[1] + cells[1], *rows[2:]])
        assert book(packed(PLAIN, {SHEET: sheet})).sheets[0].formulas == {(1, 4): '=A1&"x"', (2, 4): '=A2&"x"'}

    def test_one_long_text_that_many_cells_share(self) -> None:
        """The file holds it once; what is computed from the cells would hold it as often as they are."""
        sheet = b"".join(b'<row r="%d"><c r="A%d" t="s"><v>0</v></c></row>' % (n, n) for n in range(1, 600))
        sheet = re.sub(rb"<sheetData>.*</sheetData>", b"<sheetData>%s</sheetData>" % sheet, part(PLAIN))
        named = part(PLAIN, "[Content_Types].xml").replace(
            b"</Types>",
            b'<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            b'spreadsheetml.sharedStrings+xml"/></Types>',
        )
        text = b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>%s</t></si></sst>'
        changes = {SHEET: sheet, "[Content_Types].xml": named, "xl/sharedStrings.xml": text % (b"ab" * 15_000)}
        assert fault(packed(PLAIN, changes)).endswith("its cells hold 17970000 characters; at most 16777216 are read")

    @pytest.mark.parametrize(
        "more",
        [
            b'<mergeCells count="1"><mergeCell ref="A1:XFD1048576"/></mergeCells>',
            b'<hyperlinks><x:hyperlink xmlns:x="y" ref="&#65;1:XFD1048576" location="S!A1"/></hyperlinks>',
        ],
    )
    def test_ranges_that_a_library_would_fill_with_cells(self, more: bytes) -> None:
        sheet = part(PLAIN).replace(b"</sheetData>", b"</sheetData>" + more)
        assert "cells; at most" in fault(packed(PLAIN, {SHEET: sheet}))

    def test_one_part_that_is_many_sheets(self) -> None:
        book_part = "xl/workbook.xml"
        text = part(PLAIN, book_part)
        at, end = text.index(b"<sheet "), text.index(b"</sheets>")
        twice = text[:end] + text[at:end].replace(b'"Data"', b'"More"') + text[end:]
        assert "same part" in fault(packed(PLAIN, {book_part: twice}))
        relations = "xl/_rels/workbook.xml.rels"
        text = part(PLAIN, relations)
        at = text.index(b"<Relationship ")
        one = text[at : text.index(b"/>", at) + 2].replace(b"rId1", b"rId99")
        assert b"/worksheet" in one
        assert "same part" in fault(packed(PLAIN, {relations: text[:at] + one + text[at:]}))

    def test_a_declaration_in_a_part_of_any_name(self) -> None:
        assert "document type" in fault(packed(PLAIN, {"xl/sheet.dat": b" \n<!DOCTYPE x><x/>"}))

    @pytest.mark.parametrize(
        "head", [b'<!DOCTYPE x [<!ENTITY a "aaaa">]>', b'<!DOCTYPE x SYSTEM "file:///etc/passwd">', b"<!ENTITY a 'b'>"]
    )
    def test_xml_that_declares_a_document_type_or_an_entity(self, head: bytes) -> None:
        assert "document type" in fault(packed(PLAIN, {SHEET: head + part(PLAIN)}))

    def test_xml_in_another_encoding_which_could_hide_a_declaration(self) -> None:
        text = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE x><x/>'
        assert "no UTF-8" in fault(packed(PLAIN, {SHEET: text.encode("utf-16")}))
        assert "no UTF-8" in fault(packed(PLAIN, {SHEET: b'<?xml version="1.0" encoding="cp037"?><x/>'}))

    def test_two_parts_of_one_name(self) -> None:
        buffer = io.BytesIO(PLAIN)
        with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(SHEET, b"<x/>")
        assert "same name" in fault(buffer.getvalue())

    def test_broken_xml(self) -> None:
        assert "no well-formed XML" in fault(packed(PLAIN, {SHEET: b"<worksheet><sheetData>"}))
        odd = part(PLAIN).replace(b'r="B2"', b'r="?"')
        assert "does not open" in fault(packed(PLAIN, {SHEET: odd}))

    def test_another_kind_of_file(self) -> None:
        assert ".xlsx" in fault(b"x", "notes.txt")

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, len(PLAIN) - 1), st.binary(min_size=1, max_size=8))
    def test_damaged_bytes_never_crash(self, at: int, noise: bytes) -> None:
        found = read_book("damaged.xlsx", PLAIN[:at] + noise + PLAIN[at + len(noise) :])
        assert isinstance(found, Book | Fault)


class TestCsv:
    def test_plain_numbers_are_numbers_and_all_else_is_text(self) -> None:
        text = '\ufeffid,n,x\r\n007,1.50,"a, b"\r\n-3,1e3,\r\n"1,5", 2,TRUE\r\n'
        sheet = book(text.encode(), "t.CSV").sheets[0]
        assert sheet.name == ""
        assert sheet.cells == {
            **{(1, 1): "id", (1, 2): "n", (1, 3): "x"},
            **{(2, 1): "007", (2, 2): 1.5, (2, 3): "a, b"},
            **{(3, 1): -3, (3, 2): 1000.0},
            **{(4, 1): "1,5", (4, 2): " 2", (4, 3): "TRUE"},
        }
        assert isinstance(sheet.cells[3, 1], int)

    def test_an_empty_file_is_a_sheet_without_cells(self) -> None:
        assert book(b"", "t.csv").sheets[0].dims == (0, 0)

    def test_what_is_no_utf_8_or_no_csv(self) -> None:
        assert "byte 1" in fault(b"a\xff", "t.csv")
        assert "no CSV" in fault(b'a,"b\n', "t.csv")
        assert "no CSV" in fault(b'"' + b"x" * 200_000 + b'"', "t.csv")

    @given(st.text(alphabet="0123456789+-.eE,", max_size=24))
    def test_a_number_is_never_infinite(self, text: str) -> None:
        for value in book(f"{text}\n".encode(), "t.csv").sheets[0].cells.values():
            assert not isinstance(value, float) or abs(value) != float("inf")


class TestReferences:
    @pytest.mark.parametrize(
        ("text", "sheet", "first", "last"),
        [
            ("A1", None, (1, 1), (1, 1)),
            ("Sheet1!A1:B5", "Sheet1", (1, 1), (5, 2)),
            ("'It''s a sheet'!$C$2:A4", "It's a sheet", (2, 1), (4, 3)),
            ("b:d", None, (1, 2), (1_048_576, 4)),
            ("2:3", None, (2, 1), (3, 16_384)),
            ("AA10", None, (10, 27), (10, 27)),
        ],
    )
    def test_an_area(self, text: str, sheet: str | None, first: tuple[int, int], last: tuple[int, int]) -> None:
        area = read_area(text)
        assert area is not None
        assert (area.sheet, area.first, area.last) == (sheet, first, last)

    @pytest.mark.parametrize("text", ["", "A", "1", "A0", "A1:B", "XFE1", "A1048577", "foo bar", "Sheet1!", "A1:B2:C3"])
    def test_what_is_none(self, text: str) -> None:
        assert read_area(text) is None

    def test_a_list_with_quoted_names_and_published_slips(self) -> None:
        areas = read_areas("'a, b'!A1,C2:D3, 'Sheet 1'!'E5:E6',Sheet2'!F1")
        assert [(area.sheet, str(coordinate(area.first))) for area in areas] == [
            ("a, b", "A1"),
            (None, "C2"),
            ("Sheet 1", "E5"),
            ("Sheet2", "F1"),
        ]

    @pytest.mark.parametrize(("text", "named"), [("A1,what", "'what'"), ("", "no cell"), (" , ", "no cell")])
    def test_an_ill_formed_list_names_the_part(self, text: str, named: str) -> None:
        with pytest.raises(ValueError, match=named):
            read_areas(text)

    def test_coordinates_have_letters(self) -> None:
        assert [coordinate((3, column)) for column in (1, 26, 27, 702, 703)] == ["A3", "Z3", "AA3", "ZZ3", "AAA3"]
