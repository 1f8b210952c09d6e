"""SWE-style instances: reading, grading over what an agent left, and answers that try to cheat."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmarks import SweSource
from heldout.benchmarks.swe_grading import SweReference, grade_swe, read_log
from heldout.config import TasksConfig
from heldout.errors import SandboxError, SetupError, TaskError
from heldout.records import Task, digest_of
from heldout.sandbox import make_sandboxes
from heldout.tasks import Item, divide, load_source, read_items
from heldout.tasks.environment import changes_answer
from heldout.testing.object_graph import reachable_strings

BASE = {
    "calc/__init__.py": "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n",
    "tests/test_calc.py": "from calc import mul\n\n\ndef test_mul():\n    assert mul(2, 3) == 6\n",
    "tests/conftest.py": "import pytest\n",
    "README.md": "# calc\n",
}
PATCH = "\n".join(
    [
        "diff --git a/calc/__init__.py b/calc/__init__.py",
        "--- a/calc/__init__.py",
        "+++ b/calc/__init__.py",
        "@@ -1,3 +1,3 @@",
        " def add(a, b):",
        "-    return a - b",
        "+    return a + b",
        " ",
        "",
    ]
)
TEST_PATCH = "\n".join(
    [
        "diff --git a/tests/test_calc.py b/tests/test_calc.py",
        "--- a/tests/test_calc.py",
        "+++ b/tests/test_calc.py",
        "@@ -1,5 +1,10 @@",
        "-from calc import mul",
        "+import calc",
        "+from calc import add, mul",
        " ",
        " ",
        " def test_mul():",
        "     assert mul(2, 3) == 6",
        "+",
        "+",
        "+def test_add():",
        "+    assert add(2, 3) == 5",
        "",
    ]
)
WRONG = BASE["calc/__init__.py"]
RIGHT = WRONG.replace("a - b", "a + b")


def row(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "instance_id": f"acme__calc-{number}",
        "repo": "acme/calc",
        "base_commit": "a" * 40,
        "problem_statement": f"add(2, 3) is −1 in case {number}.",
        "patch": PATCH,
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": '["tests/test_calc.py::test_add"]',
        "PASS_TO_PASS": ["tests/test_calc.py::test_mul"],
        "environment": "name: testbed\n",
        **changes,
    }


def write(folder: Path, *rows: dict[str, Any], name: str = "instances.jsonl") -> str:
    path = folder / name
    text = json.dumps(list(rows)) if name.endswith(".json") else "".join(json.dumps(one) + "\n" for one in rows)
    path.write_text(text, encoding="utf-8")
    for one in rows:
        for file, content in BASE.items():
            target = folder / "checkouts" / str(one.get("instance_id")) / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
    return str(path)


def source(folder: Path, *rows: dict[str, Any], **options: Any) -> SweSource:
    return SweSource(path=write(folder, *(rows or (row(),))), checkouts=str(folder / "checkouts"), **options)


def reference(folder: Path, **changes: Any) -> str:
    (item,) = source(folder, row(**changes)).items()
    return item.reference


def score(answer: dict[str, str | None], reference: str) -> float:
    return grade_swe(json.dumps(answer), reference)


class TestReading:
    def test_items_have_the_issue_the_repository_as_group_and_all_that_grading_needs(self, tmp_path: Path) -> None:
        (item,) = source(tmp_path).items()
        assert (item.id, item.group, item.family, item.pool) == ("acme__calc-1", "acme/calc", "acme/calc", "")
        assert item.input == "add(2, 3) is −1 in case 1."
        known = SweReference.model_validate_json(item.reference)
        assert known.fail_to_pass == ("tests/test_calc.py::test_add",), "JSON text of a list"
        assert known.pass_to_pass == ("tests/test_calc.py::test_mul",), "and a list"
        assert (known.patch, known.test_patch) == (PATCH, TEST_PATCH)

    @pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
    def test_json_and_json_lines_are_read_alike(self, tmp_path: Path, name: str) -> None:
        path = write(tmp_path, row(1), row(2), name=name)
        ids = [item.id for item in SweSource(path=path, checkouts=str(tmp_path / "checkouts")).items()]
        assert ids == ["acme__calc-1", "acme__calc-2"]

    def test_repositories_stay_together(self, tmp_path: Path) -> None:
        rows = [row(number, repo=f"acme/repo{number % 4}") for number in range(15)]
        for number, one in enumerate(rows):
            one["problem_statement"] = " ".join(digest_of([number, part])[:9] for part in range(9))
        config = TasksConfig(source="swe", split_by="group", train=3, select=3, audit=3)
        roles = divide(source(tmp_path, *rows).items(), config).roles
        groups = [{item.group for item in members} for members in roles.values()]
        assert len(groups) == 3
        assert sum(map(len, groups)) == len(set().union(*groups))

    def test_languages_of_the_ood_pool(self, tmp_path: Path) -> None:
        rows = (row(1, language="Python"), row(2, language="Go"))
        items = source(tmp_path, *rows, ood=["go"]).items()
        assert [(item.stratum, item.pool) for item in items] == [("python", ""), ("go", "ood")]

    @pytest.mark.parametrize(
        ("fields", "options", "image"),
        [
            ({"image_name": "docker.io/swerebenchv2/acme:1"}, {}, "docker.io/swerebenchv2/acme:1"),
            ({"docker_image": "swerebench/acme"}, {"image": "other"}, "swerebench/acme"),
            (
                {},
                {"image": "swebench/sweb.eval.x86_64.{slug}:latest"},
                "swebench/sweb.eval.x86_64.acme_1776_calc-1:latest",
            ),
            ({}, {"image": "local/{id}"}, "local/acme__calc-1"),
        ],
    )
    def test_the_image_is_the_rows_or_the_options(
        self, tmp_path: Path, fields: dict[str, str], options: dict[str, str], image: str
    ) -> None:
        found = SweSource(path=write(tmp_path, row(**fields)), **options)
        beginning = found.environment.by_task["acme__calc-1"]
        assert (beginning.image, beginning.origin) == (image, "/testbed")

    def test_without_an_image_the_message_names_the_row_and_what_to_set(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match=r"row 1 \(line 1\) \(acme__calc-1\).*image_name.*tasks\.options\.image"):
            SweSource(path=write(tmp_path, row())).items()

    def test_without_docker_a_run_is_refused_before_it_begins(self, tmp_path: Path) -> None:
        if make_sandboxes("docker").fault() is None:
            pytest.skip("a Docker engine runs here")
        rows = [row(number, image_name="some/image") for number in range(5)]
        with pytest.raises(SetupError, match=r"acme__calc-0, acme__calc-1, acme__calc-2 and 2 more.*checkouts"):
            SweSource(path=write(tmp_path, *rows)).items()

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"repo": ""}, "'repo' must be a text"),
            ({"problem_statement": None}, "'problem_statement' must be a text, got 'None'"),
            ({"FAIL_TO_PASS": "[1"}, "'FAIL_TO_PASS' is no JSON list"),
            ({"FAIL_TO_PASS": {"a": 1}}, "'FAIL_TO_PASS' must be a list"),
            ({"FAIL_TO_PASS": []}, "FAIL_TO_PASS is empty"),
            ({"PASS_TO_PASS": [3]}, "'PASS_TO_PASS' must be a list"),
            ({"patch": "no patch"}, "'patch' is no patch of text files: it names no file"),
            ({"test_patch": TEST_PATCH.replace("b/tests", "b/../tests")}, r"'test_patch': the path '\.\./tests"),
            ({"install_config": "pytest"}, "install_config must be a table"),
            ({"install_config": {"test_cmd": "bin/test", "log_parser": "sympy"}}, "no known test runner in 'bin/test'"),
        ],
    )
    def test_bad_rows_are_named_with_their_field(self, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(SetupError, match=rf"instances\.jsonl.*row 1.*{words}"):
            source(tmp_path, row(**changes)).items()

    def test_bad_files_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match=r"set tasks\.path"):
            SweSource()
        with pytest.raises(SetupError, match="same instance_id 'acme__calc-1'"):
            source(tmp_path, row(1), row(1)).items()
        with pytest.raises(SetupError, match="leads out of the folder"):
            SweSource(path=write(tmp_path, row(instance_id="../x")), checkouts=str(tmp_path / "checkouts")).items()
        with pytest.raises(SetupError, match="there is no checkout"):
            SweSource(path=write(tmp_path, row(7)), checkouts=str(tmp_path)).items()
        (tmp_path / "bad.json").write_text("{", encoding="utf-8")
        with pytest.raises(SetupError, match=r"bad\.json.*not valid JSON"):
            SweSource(path=str(tmp_path / "bad.json"), image="i").items()
        with pytest.raises(SetupError, match="allowed are image, folder"):
            source(tmp_path, colour="red")

    def test_it_is_a_named_source(self, tmp_path: Path) -> None:
        path = write(tmp_path, row())
        config = TasksConfig(source="swe", path=path, options={"checkouts": str(tmp_path / "checkouts")})
        assert [item.id for item in read_items(load_source(config), name="swe")] == ["acme__calc-1"]


class TestEnvironment:
    def test_a_scene_is_the_checkout_and_nothing_of_the_answer_is_reachable(self, tmp_path: Path) -> None:
        found = source(tmp_path)
        environment = pickle.loads(pickle.dumps(found.environment))
        scene = environment.scene(Task(id="acme__calc-1", input=""), seed=3)
        assert scene.files == BASE
        assert scene.image is None
        assert environment.fingerprint == found.environment.fingerprint
        held = "\n".join((*reachable_strings(environment), scene.model_dump_json()))
        assert "test_add" not in held
        assert "return a + b" not in held
        with pytest.raises(TaskError, match="'other' is not of the source 'swe'"):
            environment.scene(Task(id="other", input=""), seed=0)


@pytest.mark.usefixtures("bubblewrap")
class TestGrading:
    def test_the_reference_patch_passes_and_the_base_fails(self, tmp_path: Path) -> None:
        found = source(tmp_path)
        (item,) = found.items()
        answer = found.solution(item)
        assert json.loads(answer) == {"calc/__init__.py": RIGHT}
        assert grade_swe(answer, item.reference) == 1.0
        assert grade_swe.explain(answer, item.reference) == ""
        assert grade_swe("{}", item.reference) == 0.0

    def test_feedback_names_the_test_and_its_message_and_not_its_source(self, tmp_path: Path) -> None:
        told = grade_swe.explain(None, reference(tmp_path))
        assert told.startswith("tests/test_calc.py::test_add did not pass: assert -1 == 5")
        assert "def test_add" not in told

    def test_a_mend_that_breaks_what_passed_before_is_none(self, tmp_path: Path) -> None:
        text = RIGHT.replace("a * b", "a + b")
        known = reference(tmp_path)
        assert score({"calc/__init__.py": text}, known) == 0.0
        told = grade_swe.explain(json.dumps({"calc/__init__.py": text}), known)
        assert "test_mul passed before and no longer does" in told

    def test_the_tests_are_those_of_the_test_patch_whatever_the_answer_made_of_them(self, tmp_path: Path) -> None:
        known = reference(tmp_path)
        easy = "def test_add():\n    pass\n\n\ndef test_mul():\n    pass\n"
        assert score({"tests/test_calc.py": easy}, known) == 0.0
        assert score({"tests/test_calc.py": None, "calc/__init__.py": RIGHT}, known) == 1.0

    def test_other_files_may_come_and_go(self, tmp_path: Path) -> None:
        helper = {"calc/sums.py": "def total(a, b):\n    return a + b\n", "README.md": None}
        text = WRONG.replace("return a - b", "from calc.sums import total\n\n    return total(a, b)")
        assert score({**helper, "calc/__init__.py": text}, reference(tmp_path)) == 1.0

    def test_a_test_patch_that_does_not_fit_is_a_fault_of_the_task(self, tmp_path: Path) -> None:
        known = reference(
            tmp_path, test_patch=TEST_PATCH.replace("from calc import mul", "from calc import nothing", 1)
        )
        with pytest.raises(TaskError, match=r"'acme__calc-1': its test_patch does not fit.*test_calc\.py"):
            grade_swe("{}", known)


CHEATS = {
    "exit while imported": "import sys\nsys.exit(0)\n",
    "hard exit while imported": "import os\nos._exit(0)\n",
    "hard exit that looks like no Python": "import os\nos._exit(127)\n",
    "says that pytest is missing": "import os\nprint(\"No module named 'pytest'\", flush=True)\nos._exit(1)\n",
    "ends pytest well": "import pytest\npytest.exit('done', returncode=0)\n",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)\n",
    "prints a verdict": 'print("PASSED tests/test_calc.py::test_add", flush=True)\n' + WRONG,
    "skips from within": WRONG.replace("return a - b", "import unittest; raise unittest.SkipTest('no')"),
    "expects to fail": WRONG.replace("return a - b", "import pytest; pytest.xfail('no')"),
    "replaces the report": (
        "import _pytest.runner as r\nold = r.TestReport.from_item_and_call\n"
        "def made(item, call):\n    call.excinfo = None\n    return old(item, call)\n"
        "r.TestReport.from_item_and_call = staticmethod(made)\n" + WRONG
    ),
    "replaces the runner": (
        "import _pytest.python as p\np.Function.runtest = lambda self: None\np.pytest_pyfunc_call = lambda **k: True\n"
        + WRONG
    ),
    "replaces the call": (
        "import pluggy._callers as c\nimport _pytest.runner as r\n"
        "r.call_and_report.__globals__['pytest_runtest_call'] = lambda item: None\n" + WRONG
    ),
    "replaces code": (
        "import _pytest.runner as r\ndef made(item, nextitem):\n    return []\n"
        "r.pytest_runtest_protocol.__code__ = made.__code__\n" + WRONG
    ),
    "plugs itself in": (
        "import gc, pytest\nclass Yes:\n    @pytest.hookimpl(tryfirst=True)\n"
        "    def pytest_pyfunc_call(self):\n        return True\n"
        "config = next(one for one in gc.get_objects() if isinstance(one, pytest.Config))\n"
        "config.pluginmanager.register(Yes())\n" + WRONG
    ),
    "exits at the end": "import atexit, os\natexit.register(os._exit, 0)\n" + WRONG,
    "exits in a test": WRONG.replace("return a - b", "import os; os._exit(0)"),
}


@pytest.mark.usefixtures("bubblewrap")
class TestCheats:
    @pytest.mark.parametrize("text", CHEATS.values(), ids=CHEATS.keys())
    def test_a_module_that_cheats_scores_zero_and_never_goes_missing(self, tmp_path: Path, text: str) -> None:
        assert score({"calc/__init__.py": text}, reference(tmp_path)) == 0.0

    def test_files_that_steer_the_test_run_change_no_verdict(self, tmp_path: Path) -> None:
        hook = "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_pyfunc_call():\n    return True\n"
        files = {
            "conftest.py": hook,
            "calc/conftest.py": hook,
            "tests/conftest.py": "def pytest_collection_modifyitems(items):\n    items.clear()\n",
            "pytest.ini": "[pytest]\naddopts = --collect-only\n",
            "tox.ini": "[pytest]\naddopts = --collect-only\n",
            "sitecustomize.py": "import os; os._exit(0)\n",
            "pytest.py": "def main(*a, **k): return 0\n",
            "_pytest/__init__.py": "",
            "json.py": "import os; os._exit(0)\n",
            "cheat.pth": "import os; os._exit(0)\n",
        }
        known = reference(tmp_path)
        assert score(files, known) == 0.0
        assert score({**files, "calc/__init__.py": RIGHT}, known) == 1.0

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-p evil"\n'),
            ("tests/pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-p evil"\n'),
            ("setup.cfg", "[tool:pytest]\naddopts = -p evil\n"),
            (".pytest.ini", "[pytest]\naddopts = -p evil\n"),
            ("pytest.toml", '[pytest]\naddopts = ["-p", "evil"]\n'),
            (".pytest.toml", '[pytest]\naddopts = ["-p", "evil"]\n'),
        ],
    )
    def test_no_file_plugs_a_module_of_the_answer_into_pytest(self, tmp_path: Path, name: str, text: str) -> None:
        evil = "import pytest\n@pytest.hookimpl(tryfirst=True)\ndef pytest_pyfunc_call():\n    return True\n"
        known = reference(tmp_path)
        assert score({name: text, "evil.py": evil}, known) == 0.0
        assert score({name: text, "evil.py": evil, "calc/__init__.py": RIGHT}, known) == 1.0

    @pytest.mark.parametrize(
        "answer",
        [
            "not JSON",
            "[1]",
            json.dumps({"../../etc/passwd": "x"}),
            json.dumps({"/etc/passwd": "x"}),
            json.dumps({"calc": "a file where a folder is"}),
            json.dumps({"a\u0000b": "x"}),
            '{"x.py": "\\ud800"}',
            json.dumps({"/".join("d" * 50): "x"}),
        ],
    )
    def test_answers_that_no_work_folder_can_hold_score_zero(self, tmp_path: Path, answer: str) -> None:
        """An error of the sandbox would have made them *not measured*."""
        assert grade_swe(answer, reference(tmp_path)) == 0.0

    def test_an_endless_program_is_ended_and_scores_zero(self, tmp_path: Path) -> None:
        (item,) = source(tmp_path, timeout_s=1.0).items()
        answer = changes_answer(BASE, {**BASE, "calc/__init__.py": "while True:\n    pass\n"})
        assert grade_swe(answer, item.reference) == 0.0
        assert "ended by a limit" in grade_swe.explain(answer, item.reference)


class TestOtherRunners:
    def test_logs_are_read_and_the_worse_of_two_outcomes_counts(self) -> None:
        go = "=== RUN TestA\n--- PASS: TestA (0.00s)\n    --- FAIL: TestB/sub (0.00s)\n--- SKIP: TestC (0.00s)\n"
        assert read_log(go, runner="go") == {"TestA": "passed", "TestB/sub": "failed", "TestC": "failed"}
        cargo = "test a::b ... ok\ntest c ... FAILED\ntest d ... ignored\ntest e - should panic ... ok\n"
        assert read_log(cargo, runner="cargo") == {"a::b": "passed", "c": "failed", "d": "failed", "e": "passed"}
        django = "test_a (app.tests.A) ... ok\ntest_b (app.tests.A) ... FAIL\ntest_a (app.tests.A) ... ERROR\n"
        assert read_log(django, runner="unittest") == {
            "test_a (app.tests.A)": "failed",
            "test_b (app.tests.A)": "failed",
        }

    @pytest.mark.usefixtures("bubblewrap")
    def test_a_unittest_suite_runs_by_its_published_command(self, tmp_path: Path) -> None:
        tests = "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n"
        tests += "        self.assertEqual(add(2, 3), 5)\n"
        lines = "".join(f"+{line}\n" for line in tests.splitlines())
        count = len(tests.splitlines())
        patch = f"--- /dev/null\n+++ b/tests/test_unit.py\n@@ -0,0 +1,{count} @@\n{lines}"
        known = reference(
            tmp_path,
            test_patch=patch,
            FAIL_TO_PASS=["test_add (tests.test_unit.T.test_add)"],
            PASS_TO_PASS=[],
            install_config={"test_cmd": "python3 -m unittest -v tests.test_unit"},
        )
        assert score({"calc/__init__.py": RIGHT}, known) == 1.0
        assert score({}, known) == 0.0


@pytest.mark.usefixtures("bubblewrap")
def test_a_sandbox_without_the_test_command_is_no_zero(tmp_path: Path) -> None:
    known = reference(tmp_path, install_config={"test_cmd": "no-such-go test ./..."})
    with pytest.raises(SandboxError, match=r"acme__calc-1.*could not be started"):
        score({"calc/__init__.py": RIGHT}, known)


def test_items_survive_the_checks_of_every_source(tmp_path: Path) -> None:
    items = read_items(source(tmp_path, row(1), row(2)), name="swe")
    assert all(isinstance(item, Item) for item in items)
