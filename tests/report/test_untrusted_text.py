"""What cannot be seen is written out."""

from __future__ import annotations

import pytest

from heldout.report import diff_files, legible, one_line


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain text, été, 日本語, →", "plain text, été, 日本語, →"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("if admin\u202e { \u2066", r"if admin\u202e { \u2066"),
        ("a\x00b\x7f\x9b", r"a\x00b\x7f\x9b"),
        ("tab\tline\nend\r\n", "tab\tline\nend\n"),
        ("over\rwritten", r"over\x0dwritten"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_invisible_characters_are_written_out(text: str, seen: str) -> None:
    assert legible(text) == seen


def test_one_line_has_no_line_ends_and_a_limit() -> None:
    assert one_line("a\nb\t c") == "a b c"
    assert one_line("x" * 300, 10) == "xxxxxxx..."


def test_a_difference_cannot_show_code_in_another_order_than_it_runs() -> None:
    (file,) = diff_files({"hooks.py": "ok = 1\n"}, {"hooks.py": "ok = 1\n# \u202eneht ti nur\n"})
    added = "".join(span.text for line in file.lines if line.kind == "added" for span in line.spans)
    assert added == r"# \u202eneht ti nur"
