"""The grader of `tables`: what it takes for right, and what broken, cheating and foreign answers get."""

from __future__ import annotations

import base64
import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import openpyxl
import pytest

from heldout.errors import SandboxError
from heldout.records import Task
from heldout.sandbox import make_sandboxes
from heldout.tasks import load_grader
from heldout.tasks.environment import changes_answer
from heldout.worlds.tables import Job, TablesGrader, TablesSource, carried_out, grade, job_of, make_job, program
from heldout.worlds.tables import read_origin as read
from heldout.worlds.tables.grading import REMEMBERED, _remembered
from heldout.worlds.tables.parts import Part


@pytest.fixture(scope="module", autouse=True)
def _sandbox_works() -> None:
    fault = make_sandboxes("bubblewrap").fault()
    if fault is not None:
        pytest.skip(fault)


def found(family: str, wanted: Callable[[Job], bool] = lambda _: True) -> Job:
    made = (make_job(seed=0, family=family, number=number, vocabulary="C") for number in range(60))
    return next(job for job in made if wanted(job))


def reference(job: Job) -> str:
    return job.origin.model_dump_json()


def answer(job: Job, files: Mapping[str, str]) -> str:
    return changes_answer(dict(job.files), files)


def is_workbook(job: Job) -> bool:
    return next(iter(job.files)).endswith(".xlsx")


def edited(job: Job, change: Callable[[Any], None], *, name: str | None = None) -> dict[str, str]:
    """The right files, with a workbook opened, changed and saved by openpyxl."""
    files = carried_out(job)
    name = name or next(name for name in files if name.endswith(".xlsx") and files[name] != job.files.get(name))
    book = openpyxl.load_workbook(io.BytesIO(base64.b64decode(files[name])))
    change(book)
    data = io.BytesIO()
    book.save(data)
    return {**files, name: base64.b64encode(data.getvalue()).decode()}


def nothing(book: Any) -> None:
    """Save it as it is; the bytes are others all the same."""


def rewrite(book: Any) -> None:
    """Other formulas of the same values."""
    for page in book:
        for row in page.iter_rows():
            for cell in row:
                if isinstance(cell.value, str) and cell.value.startswith("=IF("):
                    cell.value = f"=({cell.value[1:]})*1"


class TestRight:
    @pytest.mark.parametrize("family", ["sort", "pivot", "formula"])
    def test_the_same_content_in_other_bytes_is_right(self, family: str) -> None:
        job = found(family, is_workbook)
        files = edited(job, nothing)
        assert files != carried_out(job)
        assert grade(answer(job, files), reference(job)) == 1.0

    def test_another_formula_of_the_same_value_is_right(self) -> None:
        job = found("formula")
        assert grade(answer(job, edited(job, rewrite)), reference(job)) == 1.0

    def test_nothing_is_said_of_a_right_answer(self) -> None:
        job = found("join")
        assert grade.explain(answer(job, carried_out(job)), reference(job)) == ""


class TestWrong:
    def said(self, job: Job, files: Mapping[str, str]) -> str:
        given = answer(job, files)
        assert grade(given, reference(job)) == 0.0
        return grade.explain(given, reference(job))

    def test_an_answer_that_changes_nothing(self) -> None:
        for family in ("sort", "aggregate"):
            job = found(family)
            assert self.said(job, dict(job.files)) != ""

    @pytest.mark.parametrize("text", [None, "", "no json", "[]", '{"a.csv": 3}', "null"])
    def test_no_answer_and_no_set_of_changes(self, text: str | None) -> None:
        assert grade(text, reference(found("sort"))) == 0.0
        assert isinstance(grade.explain(text, reference(found("sort"))), str)

    def test_an_input_that_was_deleted_is_called_so(self) -> None:
        job = found("pivot", lambda job: not job.decoy)
        files = {name: text for name, text in carried_out(job).items() if name not in job.files}
        assert f"the input {next(iter(job.files))} was deleted" in self.said(job, files)

    def test_everything_deleted(self) -> None:
        assert "was deleted" in self.said(found("fill"), {})

    def test_a_workbook_that_does_not_open(self) -> None:
        job = found("sort", is_workbook)
        name = next(iter(job.files))
        for text in ("UEsDBA==", "not base64 at all", ""):
            assert f"{name}: it cannot be read" in self.said(job, {**carried_out(job), name: text})

    def test_a_formula_that_errors_is_a_wrong_value(self) -> None:
        job = found("formula")

        def divide(book: Any) -> None:
            for page in book:
                for row in page.iter_rows():
                    for cell in row:
                        if isinstance(cell.value, str) and cell.value.startswith("=IF("):
                            cell.value = "=A1/0"

        assert "#" in self.said(job, edited(job, divide))

    def test_plain_numbers_where_live_formulas_are_asked_for(self) -> None:
        job = found("formula")

        def freeze(constant: Callable[[float], object]) -> Callable[[Any], None]:
            def change(book: Any) -> None:
                for page in book:
                    for row in page.iter_rows():
                        for cell in row:
                            if isinstance(cell.value, str) and cell.value.startswith("=IF("):
                                cell.value = constant(value_of(cell.value, page))

            return change

        for constant in (lambda value: value, lambda value: f"={value}"):
            assert "holds no formula that reads a cell" in self.said(job, edited(job, freeze(constant)))

    def test_a_summary_that_nobody_asked_for(self) -> None:
        job = found("recode", lambda job: job.summary is None)
        assert "summary.csv, which nobody asked for" in self.said(job, {**carried_out(job), "summary.csv": "a\n"})

    def test_a_summary_that_is_not_there(self) -> None:
        job = found("recode", lambda job: job.summary is not None)
        assert f"there is no file {job.summary}" in self.said(job, carried_out(job, {Part.OUTPUTS}))

    def test_a_decoy_that_was_changed(self) -> None:
        job = found("sort", lambda job: job.decoy and is_workbook(job))
        decoy = list(job.files)[-1]

        def change(book: Any) -> None:
            book.worksheets[0]["B2"] = "changed"

        assert f"{decoy}: " in self.said(job, edited(job, change, name=decoy))

    def test_one_value_that_is_off(self) -> None:
        job = found("aggregate", is_workbook)

        def change(book: Any) -> None:
            page = book.worksheets[-1]
            page.cell(page.max_row, page.max_column).value += 1

        assert self.said(job, edited(job, change))

    def test_a_file_in_a_folder_and_files_beside(self) -> None:
        job = found("top")
        assert "notes/mine.txt" in self.said(job, {**carried_out(job), "notes/mine.txt": "x"})

    def test_numbers_written_as_text(self) -> None:
        job = found("aggregate", is_workbook)

        def change(book: Any) -> None:
            page = book.worksheets[-1]
            cell = page.cell(page.max_row, page.max_column)
            cell.value = str(cell.value)

        assert self.said(job, edited(job, change))


def value_of(formula: str, page: Any) -> float:
    """Of `=IF(D3>=40,D3*3,D3)`."""
    test, product, _ = formula.removeprefix("=IF(").rstrip(")").split(",")
    cell, sign = product.split("*")[0], ">=" if ">=" in test else ">"
    value, limit = float(page[cell].value), float(test.split(sign)[1])
    return value * float(product.split("*")[1]) if value > limit or (sign == ">=" and value == limit) else value


def test_it_is_the_grader_tables_and_can_be_sent_to_a_worker() -> None:
    assert load_grader("tables").function is grade
    assert pickle.loads(pickle.dumps(grade)) == grade == TablesGrader()


def test_only_answers_of_an_ordinary_size_are_remembered() -> None:
    """What a solver leaves behind may be megabytes; a thousand of those would fill this process."""
    job = found("sort")
    assert 2 * len(answer(job, carried_out(job))) < REMEMBERED
    for length, kept in ((REMEMBERED - 5000, 1), (REMEMBERED, 0)):
        before = _remembered.cache_info()
        given = answer(job, {**job.files, "waste.txt": "x" * length})
        assert (len(given) <= REMEMBERED) is (kept == 1)
        assert grade(given, reference(job)) == 0.0
        assert "waste.txt" in grade.explain(given, reference(job))
        after = _remembered.cache_info()
        assert (after.misses - before.misses, after.hits - before.hits) == (kept, kept)


def test_a_sandbox_that_fails_while_formulas_are_computed_is_no_score() -> None:
    job = found("formula")
    with pytest.raises(SandboxError, match="closed for the day"):
        TablesGrader(sandbox="broken_sandboxes:Closed")(answer(job, edited(job, rewrite)), reference(job))


class TestInTheSandbox:
    """Programs run for real, and leave what `carried_out` says."""

    SOURCE = TablesSource(seed=0)

    def runs(self, family: str, wrong: Part | None) -> None:
        item = next(item for item in self.SOURCE.items() if item.family == family and self.has(item.reference, wrong))
        job = job_of(read(item.reference))
        scene = self.SOURCE.environment.scene(Task(id=item.id, input=item.input), seed=0)
        parts = frozenset(part for part in (wrong,) if part is not None)
        with make_sandboxes("bubblewrap").open(scene) as sandbox:
            first = sandbox.run(["python3", "-"], stdin=program(job, parts))
            assert first.exit_code == 0, first.output
            assert 2 <= len(first.output.splitlines()) <= 4
            left = dict(sandbox.snapshot())
            assert left == carried_out(job, parts)
            assert grade(answer(job, left), item.reference) == float(not parts)
            again = sandbox.run(["python3", "-"], stdin=program(job))
            assert again.exit_code == 0, again.output
            assert dict(sandbox.snapshot()) == carried_out(job)
            assert grade(answer(job, sandbox.snapshot()), item.reference) == 1.0

    def has(self, text: str, part: Part | None) -> bool:
        return part is None or part in job_of(read(text)).parts

    def test_a_program_leaves_what_it_would_in_this_process(self) -> None:
        self.runs("join", None)

    def test_a_repair_program_begins_where_the_wrong_one_began(self) -> None:
        self.runs("formula", Part.PRESERVE)

    def test_a_csv_file_that_should_not_be_there_is_gone_after_the_repair(self) -> None:
        self.runs("deduplicate", Part.OUTPUTS)

    def test_an_untidy_task_is_the_same_in_both(self) -> None:
        self.runs("unpivot", Part.VALUES)

    def test_what_makes_the_answers_cannot_be_imported_inside(self) -> None:
        item = self.SOURCE.items()[0]
        scene = self.SOURCE.environment.scene(Task(id=item.id, input=item.input), seed=0)
        code = (
            "import importlib, openpyxl, heldout.worlds.tables.toolbox.books\n"
            "for name in ('generator', 'programs', 'draft', 'grading', 'vocabulary'):\n"
            "    try:\n"
            "        importlib.import_module(f'heldout.worlds.tables.{name}')\n"
            "    except ImportError:\n"
            "        print('no', name)\n"
        )
        with make_sandboxes("bubblewrap").open(scene) as sandbox:
            done = sandbox.run(["python3", "-c", code])
        assert done.output == "no generator\nno programs\nno draft\nno grading\nno vocabulary\n"
