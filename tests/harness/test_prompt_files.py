"""The candidate folder of the prompt harness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.errors import HarnessError
from heldout.harness import Demonstration, Prompt, check_candidate, read_prompt
from heldout.records import Candidate

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


@given(TEXT.filter(lambda text: text.strip()), st.lists(st.tuples(TEXT, TEXT), max_size=4))
def test_what_is_written_is_read_back(instruction: str, pairs: list[tuple[str, str]]) -> None:
    shown = tuple(Demonstration(input=given_, output=answer) for given_, answer in pairs)
    read = read_prompt(Prompt(instruction, shown).files())
    assert read == Prompt(instruction.strip(), shown)
    assert read.files() == Prompt(instruction, shown).files()


def test_demonstrations_may_be_absent_and_blank_lines_are_skipped() -> None:
    assert read_prompt({"instruction.md": "Go."}) == Prompt("Go.", ())
    lines = '\n{"input": "a", "output": "b"}\n\n'
    assert read_prompt({"instruction.md": "Go.", "demonstrations.jsonl": lines}).demonstrations == (
        Demonstration(input="a", output="b"),
    )


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        '"text"',
        '{"input": "a"}',
        '{"input": "a", "output": 1}',
        '{"input": "a", "output": "b", "note": ""}',
        "[" * 100_000,
    ],
)
def test_a_bad_line_is_named(line: str) -> None:
    text = '{"input": "a", "output": "b"}\n' + line
    candidate = Candidate(files={"instruction.md": "Go.", "demonstrations.jsonl": text})
    with pytest.raises(HarnessError, match=r"demonstrations\.jsonl, line 2: expected"):
        read_prompt(candidate.files)
    assert "line 2" in (check_candidate(candidate) or "")


@pytest.mark.parametrize("files", [{}, {"instruction.md": " \n"}, {"notes.md": "x"}])
def test_a_folder_without_an_instruction_is_refused(files: dict[str, str]) -> None:
    assert "instruction.md" in (check_candidate(Candidate(files=files)) or "")
