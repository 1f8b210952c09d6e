"""The operations of the toolbox, with results computed by hand, and files that are written and read again."""

from __future__ import annotations

import io

import openpyxl
import pytest

from heldout.worlds.tables.toolbox import Formula, MemoryFolder, Table
from heldout.worlds.tables.toolbox import books as b
from heldout.worlds.tables.toolbox import operations as o
from heldout.worlds.tables.toolbox.table import is_gap, number_of, word_of

STOCK = Table(
    ("Code", "Place", "Kind", "Kg"),
    (
        ("c3", "North", "x", 40),
        ("c1", " NORTH ", "y", "25"),
        ("c2", "South", "x", 40),
        ("c4", None, "y", 7),
    ),
)


def codes(table: Table) -> list[object]:
    return list(table.column("Code"))


class TestValues:
    @pytest.mark.parametrize(
        ("value", "clean", "stored"),
        [(5, 5, 5), (" 5 ", 5, None), ("-2.5", -2.5, None), ("5a", None, None), (None, None, None)],
    )
    def test_numbers(self, value: object, clean: object, stored: object) -> None:
        assert number_of(value, clean=True) == clean  # type: ignore[arg-type]
        assert number_of(value, clean=False) == stored  # type: ignore[arg-type]

    def test_words(self) -> None:
        assert word_of(" New  York ", clean=True) == "new york"
        assert word_of(" New ", clean=False) == " New "
        assert word_of(None, clean=True) == ""

    def test_gaps(self) -> None:
        assert is_gap(None, clean=False)
        assert is_gap("  ", clean=True)
        assert not is_gap("  ", clean=False)
        assert not is_gap(0, clean=True)

    def test_formulas_are_the_same_where_their_values_are(self) -> None:
        assert Formula("=A1", 3) == Formula("=B1+1", 3) != Formula("=A1", 4)


class TestRows:
    @pytest.mark.parametrize(
        ("limit", "inclusive", "up", "kept"),
        [
            (25, True, True, ["c3", "c1", "c2"]),
            (25, False, True, ["c3", "c2"]),
            (25, True, False, ["c1", "c4"]),
            (25, False, False, ["c4"]),
        ],
    )
    def test_keep_from(self, limit: int, inclusive: bool, up: bool, kept: list[str]) -> None:
        assert codes(o.keep_from(STOCK, column="Kg", limit=limit, inclusive=inclusive, up=up, clean=True)) == kept

    def test_numbers_that_are_stored_as_text_are_passed_over_as_stored(self) -> None:
        assert codes(o.keep_from(STOCK, column="Kg", limit=0, inclusive=True, up=True, clean=False)) == [
            "c3",
            "c2",
            "c4",
        ]

    def test_largest(self) -> None:
        assert codes(o.largest(STOCK, column="Kg", count=1, ties=True, clean=True)) == ["c3", "c2"]
        assert codes(o.largest(STOCK, column="Kg", count=1, ties=False, clean=True)) == ["c3"]
        assert codes(o.largest(STOCK, column="Kg", count=3, ties=False, clean=True)) == ["c3", "c1", "c2"]

    def test_distinct(self) -> None:
        assert codes(o.distinct(STOCK, column="Place", last=False, clean=True)) == ["c3", "c2", "c4"]
        assert codes(o.distinct(STOCK, column="Place", last=True, clean=True)) == ["c1", "c2", "c4"]
        assert codes(o.distinct(STOCK, column="Place", last=True, clean=False)) == ["c3", "c1", "c2", "c4"]

    def test_sort_by(self) -> None:
        assert codes(o.sort_by(STOCK, column="Kg", descending=True, ties="Code", clean=True)) == [
            "c2",
            "c3",
            "c1",
            "c4",
        ]
        assert codes(o.sort_by(STOCK, column="Kg", descending=False, ties=None, clean=True)) == ["c4", "c1", "c3", "c2"]
        assert codes(o.sort_by(STOCK, column="Kg", descending=False, clean=False))[-1] == "c1"

    def test_differing(self) -> None:
        told = Table(("Code", "Seen"), (("c3", 40), ("c1", 25), ("c2", 41)))
        assert codes(o.differing(STOCK, told, column="Kg", by="Code", missing=True, clean=True)) == ["c2", "c4"]
        assert codes(o.differing(STOCK, told, column="Kg", by="Code", missing=False, clean=True)) == ["c2"]
        assert codes(o.differing(STOCK, told, column="Kg", by="Code", missing=False, clean=False)) == ["c1", "c2"]


class TestColumns:
    def test_fill_gaps(self) -> None:
        holes = Table(("A",), (("p",), (None,), ("  ",), ("q",)))
        assert o.fill_gaps(holes, column="A", upwards=False, clean=True).column("A") == ["p", "p", "p", "q"]
        assert o.fill_gaps(holes, column="A", upwards=True, clean=True).column("A") == ["p", "q", "q", "q"]
        assert o.fill_gaps(holes, column="A", upwards=False, clean=False).column("A") == ["p", "p", "  ", "q"]
        wide = o.fill_gaps(holes, column="A", upwards=False, clean=True, into="B")
        assert (wide.headers, wide.rows[1]) == (("A", "B"), (None, "p"))

    def test_recode(self) -> None:
        listed = {"North": "N"}
        assert o.recode(STOCK, column="Place", codes=listed, clean=True).column("Place") == ["N", "N", "South", None]
        assert o.recode(STOCK, column="Place", codes=listed, other="-", clean=False).column("Place") == [
            "N",
            "-",
            "-",
            "-",
        ]

    def test_split_last(self) -> None:
        names = Table(("Who", "Age"), (("Ana de Souza", 1), (" Bo Li ", 2), ("Cher", 3)))
        at_last = o.split_last(names, column="Who", into="Rest", last=True, clean=True)
        assert at_last.headers == ("Who", "Rest", "Age")
        assert at_last.rows == (("Ana de", "Souza", 1), ("Bo", "Li", 2), (None, "Cher", 3))
        at_first = o.split_last(names, column="Who", into="Rest", last=False, clean=True)
        assert at_first.rows[0] == ("Ana", "de Souza", 1)
        assert o.split_last(names, column="Who", into="Rest", last=True, clean=False).rows[1] == (" Bo Li", None, 2)

    def test_attach(self) -> None:
        zones = Table(("At", "Zone"), (("north", "Z1"), ("SOUTH", "Z2")))
        told = o.attach(STOCK, zones, column="Place", into="Zone", missing="?", clean=True)
        assert (told.headers[-1], told.column("Zone")) == ("Zone", ["Z1", "Z1", "Z2", "?"])
        assert codes(o.attach(STOCK, zones, column="Place", into="Zone", clean=True)) == ["c3", "c1", "c2"]
        assert codes(o.attach(STOCK, zones, column="Place", into="Zone", clean=False)) == []

    def test_add_running_total(self) -> None:
        told = o.add_running_total(STOCK, by="Kind", amount="Kg", into="Sum", inclusive=True, clean=True)
        assert told.column("Sum") == [40, 25, 80, 32]
        told = o.add_running_total(STOCK, by="Kind", amount="Kg", into="Sum", inclusive=False, clean=False)
        assert told.column("Sum") == [0, 0, 40, 0]

    def test_add_formula(self) -> None:
        plain = STOCK.changed("Kg", [40, 25, 41, 7])
        made = o.add_formula(plain, column="Kg", limit=40, factor=3, inclusive=True, into="F").column("F")
        assert made == [Formula("", 120), Formula("", 25), Formula("", 123), Formula("", 7)]
        assert [cell.text for cell in made if isinstance(cell, Formula)][1] == "=IF(D3>=40,D3*3,D3)"
        made = o.add_formula(plain, column="Kg", limit=40, factor=3, inclusive=False, into="F", slip=2).column("F")
        assert made == [Formula("", 40), Formula("", 25), Formula("", 25), Formula("", 7)]


class TestShapes:
    def test_total_by(self) -> None:
        sums = o.total_by(STOCK, by="Kind", amount="Kg", clean=True)
        assert (sums.headers, sums.rows) == (("Kind", "Kg"), (("x", 80), ("y", 32)))
        assert o.total_by(STOCK, by="Place", amount="Kg", blank="none", clean=False).rows == (
            ("North", 40),
            (" NORTH ", 0),
            ("South", 40),
            ("none", 7),
        )
        assert len(o.total_by(STOCK, by="Place", amount="Kg", clean=True).rows) == 3

    def test_total_grid(self) -> None:
        table = Table(("P", "K", "Kg"), (("a", "x", 1), ("b", "y", "2"), ("a", "x", 3)))
        grid = o.total_grid(table, down="P", across="K", amount="Kg", empty=0, clean=True)
        assert (grid.headers, grid.rows) == (("P", "x", "y"), (("a", 4, 0), ("b", 0, 2)))
        assert o.total_grid(table, down="P", across="K", amount="Kg", clean=False).rows == (
            ("a", 4, None),
            ("b", None, 0),
        )

    def test_stack(self) -> None:
        table = Table(("P", "u", "v"), (("a", 1, None), ("b", " 2 ", 3)))
        long = o.stack(table, carry="P", columns=["u", "v"], headers=("K", "N"), gaps=False, clean=True)
        assert (long.headers, long.rows) == (("P", "K", "N"), (("a", "u", 1), ("b", "u", 2), ("b", "v", 3)))
        long = o.stack(table, carry="P", columns=["u", "v"], headers=("K", "N"), gaps=True, clean=False)
        assert long.rows[1:3] == (("a", "v", None), ("b", "u", " 2 "))

    def test_slips_change_one_thing(self) -> None:
        assert codes(o.lose_row(STOCK, row=5)) == ["c3", "c2", "c4"]
        assert o.misread_cell(STOCK, row=4, column=-1).rows[0][-1] == 41
        assert o.misread_cell(STOCK, row=1, column=0).rows[1][0] == "c1e"
        empty = Table(("A",), ())
        assert o.lose_row(empty, row=3) == o.misread_cell(empty, row=3, column=0) == empty

    def test_rename(self) -> None:
        assert o.rename(STOCK, column=-1, to="Tons").headers == ("Code", "Place", "Kind", "Tons")


class TestFiles:
    def test_a_workbook_is_written_and_read_again(self) -> None:
        folder = MemoryFolder({"a.xlsx": b.new_workbook({"One": list(STOCK.lines()), "Two": [("x",), (1,)]})})
        assert b.read(folder, file="a.xlsx", sheet="One") == STOCK
        shorter = STOCK.where(lambda number: number > 1)
        b.write_back(folder, shorter, file="a.xlsx", sheet="One")
        assert b.read(folder, file="a.xlsx", sheet="One") == shorter
        assert b.read(folder, file="a.xlsx", sheet="Two").rows == ((1,),)

    def test_a_new_sheet_begins_where_it_is_told_to(self) -> None:
        folder = MemoryFolder({"a.xlsx": b.new_workbook({"One": list(STOCK.lines())})})
        b.add_sheet(folder, STOCK, file="a.xlsx", sheet="New", cell="C4")
        page = openpyxl.load_workbook(io.BytesIO(folder.read("a.xlsx")))["New"]
        assert (page["C4"].value, page["F5"].value, page["A1"].value) == ("Code", 40, None)

    def test_a_workbook_written_anew_has_lost_the_rest(self) -> None:
        folder = MemoryFolder({"a.xlsx": b.new_workbook({"One": list(STOCK.lines()), "Two": [("x",)]})})
        b.write_anew(folder, STOCK, file="a.xlsx", sheet="One", but="Kind")
        book = openpyxl.load_workbook(io.BytesIO(folder.read("a.xlsx")))
        assert book.sheetnames == ["One"]
        assert b.read(folder, file="a.xlsx", sheet="One").headers == ("Code", "Place", "Kg")

    def test_csv_files_have_numbers_only_where_they_are_written_so(self) -> None:
        folder = MemoryFolder({"a.csv": b"n,t\n12, 12 \n007,\n-1.5,x\n"})
        assert b.read(folder, file="a.csv").rows == ((12, " 12 "), ("007", None), (-1.5, "x"))
        b.write_back(folder, b.read(folder, file="a.csv"), file="a.csv")
        assert folder.read("a.csv") == b"n,t\n12, 12 \n007,\n-1.5,x\n"

    def test_the_same_lines_give_the_same_bytes(self) -> None:
        lines = list(STOCK.lines())
        assert b.new_workbook({"One": lines}) == b.new_workbook({"One": lines})

    def test_a_summary_counts_rows(self) -> None:
        folder = MemoryFolder({})
        b.write_summary(folder, STOCK, file="s.csv", headers=("Item", "Count"))
        assert folder.read("s.csv") == b"Item,Count\nrows,4\n"

    def test_what_a_check_sees(self, capsys: pytest.CaptureFixture[str]) -> None:
        b.tell(MemoryFolder({"a.xlsx": b.new_workbook({"One": [("x",)]}), "b.csv": b""}), STOCK)
        assert capsys.readouterr().out == (
            "files: a.xlsx, b.csv\nsheets of a.xlsx: One\nresult: 4 rows under Code, Place, Kind, Kg\n"
        )
