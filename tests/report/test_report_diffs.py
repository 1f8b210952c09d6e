"""Differences between folders, line by line and word by word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from heldout.report import FileDiff, LineKind, diff_files


def lines_of(diff: FileDiff, *kinds: LineKind) -> list[str]:
    return ["".join(span.text for span in line.spans) for line in diff.lines if line.kind in kinds]


def test_changed_words_are_marked_and_others_are_not() -> None:
    (diff,) = diff_files({"a.md": "Answer with one word please."}, {"a.md": "Answer with two words please."})
    removed, added = diff.lines
    assert [(span.text, span.changed) for span in removed.spans] == [
        ("Answer with", False), (" one word", True), (" please.", False),
    ]  # fmt: skip
    assert [span.text for span in added.spans if span.changed] == [" two words"]


def test_lines_with_little_in_common_are_not_cut_into_words() -> None:
    (diff,) = diff_files({"a": "alpha beta gamma delta"}, {"a": "one two three four"})
    assert [len(line.spans) for line in diff.lines] == [1, 1]
    assert not any(span.changed for line in diff.lines for span in line.spans)


def test_added_removed_and_equal_files() -> None:
    diffs = diff_files({"gone": "x", "same": "y"}, {"new": "z", "same": "y"})
    assert [(diff.path, diff.status) for diff in diffs] == [("gone", "removed"), ("new", "added")]
    assert diff_files({"same": "y"}, {"same": "y"}) == ()


def test_long_unchanged_stretches_are_counted_not_shown() -> None:
    old = [f"line {number}" for number in range(20)]
    (diff,) = diff_files({"a": "\n".join([*old, "end"])}, {"a": "\n".join([*old, "END"])})
    assert lines_of(diff, LineKind.GAP) == ["18 unchanged lines"]
    assert lines_of(diff, LineKind.SAME) == ["line 18", "line 19"]


def test_a_change_of_line_ends_only_is_told() -> None:
    (diff,) = diff_files({"a": "x\n"}, {"a": "x"})
    assert [line.kind for line in diff.lines] == [LineKind.GAP]


def test_huge_files_are_cut_and_it_is_told() -> None:
    (diff,) = diff_files({"a": ""}, {"a": "x\n" * 1000})
    assert len(diff.lines) == 400
    assert diff.cut == 600


def test_a_line_of_any_length_is_quick() -> None:
    (diff,) = diff_files({"a": "a b " * 50_000}, {"a": "b a " * 50_000})
    assert [len(line.spans) for line in diff.lines] == [1, 1]


_TEXTS = st.lists(st.text(alphabet="ab .<", max_size=12), max_size=12).map("\n".join)


@given(_TEXTS, _TEXTS)
def test_removed_and_shared_lines_are_the_old_file_added_and_shared_the_new(old: str, new: str) -> None:
    for diff in diff_files({"f": old}, {"f": new}):
        if LineKind.GAP in {line.kind for line in diff.lines}:
            continue
        assert lines_of(diff, LineKind.SAME, LineKind.REMOVED) == old.splitlines()
        assert lines_of(diff, LineKind.SAME, LineKind.ADDED) == new.splitlines()
