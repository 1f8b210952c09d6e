"""HumanEval: which program a reply means, the published solutions, and programs that try to pass without solving."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.benchmarks import HumanevalSource
from heldout.benchmarks.humaneval_code import program_of
from heldout.benchmarks.humaneval_grading import HumanevalGrader, HumanevalReference, grade_humaneval
from heldout.errors import SetupError, TaskError
from heldout.tasks import Item
from heldout.tasks.graders import CUT

PROMPT = 'from math import floor\n\n\ndef twice(x):\n    """ Twice x. """\n'
BODY = "    if x:\n        return 2 * x\n    return 0\n"
TEST = "\n\ndef check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
TASK = HumanevalReference(id="T/0", prompt=PROMPT, entry_point="twice", solution=BODY, test=TEST).model_dump_json()
QUICK = HumanevalGrader(call_s=1.0)


def ran(answer: str) -> Any:
    """What the function of an answer makes of 2, 0 and 1, run here: these answers are our own."""
    space: dict[str, Any] = {}
    exec(program_of(PROMPT, answer, entry_point="twice"), space)
    return [space["twice"](value) for value in (2, 0, 1)]


@pytest.mark.parametrize(
    "answer",
    [
        BODY,
        BODY.strip(),
        BODY.replace("    ", "\t"),
        BODY + "\n\nprint(twice(2))\nThat is all.",
        BODY.rstrip() + "\n\nimport this is how it works.",
        "```python\n" + PROMPT + BODY + "```",
        "```python\n" + BODY + "```",
        "```\nif x:\n    return 2 * x\nreturn 0\n```",
        "```\nreturn 2 * x\n```",
        "return 2 * x",
        "return helper(x)\n\n\ndef helper(x):\n    return 2 * x",
        "Sure!\n\n```python\ndef twice(x):\n    return floor(2 * x)\n```\nand then\n```python\nprint(twice(3))\n```",
        "Use it like this:\n```python\nprint(twice(3))\n```\nwith\n```python\ndef twice(x):\n    return 2 * x\n```",
        "```python\nfrom __future__ import annotations\n\n\ndef twice(x: int) -> int:\n    return 2 * x\n```",
        "Here it is:\n\ndef twice(x):\n    return 2 * x\n\nI hope that this helps.",
        "```python\ndef twice(x):\n    return 2 * x\n",
        "~~~py\ndef twice(x):\n    return 2 * x\n~~~",
    ],
)
def test_every_way_to_give_the_function(answer: str) -> None:
    assert ran(answer) == [4, 0, 2]


@pytest.mark.parametrize("answer", ["", "  \n", "```python\n```"])
def test_a_reply_without_code_has_no_program(answer: str) -> None:
    assert program_of(PROMPT, answer, entry_point="twice") == ""


PIECES = ("def twice", "(x):", "```", "\n", "    ", "\t", "return", "x", "import", ":", "~~~", "@", "#", "é", "\r")


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_no_reply_makes_the_reading_of_it_raise(answer: str) -> None:
    assert isinstance(program_of(PROMPT, answer, entry_point="twice"), str)


@pytest.mark.usefixtures("bubblewrap")
def test_a_right_answer_scores_one() -> None:
    assert grade_humaneval(BODY, TASK) == 1.0
    assert (grade_humaneval.faults(BODY, TASK), grade_humaneval.explain(BODY, TASK)) == ((), "")
    assert grade_humaneval.faults(BODY + CUT, TASK) == ()


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize(
    ("body", "fault", "said"),
    [
        ("return 3 * x", "value", "a test refuses it: twice() returned 6"),
        ("return None", "value", "twice() returned None"),
        ("raise ValueError('no')", "raised", "twice() ended with ValueError: no"),
        ("return (", "load", "twice ended with SyntaxError"),
        ("```python\ndef thrice(x):\n    return 3 * x\n```", "value", "twice() returned None"),
        ("I cannot do that, sorry.", "load", "SyntaxError"),
        ("while True: pass", "timed out", "no answer within 1 s"),
        ("import time; time.sleep(1e6)", "timed out", "no answer within 1 s"),
        ("return [0] * 10**10", "raised", "MemoryError"),
        ("return 'a' * 100000", "value", "an answer was too long"),
        ("return 10 ** 5000", "ended", "ended without an answer"),
    ],
)
def test_a_wrong_answer_scores_zero_and_says_why(body: str, fault: str, said: str) -> None:
    assert QUICK(body, TASK) == 0.0
    assert QUICK.faults(body, TASK) == (fault,)
    assert said in QUICK.explain(body, TASK)


EQUAL_TO_ALL = "class Any:\n        __eq__ = lambda self, other: True\n        __hash__ = None\n    return Any()"


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize(
    "body",
    [
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "raise SystemExit(0)",
        'print(\'{"outcome": "passed", "why": ""}\'); return 1',
        'import os; os.write(1, b\'{"outcome": "passed", "why": ""}\\n\'); return 1',
        '[__import__("os").write(n, b\'{"outcome": "passed", "why": ""}\\n\') for n in range(64)]',
        EQUAL_TO_ALL,
        "import builtins; builtins.AssertionError = None; return 1",
        "import os, signal; os.kill(os.getppid(), signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)",
        "import glob; return [open(path).read() for path in glob.glob('/work/*') + glob.glob('/work/*/*')]",
    ],
)
def test_no_answer_passes_by_ending_printing_or_pretending(body: str) -> None:
    assert QUICK(body, TASK) == 0.0


@pytest.mark.usefixtures("bubblewrap")
def test_code_before_the_function_cannot_end_the_tests_either() -> None:
    for first in ("import os\nos._exit(0)\n", "import sys\nsys.exit(0)\n", "raise SystemExit\n"):
        assert QUICK(f"```python\n{first}\n\ndef twice(x):\n    return 2 * x\n```", TASK) == 0.0


@pytest.mark.usefixtures("bubblewrap")
def test_tests_are_out_of_reach_of_the_answer() -> None:
    looks = 'import os; raise ValueError(sorted(os.listdir("/work")))'
    assert QUICK.explain(looks, TASK).endswith("ValueError: ['__pycache__', 'solution.py']")


@pytest.mark.usefixtures("bubblewrap")
def test_tests_that_call_nothing_are_an_error() -> None:
    empty = HumanevalReference.model_validate_json(TASK).model_copy(
        update={"test": "def check(candidate):\n    pass\n"}
    )
    with pytest.raises(TaskError, match="the tests of 'T/0' never call 'twice'"):
        grade_humaneval(BODY, empty.model_dump_json())


@pytest.mark.parametrize(
    ("answer", "faults"),
    [("", ("no code",)), (CUT, ("stop", "no code")), ("a\0b", ("no code",)), ("x" * 200_000, ("no code",))],
)
def test_what_is_no_program_is_told_without_a_sandbox(answer: str, faults: tuple[str, ...]) -> None:
    assert HumanevalGrader(sandbox="none")(answer, TASK) == 0.0
    assert HumanevalGrader(sandbox="none").faults(answer, TASK) == faults


def published(folder: Path) -> tuple[HumanevalSource, dict[str, Item]]:
    source = HumanevalSource(path=str(folder / "humaneval"))
    return source, {item.id: item for item in source.items()}


@pytest.mark.data
@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("number", [0, 10, 32, 33, 38, 50, 162])
def test_published_solutions_pass_and_a_changed_one_fails(shared_data: Path, number: int) -> None:
    source, items = published(shared_data)
    item = items[f"HumanEval/{number}"]
    assert grade_humaneval(source.solution(item), item.reference) == 1.0
    assert grade_humaneval("    return 'not this'", item.reference) == 0.0


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_all_published_solutions_pass(shared_data: Path) -> None:
    source, items = published(shared_data)
    right = [grade_humaneval(source.solution(item), item.reference) for item in items.values()]
    assert (sum(right), len(right)) == (164, 164)
    bodies = [grade_humaneval(source.solution_text(item).strip(), item.reference) for item in items.values()]
    assert sum(bodies) == 164


def test_a_faulty_row_is_named(tmp_path: Path) -> None:
    row = {"task_id": "T/0", "prompt": PROMPT, "entry_point": "twice", "canonical_solution": BODY, "test": TEST}
    file = tmp_path / "HumanEval.jsonl"
    file.write_text(json.dumps(row) + "\n")
    (item,) = HumanevalSource(path=str(tmp_path)).items()
    assert (item.id, item.input, item.reference) == ("T/0", PROMPT, TASK)
    for changes, message in (({"test": ""}, "expected the texts"), ({"entry_point": "x y"}, "does not define 'x y'")):
        file.write_text(json.dumps(row | changes) + "\n")
        with pytest.raises(SetupError, match=rf"row 1 \(line 1\): .*{message}"):
            HumanevalSource(path=str(tmp_path)).items()
