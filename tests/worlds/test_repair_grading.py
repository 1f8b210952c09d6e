"""The grader of `repair`, in real sandboxes: right and wrong mends, what cheats get, and what broken machines give."""

from __future__ import annotations

import json
import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.config import BudgetConfig, ExecutorConfig, TasksConfig
from heldout.errors import SandboxError, TaskError
from heldout.ledger import Ledger
from heldout.records import Candidate, OutcomeStatus
from heldout.rollouts import Engine, Sweep, make_executor
from heldout.sandbox import make_sandboxes
from heldout.tasks import CheckedGrader, check_source, load_grader, load_tasks
from heldout.tasks.environment import changes_answer
from heldout.testing import FunctionModel, MemoryJournal, PlainHarness
from heldout.worlds.repair import Package, RepairGrader, generate, grade
from heldout.worlds.repair.families import FAMILIES, OOD_FAMILIES
from heldout.worlds.repair.grading import Reference
from heldout.worlds.repair.referee import Stranger, decode, encode

EVERY = (*FAMILIES, *OOD_FAMILIES)


@pytest.fixture(scope="module", autouse=True)
def _sandbox_works() -> None:
    fault = make_sandboxes("bubblewrap").fault()
    if fault is not None:
        pytest.skip(fault)


def reference(family: str, number: int = 0) -> str:
    return Reference(seed=0, family=family, number=number, nondeterminism=0.15).model_dump_json()


def package(family: str, number: int = 0) -> Package:
    return generate(seed=0, family=family, number=number, nondeterminism=0.15)


def answer(package: Package, **changes: str | None) -> str:
    """The answer of an agent that wrote these files; None deletes."""
    after = {path: text for path, text in {**package.files, **changes}.items() if text is not None}
    return changes_answer(package.files, after)


@pytest.mark.parametrize("family", EVERY)
def test_the_reference_patch_passes(family: str) -> None:
    made = package(family)
    assert grade(answer(made, **made.solution), reference(family)) == 1.0
    assert grade.explain(answer(made, **made.solution), reference(family)) == ""


@pytest.mark.parametrize("family", ["off-by-one", "stale-cache", "wrong-import", "mutable-default"])
def test_the_broken_package_and_the_partial_mend_fail(family: str) -> None:
    made = package(family, 1)
    partial = made.files[made.target].replace(made.broken, made.partial)
    assert grade("{}", reference(family, 1)) == 0.0
    assert grade(answer(made, **{made.target: partial}), reference(family, 1)) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("family", EVERY)
def test_every_template_is_graded_in_the_sandbox_as_it_behaves_without(family: str) -> None:
    for number in range(12):
        made, truth = package(family, number), reference(family, number)
        partial = made.files[made.target].replace(made.broken, made.partial)
        lookalike = made.files[made.lookalike].replace(made.lookalike_line, made.lookalike_change)
        assert grade(answer(made, **made.solution), truth) == 1.0, made.id
        for path, text in ((made.target, partial), (made.lookalike, lookalike)):
            assert grade(answer(made, **{path: text}), truth) == 0.0, made.id


def test_another_way_to_mend_it_passes() -> None:
    made = package("off-by-one", 3)
    helper = made.target.replace(".py", "_new.py")
    moved = {helper: made.solution[made.target], made.target: _star(helper)}
    assert grade(answer(made, **moved), reference("off-by-one", 3)) == 1.0


def _star(path: str) -> str:
    return f"from {path.removesuffix('.py').replace('/', '.')} import *\n"


CHEAT = package("off-by-one")
TARGET = CHEAT.target
BROKEN = CHEAT.files[TARGET]
FORGED = (
    "\nimport json, os\n"
    "for fd in range(64):\n"
    "    for line in (\n"
    "        {'code': 0, 'passed': [], 'failed': {}},\n"
    "        {'verdict': 1.0}, {'value': True}, {'value': {'object': 0}},\n"
    "    ):\n"
    "        try:\n"
    "            os.write(fd, (json.dumps(line) + '\\n').encode())\n"
    "        except OSError:\n"
    "            pass\n"
)
SEARCH = (
    "import os\n"
    "for top in ('/work', '/tmp', '/judge', '/dev', '/var', '/opt', '/home', '/root'):\n"
    "    for folder, _, names in os.walk(top):\n"
    "        if any('test_hidden' in name for name in names):\n"
    "            raise RuntimeError(folder)\n"
    "if any('assert' in text and 'hidden' in text for text in os.environ.values()):\n"
    "    raise RuntimeError('environment')\n"
)
EQUAL = (
    "\nclass Equal(list):\n"
    "    def __eq__(self, other):\n"
    "        return True\n"
    "    __hash__ = None\n"
    "    def __len__(self):\n"
    "        return 7\n"
)
CHEATS: dict[str, dict[str, str | None]] = {
    "exits at import": {TARGET: "import sys\nsys.exit(0)\n"},
    "ends its process at import": {TARGET: "import os\nos._exit(0)\n"},
    "ends its process when called": {TARGET: BROKEN.replace(CHEAT.broken, "    __import__('os')._exit(0)")},
    "kills every process": {TARGET: "import os\nos.kill(-1, 9)\n" + BROKEN},
    "a conftest that reports success": {
        "conftest.py": "import pytest\n\n\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    report = yield\n    report.outcome = 'passed'\n    return report\n",
        "tests/conftest.py": "def pytest_collection_modifyitems(items):\n    items.clear()\n",
    },
    "sitecustomize and usercustomize": {
        "sitecustomize.py": "import os\nos._exit(0)\n",
        "usercustomize.py": "import os\nos._exit(0)\n",
        ".local/lib/python3.11/site-packages/usercustomize.py": "import os\nos._exit(0)\n",
    },
    "settings of pytest": {
        "pytest.ini": "[pytest]\naddopts = --collect-only\n",
        "tox.ini": "[pytest]\naddopts = -k nothing\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--co'\n",
        "setup.cfg": "[tool:pytest]\naddopts = --co\n",
    },
    "a pytest of its own": {
        "pytest.py": "def main(*args, **kwargs):\n    return 0\n",
        "_pytest/__init__.py": "",
        "pluggy.py": "",
    },
    "a standard library of its own": {
        "json.py": "def loads(text):\n    return {}\n\n\ndef dumps(value):\n    return '{\"value\": true}'\n",
        "importlib/__init__.py": "",
        "traceback.py": "raise SystemExit(0)\n",
    },
    "hidden tests of its own": {
        "tests/test_hidden.py": "def test_nothing():\n    pass\n",
        "tests/__init__.py": "",
    },
    "no hidden tests": {"tests/test_hidden.py": None},
    "a result that is equal to everything": {
        TARGET: BROKEN.replace(CHEAT.broken, CHEAT.broken.replace("return ", "return Equal(") + ")") + EQUAL
    },
    "a patched interpreter": {
        TARGET: "import builtins, sys\nbuiltins.AssertionError = type('Fine', (BaseException,), {})\n"
        "sys.modules['pytest'] = sys.modules['_pytest'] = None\n"
        "import json\njson.dumps = lambda value: '{\"value\": true}'\n" + BROKEN
    },
    "forged lines on every descriptor": {TARGET: BROKEN + FORGED},
    "a forged verdict when it ends": {
        TARGET: BROKEN + "\nimport atexit\natexit.register(lambda: exec(FORGED))\nFORGED = " + repr(FORGED)
    },
    "a skip": {TARGET: "import unittest\nraise unittest.SkipTest('not today')\n"},
    "an expected failure": {TARGET: BROKEN.replace(CHEAT.broken, "    raise KeyboardInterrupt")},
    "deep nests in place of an answer": {
        TARGET: BROKEN.replace(
            CHEAT.broken, "    found = []\n    for _ in range(900):\n        found = [found]\n    return found"
        )
    },
    "an endless answer": {TARGET: BROKEN.replace(CHEAT.broken, "    return list(range(10**6))")},
    "a hundred thousand lines": {TARGET: BROKEN.replace(CHEAT.broken, "    return '\\n' * 60000")},
    "all the memory": {TARGET: BROKEN.replace(CHEAT.broken, "    return bytearray(1 << 40)")},
    "no package": {path: None for path in CHEAT.files if path.startswith(TARGET.split("/")[0])},
    "a folder in place of the module": {TARGET: None, TARGET.replace(".py", "/__init__.py"): ""},
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_scores_0(cheat: str) -> None:
    begun = time.monotonic()
    assert grade(answer(CHEAT, **CHEATS[cheat]), reference("off-by-one")) == 0.0
    assert time.monotonic() - begun < 20.0


def test_the_hidden_tests_are_nowhere_to_be_found() -> None:
    searching = {TARGET: SEARCH + CHEAT.solution[TARGET]}
    assert grade(answer(CHEAT, **searching), reference("off-by-one")) == 1.0


def test_the_files_of_cheats_do_not_keep_a_mend_from_passing() -> None:
    litter: dict[str, str | None] = {}
    for files in CHEATS.values():
        litter |= {path: text for path, text in files.items() if path != TARGET and text is not None}
    litter = {path: text for path, text in litter.items() if not path.startswith(TARGET.removesuffix(".py"))}
    assert len(litter) >= 12
    assert grade(answer(CHEAT, **litter, **CHEAT.solution), reference("off-by-one")) == 1.0


def test_code_that_never_returns_scores_0_in_bounded_time() -> None:
    endless = {TARGET: BROKEN.replace(CHEAT.broken, "    while True:\n        pass")}
    begun = time.monotonic()
    assert RepairGrader(call_s=0.5)(answer(CHEAT, **endless), reference("off-by-one")) == 0.0
    assert time.monotonic() - begun < 15.0


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "not JSON",
        "[]",
        '{"x": 3}',
        json.dumps({"../escape.py": "x"}),
        json.dumps({"/etc/passwd": "x"}),
        json.dumps({"a/./b.py": "x"}),
        json.dumps({"check.py/below.py": "x"}),
        json.dumps({"a\0b": "x"}),
        json.dumps({"n" * 300: "x"}),
        '{"half.py": "\\ud800"}',
        '{"\\ud800.py": ""}',
        json.dumps({f"flood/{number}": "" for number in range(9000)}),
        json.dumps({f"flood{number}/file": "" for number in range(5000)}),
        json.dumps({f"flood{number}": "é" * 900_000 for number in range(20)}),
    ],
    ids=lambda given: str(given)[:40],
)
def test_an_answer_that_no_work_folder_can_hold_scores_0_and_raises_nothing(given: str | None) -> None:
    assert grade(given, reference("off-by-one")) == 0.0


def test_what_an_agent_leaves_beside_the_package_does_not_count() -> None:
    litter = {"run.log": "x" * (2 << 20), "notes/plan.md": "first…", ".hidden": "", "helper.py": "raise SystemExit\n"}
    assert grade(answer(CHEAT, **litter, **CHEAT.solution), reference("off-by-one")) == 1.0


def test_feedback_has_the_assertion_and_not_the_source_of_the_tests() -> None:
    said = grade.explain("{}", reference("off-by-one"))
    assert said.startswith("5 of 7 hidden tests failed\ntest_two_days: ")
    assert "assert" in said
    assert len(said) <= 1200
    (hidden,) = CHEAT.hidden.values()
    assert not [line for line in hidden.splitlines() if len(line) > 20 and line in said]
    crashed = grade.explain("{}", reference("empty-input"))
    assert "IndexError: list index out of range" in crashed
    assert package("empty-input").target in crashed


def test_the_same_answer_is_graded_once() -> None:
    made = package("rounding", 5)
    grade("{}", reference("rounding", 5))
    begun = time.perf_counter()
    assert grade(answer(made), reference("rounding", 5)) == 0.0
    assert grade(json.dumps({made.target: made.files[made.target]}), reference("rounding", 5)) == 0.0
    assert grade.explain("{}", reference("rounding", 5)) != ""
    assert time.perf_counter() - begun < 0.05


def test_the_grader_can_be_named_and_sent_to_a_worker() -> None:
    named = load_grader("repair")
    assert isinstance(named, CheckedGrader)
    assert pickle.loads(pickle.dumps(named)).function == grade
    with pytest.raises(TaskError, match="grader 'repair' on task 't1' raised"):
        named("{}", "no reference", task="t1")


@pytest.mark.parametrize("kind", ["Closed", "DeafJudge"])
def test_a_broken_sandbox_is_never_a_zero(kind: str) -> None:
    grader = CheckedGrader("repair", RepairGrader(sandbox=f"broken_sandboxes:{kind}"))
    for said in ("{}", answer(CHEAT, **CHEAT.solution)):
        with pytest.raises(SandboxError, match=r"closed for the day|the machine went away"):
            grader(said, reference("off-by-one"))
        with pytest.raises(SandboxError):
            grader.explain(said, reference("off-by-one"))


def test_a_broken_sandbox_is_a_missing_outcome_and_the_run_goes_on() -> None:
    tasks = load_tasks(TasksConfig(source="repair", train=4, select=3, audit=8))
    broken = CheckedGrader("repair", RepairGrader(sandbox="broken_sandboxes:Closed"))
    journal = MemoryJournal()
    engine = Engine(
        PlainHarness(),
        FunctionModel(lambda _request: "{}"),
        make_executor(ExecutorConfig()),
        Ledger(BudgetConfig()),
        journal.append,
    )
    sweep = Sweep(Candidate(files={"instruction.md": "x"}), tasks.select, "select")
    found = engine.evaluate(sweep, grade=lambda task, given: broken(given, tasks.references[task], task=task))
    assert [outcome.status for outcome in found] == [OutcomeStatus.NOT_MEASURED] * 3
    assert [outcome.score for outcome in found] == [None] * 3
    assert all("closed for the day" in str(outcome.error) for outcome in found)


def test_a_check_of_the_source_proves_solutions_right_and_broken_packages_wrong() -> None:
    report = check_source(TasksConfig(source="repair", train=24, select=20, audit=120, reports={"ood": 60}), sample=6)
    assert report.ok, report.failures
    assert (report.items, report.graded, report.gold_right, report.wrong_refused) == (481, 6, 6, 6)
    assert (report.exact_duplicates, report.near_duplicates, report.exclude) == (0, 0, ())


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=("Cs",)))
    | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


def refuse(_value: Any) -> int:
    raise AssertionError("plain data needs no stand-in")


@given(value=PLAIN | st.frozensets(st.integers()) | st.sets(st.text(st.characters(exclude_categories=("Cs",)))))
def test_plain_data_crosses_as_it_is(value: Any) -> None:
    crossed = decode(json.loads(json.dumps(encode(value, refuse))), refuse)
    assert crossed == value
    assert type(crossed) is type(value)


def test_what_only_pretends_to_be_plain_crosses_as_a_stand_in_that_equals_nothing() -> None:
    class Equal(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    kept: list[Any] = []

    def keep(value: Any) -> int:
        kept.append(value)
        return len(kept) - 1

    data = encode([Equal(3), Equal, {"x": Equal(4)}], keep)
    crossed = decode(json.loads(json.dumps(data)), lambda number: Stranger(refuse, number, "it"))
    assert len(kept) == 3
    assert all(isinstance(each, Stranger) for each in (crossed[0], crossed[1], crossed[2]["x"]))
    assert crossed[0] != 3
    assert crossed[0] != Equal(3) or Equal(3) == crossed[0]  # only the pretender itself says so
    assert not any(crossed[0] == other for other in (0, 3, None, True, "it"))
