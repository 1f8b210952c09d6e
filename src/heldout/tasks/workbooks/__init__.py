"""Workbooks and CSV files: safe reading, values of formulas, comparison by content and structure."""

from heldout.tasks.workbooks.areas import Area, read_area, read_areas
from heldout.tasks.workbooks.book import Book, CellError, Fault, Sheet, Value, coordinate
from heldout.tasks.workbooks.comparison import Difference, compare, same_value
from heldout.tasks.workbooks.file_sets import FilesGrade, explain, file_bytes, grade_files
from heldout.tasks.workbooks.formulas import computed
from heldout.tasks.workbooks.library import Library, library
from heldout.tasks.workbooks.sheets import is_table, read_book

__all__ = [
    "Area",
    "Book",
    "CellError",
    "Difference",
    "Fault",
    "FilesGrade",
    "Library",
    "Sheet",
    "Value",
    "compare",
    "computed",
    "coordinate",
    "explain",
    "file_bytes",
    "grade_files",
    "is_table",
    "library",
    "read_area",
    "read_areas",
    "read_book",
    "same_value",
]
