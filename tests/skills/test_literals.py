"""Names of train tasks in a module's text: what is collected, and what counts as a hit (invariant 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from skill_parts import workbook

from heldout.config import TasksConfig
from heldout.records import Task
from heldout.sandbox import Scene
from heldout.skills import literals_in, start_guide, train_literals
from heldout.skills.literals import request_literals
from heldout.tasks import load_tasks
from heldout.worlds.tables.catalogue import LITERAL_TRAPS
from heldout.worlds.tables.generator import job_of
from heldout.worlds.tables.job import Origin

BOOK = workbook(
    {"Open orders": [["Orders of May"], [], ["Order no", "Amount €", None, "ab"], [1, "Secret value"]], "S2": []}
)


@dataclass(frozen=True)
class Files:
    files: Mapping[str, str]
    fingerprint: str = "files"

    def scene(self, task: Task, *, seed: int) -> Scene:
        del task, seed
        return Scene(files=self.files, encoded=(".xlsx",))


def test_ids_paths_sheets_and_headers_are_collected_and_values_are_not() -> None:
    files = {"data/book.xlsx": BOOK, "rates.csv": "code;rate\nEUR;1\n", "notes.txt": "Free words."}
    found = train_literals([Task(id="task-7", input=""), Task(id="t9", input="")], Files(files))
    assert found == (
        *(
            "Amount €",
            "Open orders",
            "Order no",
            "book.xlsx",
            "code",
            "data/book.xlsx",
            "notes.txt",
            "rate",
            "rates.csv",
        ),
        "task-7",
    )


def test_a_file_that_does_not_open_gives_its_name_and_tasks_without_folders_their_ids() -> None:
    broken = Files({"broken.xlsx": "AAAA", "torn.xlsx": "no base64!", "odd.csv": "a\0b"})
    assert train_literals([], broken) == ()
    assert set(train_literals([Task(id="t", input="")], broken)) >= {"broken.xlsx", "torn.xlsx", "odd.csv"}
    assert train_literals([Task(id="t-1", input="")], None) == ("t-1",)


def test_hits_of_one_word_are_whole_words_in_the_same_case_of_three_characters_or_more() -> None:
    forbidden = ("Amount", "Order no", "ab", "a.b", "rate")
    assert literals_in('Sum "Amount" by Order no.', forbidden) == ("Amount", "Order no")
    assert literals_in("amount Amounts AmountX _Amount rated", forbidden) == ()
    assert literals_in("axb a.bc ab", forbidden) == ()
    assert literals_in("(a.b)", forbidden) == ("a.b",)
    assert literals_in("The rate", forbidden) == ("rate",)


@pytest.mark.parametrize(
    "hidden",
    [
        *("by order NO.", "Order\nno", "**Order** **no**", "Order_no", "Order\u00a0no", "Order\u200b no", "OrderNo"),
        *("\uff2frder no", "Or\u200bder no"),
    ],
)
def test_a_name_of_several_words_is_a_hit_in_any_case_and_through_line_breaks_emphasis_and_odd_letters(
    hidden: str,
) -> None:
    assert literals_in(f"The key is {hidden}, always.", ("Order no",)) == ("Order no",)


def test_file_names_and_ids_are_hits_in_any_case_and_a_single_word_in_another_case_only_between_quotes() -> None:
    forbidden = ("sales_q3.xlsx", "repair-17", "Region", "Übung")
    assert literals_in("Open Sales-Q3.XLSX of Repair 17.", forbidden) == ("repair-17", "sales_q3.xlsx")
    assert literals_in("Of each region, after an u\u0308bung.", forbidden) == ()
    assert literals_in("Group by `region` and “u\u0308bung”.", forbidden) == ("Region", "Übung")
    assert literals_in("Die U\u0308bung.", forbidden) == ("Übung",)
    assert literals_in("sales in q3 of an xlsx book; order: no key", ("sales_q3.xlsx", "q-3")) == ()


def test_a_module_text_containing_a_train_literal_is_a_hit_and_the_start_guide_never_is() -> None:
    """Invariant 5: what this finds is rejected before it is run."""
    start = "\n".join(start_guide().values())
    forbidden = ("Name", "Inputs", "Region code", "request")
    assert literals_in(start, forbidden, start) == ()
    edited = start + '\n- The key column is "Region code".\n- Name the request.\n'
    assert literals_in(edited, forbidden, start) == ("Region code",)
    assert literals_in(edited, forbidden) == ("Inputs", "Name", "Region code", "request")


def test_what_a_request_names_is_collected_too_since_an_output_lies_in_no_folder() -> None:
    request = (
        "Write `recap.csv`: a line of headers, “Ledger Line,Tallied”, and the 'Net Pay' of Bob's to "
        'out/sums_1.xlsx, as the boss\'s "D9" says, "yes" in 3.5 cases.'
    )
    named = {"recap.csv", "Ledger Line,Tallied", "Ledger Line", "Tallied", "Net Pay", "out/sums_1.xlsx", "D9"}
    assert request_literals(request) == named
    found = train_literals([Task(id="t9", input="Head it “Cleared”; its file is sums.csv.")], None)
    assert found == ("Cleared", "sums.csv")
    edited = "- The result goes under the header “cleared”, in Sums.csv.\n"
    assert literals_in(edited, found, "\n".join(start_guide().values())) == found


def test_every_name_of_a_task_of_the_world_tables_is_a_hit_in_a_guide() -> None:
    """The traps of the catalogue among them: a column, a sheet, and the header of a result."""
    found = load_tasks(TasksConfig(source="tables", train=12, select=2, audit=2))
    literals = train_literals(found.train, found.environment)
    traps = [
        trap.text.format(name=name)
        for task in found.train
        for trap in LITERAL_TRAPS
        if trap.part is not None
        and (name := job_of(Origin.model_validate_json(task.reference)).names.get(trap.part)) is not None
    ]
    assert len(traps) > 12
    assert [text for text in traps if not literals_in(text, literals, "\n".join(start_guide().values()))] == []
