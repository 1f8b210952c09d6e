"""SpreadsheetBench in its published layouts, on small tasks written here: reading, beginning, grading, bad input."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmarks import SpreadsheetBenchSource
from heldout.benchmarks.spreadsheet_grading import grade_spreadsheets
from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError
from heldout.records import Task
from heldout.sandbox import make_sandboxes
from heldout.tasks import Item, check_source, load_source, load_tasks, read_items
from heldout.tasks.environment import changes_answer
from heldout.testing.object_graph import reachable_strings
from heldout.testing.workbook_bytes import workbook_bytes

Rows = Sequence[Sequence[Any]]
CANARY = "canary-5f1d"
INPUT: Rows = [["name", "n"], ["a", 1], ["b", 2], ["c", None]]
DOUBLED = [["name", "n", "double"], ["a", 1, 2], ["b", 2, 4]]


def entry(name: str | int, **fields: Any) -> dict[str, Any]:
    made = {
        "id": name,
        "instruction": f"In task {name}, double column B into column C, and leave the rest alone.",
        "spreadsheet_path": f"spreadsheet/{name}",
        "instruction_type": "Cell-Level Manipulation",
        "answer_position": "C2:C3",
    }
    return {key: value for key, value in {**made, **fields}.items() if value is not None}


def answer_rows(factor: int = 1) -> Rows:
    return [["name", "n", "double"], ["a", factor, 2 * factor], ["b", 2 * factor, 4 * factor]]


def case(folder: Path, number: int, name: str, *, verified: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    words = ("init", "golden") if verified else ("input", "answer")
    rows = [["name", "n"], ["a", number], ["b", 2 * number]]
    (folder / f"{number}_{name}_{words[0]}.xlsx").write_bytes(workbook_bytes({"Data": rows}))
    (folder / f"{number}_{name}_{words[1]}.xlsx").write_bytes(workbook_bytes({"Data": answer_rows(number)}))


def write(root: Path, entries: Sequence[Mapping[str, Any]]) -> str:
    root.mkdir(parents=True, exist_ok=True)
    (root / "dataset.json").write_text(json.dumps(entries))
    return str(root)


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Two tasks of the full layout: three cases and one."""
    for number in (1, 2, 3):
        case(tmp_path / "spreadsheet/59196", number, "59196")
    case(tmp_path / "spreadsheet/10-2", 1, "10-2")
    return write(tmp_path, [entry(59196), entry("10-2")])


def items(path: str, **options: Any) -> dict[str, Item]:
    source = SpreadsheetBenchSource(path=path, **options)
    return {item.id: item for item in read_items(source, name="spreadsheetbench")}


def book(rows: Rows, sheet: str = "Data") -> str:
    return base64.b64encode(workbook_bytes({sheet: rows})).decode()


def score(item: Item, files: Mapping[str, str | None]) -> float:
    return grade_spreadsheets(json.dumps(files), item.reference)


def explained(item: Item, files: Mapping[str, str | None]) -> str:
    return grade_spreadsheets.explain(json.dumps(files), item.reference)


class TestReading:
    def test_the_full_layout_gives_tasks_with_the_facts_of_the_published_prompt(self, data: str) -> None:
        found = items(data)
        assert list(found) == ["59196", "10-2"]
        assert found["59196"].input == (
            "In task 59196, double column B into column C, and leave the rest alone.\n\n"
            "The workbook is workbook.xlsx (Cell-Level Manipulation). The answer is expected in C2:C3."
        )
        assert found["59196"].stratum == "Cell-Level Manipulation"

    def test_all_cases_are_named_where_all_are_given(self, data: str) -> None:
        found = items(data, cases="all")
        assert "workbook_1.xlsx, workbook_2.xlsx, workbook_3.xlsx, each alike" in found["59196"].input
        assert "The workbook is workbook.xlsx" in found["10-2"].input

    def test_the_verified_layout_with_its_bare_and_mismatched_names(self, tmp_path: Path) -> None:
        case(tmp_path / "spreadsheet/7", 1, "7", verified=True)
        bare = tmp_path / "spreadsheet/13284"
        case(bare, 1, "13284", verified=True)
        (bare / "1_13284_init.xlsx").rename(bare / "initial.xlsx")
        (bare / "1_13284_golden.xlsx").rename(bare / "golden.xlsx")
        (bare / "prompt.txt").write_text("Double column B into C.\n")
        other = tmp_path / "spreadsheet/42930"
        case(other, 1, "42930", verified=True)
        (other / "1_42930_golden.xlsx").rename(other / "1_43930_golden.xlsx")
        path = write(tmp_path, [entry("7"), entry("13284", instruction=None), entry("42930", spreadsheet_path=None)])
        found = items(path)
        assert found["13284"].input.startswith("Double column B into C.\n\nThe workbook is")
        for item in found.values():
            assert score(item, {"workbook.xlsx": book(DOUBLED)}) == 1.0

    def test_it_is_read_by_its_name_and_its_check_finds_nothing_to_mend(self, data: str) -> None:
        config = TasksConfig(source="spreadsheetbench", path=data, train=1, select=1, audit=1)
        source = load_source(config)
        assert source.grader == "spreadsheetbench"
        for item in source.items():
            answer = source.solution(item)  # type: ignore[attr-defined]
            assert grade_spreadsheets(answer, item.reference) == 1.0
            assert grade_spreadsheets("{}", item.reference) == 0.0
            assert source.solution_text(item) == "C2 = 2\nC3 = 4"  # type: ignore[attr-defined]

    def test_the_check_of_a_source_passes_on_it(self, tmp_path: Path) -> None:
        words = ("add the prices", "mark the late orders", "split the names", "count the visits", "sort by region")
        entries = []
        for number, word in enumerate(words):
            case(tmp_path / f"spreadsheet/{number}", 1, str(number))
            entries.append(entry(number, instruction=f"Please {word} of the list that I pasted: {word * 3}."))
        config = TasksConfig(
            source="spreadsheetbench", path=write(tmp_path, entries), train=2, select=1, audit=1, stratify=False
        )
        report = check_source(config)
        assert report.failures == ()
        assert (report.gold_right, report.wrong_refused) == (5, 5)
        assert load_tasks(config).environment is not None

    def test_a_task_whose_input_is_its_answer_is_named_by_the_check(self, data: str) -> None:
        folder = Path(data) / "spreadsheet/10-2"
        shutil.copy(folder / "1_10-2_answer.xlsx", folder / "1_10-2_input.xlsx")
        report = check_source(TasksConfig(source="spreadsheetbench", path=data, train=1, select=1, audit=1))
        assert any("'10-2'" in fault and "wrong answer" in fault for fault in report.failures)


class TestBadInput:
    def fails(self, path: str, match: str, **options: Any) -> None:
        with pytest.raises(SetupError, match=match):
            items(path, **options)

    def test_the_data_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match=r"set tasks\.path"):
            SpreadsheetBenchSource()
        self.fails(str(tmp_path / "absent"), r"dataset\.json.*tasks\.path")

    def test_a_dataset_that_is_no_list_of_tasks(self, tmp_path: Path) -> None:
        (tmp_path / "dataset.json").write_text("{")
        self.fails(str(tmp_path), "no JSON")
        self.fails(write(tmp_path, []), "list of tasks")
        self.fails(write(tmp_path, [{"instruction": "x"}]), "entry 1.*an id")

    @pytest.mark.parametrize(
        ("fields", "match"),
        [
            ({"answer_position": None}, "'answer_position' must be a text"),
            ({"answer_position": "what"}, "'what' is no reference"),
            ({"instruction": ""}, "'instruction' must be a text"),
            ({"spreadsheet_path": "../x"}, "leads out of the folder"),
            ({"spreadsheet_path": "spreadsheet/none"}, r"no folder .*none"),
        ],
    )
    def test_a_missing_or_ill_formed_field_names_the_task(
        self, data: str, fields: Mapping[str, Any], match: str
    ) -> None:
        write(Path(data), [entry("10-2"), {**entry(59196), **fields}])
        self.fails(data, rf"entry 2 \(task '59196'\): .*{match}")

    def test_a_task_at_fault_can_be_left_out(self, data: str) -> None:
        write(Path(data), [entry("10-2"), entry(59196, answer_position="what")])
        self.fails(data, r'tasks\.options\.exclude=\["59196"\]')
        assert list(items(data, exclude=["59196"])) == ["10-2"]
        self.fails(data, "leaves no task", exclude=["59196", "10-2"])

    def test_missing_workbooks_are_named(self, data: str) -> None:
        folder = Path(data) / "spreadsheet/59196"
        (folder / "2_59196_answer.xlsx").unlink()
        self.fails(data, r"task '59196'.*2_59196_input\.xlsx' has no answer workbook")
        for file in folder.glob("*_input.xlsx"):
            file.unlink()
        self.fails(data, "holds no input workbook")

    def test_two_workbooks_of_one_number_are_named(self, data: str) -> None:
        folder = Path(data) / "spreadsheet/10-2"
        shutil.copy(folder / "1_10-2_input.xlsx", folder / "1_10-2_init.xlsx")
        self.fails(data, "two inputs number 1")

    def test_two_tasks_of_one_id(self, data: str) -> None:
        write(Path(data), [entry("10-2"), entry("10-2")])
        self.fails(data, "two entries have the id '10-2'")

    def test_options_are_checked(self, data: str) -> None:
        with pytest.raises(SetupError, match="cases"):
            SpreadsheetBenchSource(path=data, cases=2)


class TestGrading:
    def test_only_the_cells_of_the_answer_count(self, data: str) -> None:
        item = items(data)["10-2"]
        assert score(item, {"workbook.xlsx": book([["other"], ["z", 9, 2.004], ["y", 9, "4"]])}) == 1.0
        assert score(item, {"workbook.xlsx": book(DOUBLED), "extra.csv": "x"}) == 1.0
        assert score(item, {"workbook.xlsx": book([[], [0, 0, 2], [0, 0, 5]])}) == 0.0

    def test_what_is_wrong_is_told(self, data: str) -> None:
        item = items(data)["10-2"]
        assert explained(item, {"workbook.xlsx": book(DOUBLED)}) == ""
        wrong = book([[], [0, 0, 2], [0, 0, 5]])
        assert explained(item, {"workbook.xlsx": wrong}) == "workbook.xlsx: 'Data'!C3: holds 5, expected 4"
        assert "there is no such sheet" in explained(item, {"workbook.xlsx": book(DOUBLED, sheet="Else")})
        assert "is empty, expected 2" in explained(item, {})

    def test_no_answer_a_deleted_input_and_a_broken_workbook_score_zero_with_words(self, data: str) -> None:
        item = items(data)["10-2"]
        assert grade_spreadsheets(None, item.reference) == 0.0
        assert score(item, {}) == 0.0
        assert score(item, {"workbook.xlsx": None}) == 0.0
        assert explained(item, {"workbook.xlsx": None}) == "workbook.xlsx: the input workbook was deleted"
        for text in ("no base64!", base64.b64encode(b"no zip").decode(), ""):
            assert score(item, {"workbook.xlsx": text}) == 0.0
            assert "cannot be read" in explained(item, {"workbook.xlsx": text})

    def test_quoted_sheets_several_ranges_and_the_first_sheet_of_the_answer(self, tmp_path: Path) -> None:
        folder = tmp_path / "spreadsheet/1"
        folder.mkdir(parents=True)
        sheets: dict[str, Rows] = {"First": [["x", 1]], "It's, two": [["y"], [2.5]]}
        (folder / "1_1_input.xlsx").write_bytes(workbook_bytes({"First": [], "It's, two": []}))
        (folder / "1_1_answer.xlsx").write_bytes(workbook_bytes(sheets))
        path = write(tmp_path, [entry("1", answer_position="A1:B1,'It''s, two'!A1:A2")])
        item = items(path)["1"]

        def given(**changed: Rows) -> Mapping[str, str]:
            made = {"It's, two": sheets["It's, two"], "First": sheets["First"], **changed}
            return {"workbook.xlsx": base64.b64encode(workbook_bytes(made)).decode()}

        assert score(item, given()) == 1.0
        assert score(item, given(First=[["x", 2]])) == 0.0
        assert score(item, given(**{"It's, two": [["y"], [3]]})) == 0.0

    def test_hard_needs_every_case_and_soft_gives_the_share(self, data: str) -> None:
        files: dict[str, str | None] = {f"workbook_{one}.xlsx": book(answer_rows(one)) for one in (1, 2, 3)}
        hard, soft = (items(data, cases="all", rule=rule)["59196"] for rule in ("hard", "soft"))
        assert (score(hard, files), score(soft, files)) == (1.0, 1.0)
        files["workbook_2.xlsx"] = book(answer_rows(1))
        assert (score(hard, files), score(soft, files)) == (0.0, pytest.approx(2 / 3))
        assert explained(soft, files).startswith("workbook_2.xlsx: 'Data'!C2: holds 2, expected 4")

    def test_an_answer_that_changed_or_does_not_open_is_no_score(self, data: str) -> None:
        item = items(data)["10-2"]
        place = Path(data) / "spreadsheet/10-2/1_10-2_answer.xlsx"
        kept = place.read_bytes()
        place.write_bytes(workbook_bytes({"Data": answer_rows(5)}))
        with pytest.raises(TaskError, match="changed since"):
            score(item, {"workbook.xlsx": book(DOUBLED)})
        place.write_bytes(b"broken")
        with pytest.raises(TaskError, match="answer workbook"):
            score(items(data)["10-2"], {"workbook.xlsx": book(DOUBLED)})
        place.write_bytes(kept)
        assert score(item, {"workbook.xlsx": book(DOUBLED)}) == 1.0

    @pytest.mark.usefixtures("bubblewrap")
    def test_formulas_count_by_their_values(self, data: str) -> None:
        item = items(data)["10-2"]
        live = book([["name", "n"], ["a", 1, "=B2*2"], ["b", 2, "=SUM(B3,B3)", "=NOPE()"]])
        assert score(item, {"workbook.xlsx": live}) == 1.0
        error = book([["name", "n"], ["a", 1, "=B2/0"], ["b", 2, 4]])
        assert "holds #DIV/0!, expected 2" in explained(item, {"workbook.xlsx": error})


class TestBeginning:
    def test_the_solver_gets_the_inputs_and_nothing_of_the_answers(self, data: str) -> None:
        folder = Path(data) / "spreadsheet/59196"
        gold = workbook_bytes({"Data": [*answer_rows(1), [CANARY]]})
        (folder / "1_59196_answer.xlsx").write_bytes(gold)
        (folder / "notes.txt").write_text(CANARY)
        environment = SpreadsheetBenchSource(path=data).environment
        scene = environment.scene(Task(id="59196", input="x"), seed=0)
        assert set(scene.files) == {"workbook.xlsx"}
        assert scene.files["workbook.xlsx"] == base64.b64encode((folder / "1_59196_input.xlsx").read_bytes()).decode()
        texts = [*reachable_strings(environment), *reachable_strings(scene)]
        for secret in (CANARY, "answer", base64.b64encode(gold).decode()):
            assert not any(secret in text for text in texts), secret
        assert all(data not in host for host in scene.mounts)

    def test_only_the_cases_that_count_are_given(self, data: str) -> None:
        whole = SpreadsheetBenchSource(path=data, cases="all").environment
        task = Task(id="59196", input="x")
        assert set(whole.scene(task, seed=0).files) == {f"workbook_{number}.xlsx" for number in (1, 2, 3)}
        first = SpreadsheetBenchSource(path=data).environment
        assert set(first.scene(task, seed=0).files) == {"workbook.xlsx"}
        assert whole.fingerprint != first.fingerprint

    def test_the_environment_travels_and_knows_its_tasks(self, data: str) -> None:
        environment = SpreadsheetBenchSource(path=data).environment
        assert pickle.loads(pickle.dumps(environment)) == environment
        with pytest.raises(TaskError, match="'other' is not of"):
            environment.scene(Task(id="other", input="x"), seed=0)
        (Path(data) / "spreadsheet/10-2/1_10-2_input.xlsx").unlink()
        with pytest.raises(TaskError, match="cannot read"):
            environment.scene(Task(id="10-2", input="x"), seed=0)

    def test_its_fingerprint_is_of_the_inputs(self, data: str) -> None:
        before = SpreadsheetBenchSource(path=data).environment.fingerprint
        (Path(data) / "spreadsheet/10-2/1_10-2_input.xlsx").write_bytes(workbook_bytes({"Data": [[1]]}))
        assert SpreadsheetBenchSource(path=data).environment.fingerprint != before

    @pytest.mark.usefixtures("bubblewrap")
    def test_a_program_in_the_sandbox_solves_it_with_openpyxl(self, data: str) -> None:
        item = items(data)["10-2"]
        scene = SpreadsheetBenchSource(path=data).environment.scene(Task(id="10-2", input=item.input), seed=0)
        program = (
            "import openpyxl\nb = openpyxl.load_workbook('workbook.xlsx')\ns = b.active\n"
            "for r in (2, 3):\n    s.cell(r, 3, s.cell(r, 2).value * 2)\nb.save('workbook.xlsx')\n"
        )
        with make_sandboxes("bubblewrap").open(scene) as sandbox:
            seen = sandbox.run(["sh", "-c", f"ls -R /work; cat {data}/spreadsheet/10-2/*; ls {data}"])
            assert seen.output.count("No such file") == 2
            assert "workbook.xlsx" in seen.output
            done = sandbox.run(["python3", "-c", program])
            assert done.exit_code == 0, done.output
            answer = changes_answer(scene.files, sandbox.snapshot())
        assert grade_spreadsheets(answer, item.reference) == 1.0
