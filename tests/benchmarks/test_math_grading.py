"""Mathematical answers: what a solution answers, what is equal, and answers that attack the grader."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.benchmarks.math_answers import final_answer, plain_number, plain_text, simplified
from heldout.benchmarks.math_grading import MathGrader, grade_math
from heldout.benchmarks.math_workers import MathWorkers
from heldout.errors import SetupError, TaskError
from heldout.tasks import load_grader
from heldout.tasks.graders import CUT


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First \boxed{3}, no: \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}} it is, 7 times", r"\{1, 2\}"),
        (r"\boxed{x = \boxed{5}}", "5"),
        (r"\fbox {4}", "4"),
        (r"\boxed 9", "9"),
        (r"\boxed{3} and then \boxed{4", "3"),
        ("16 - 3 = 13\n#### 1,018", "1,018"),
        (r"The final answer is: $\frac{3}{4}$. I am sure of 2.", r"\frac{3}{4}"),
        (r"So the answer is \(x^2\), I think", "x^2"),
        ("Answer: **18** dollars.", "18"),
        ("The answer is -3.5 degrees.", "-3.5"),
        ("the answer is (B).", "(B)"),
        ("The answer is Evelyn.", "Evelyn"),
        ("The answer is 4. No, the answer is 5.", "5"),
        (r"\frac{1}{2}", r"\frac{1}{2}"),
        ("$18$", "$18$"),
        ("Evelyn", "Evelyn"),
        ("so 3 + 15 = 18 in all", "18"),
        ("She has 3.\nThen 1,200 more", "1200"),
        ("I do not know.", ""),
        ("", ""),
    ],
)
def test_final_answer_by_hand(text: str, answer: str) -> None:
    assert final_answer(text) == answer


def test_what_is_simplified_by_hand() -> None:
    assert simplified(r"$\left( 3, \dfrac{\pi}{2} \right)$.") == r"(3,\frac{\pi}{2})"
    assert simplified(r"11,\! 111") == "11,111"
    assert simplified(r"\$5 \text{ cents}") == "5cents"
    assert [plain_number(text) for text in ("-1,234.50", "4.5e33", r"4.5\times10^{33}", "−7", "+2")] == [
        Decimal("-1234.5"), Decimal("4.5e33"), Decimal("4.5e33"), Decimal(-7), Decimal(2),
    ]  # fmt: skip
    assert [plain_number(text) for text in ("", ".", "1,23", "5%", "x", "1e99999")] == [None] * 6
    assert (plain_text(r"\text{Two  Words}"), plain_text("ab"), plain_text(r"\text{A}")) == ("two words", None, None)


@pytest.mark.parametrize(
    ("given_answer", "gold", "score"),
    [
        (r"\boxed{\frac{1}{2}}", r"\boxed{\frac12}", 1.0),
        (r"\boxed{0.5}", r"\boxed{\frac{1}{2}}", 1.0),
        (r"\boxed{0.51}", r"\boxed{\frac{1}{2}}", 0.0),
        (r"\boxed{(x+1)(x-1)}", r"\boxed{x^2-1}", 1.0),
        (r"\boxed{(x+1)(x-2)}", r"\boxed{x^2-1}", 0.0),
        (r"\boxed{2\sqrt{2}}", r"\boxed{\sqrt{8}}", 1.0),
        (r"\boxed{-1, 2}", r"\boxed{2,-1}", 1.0),
        (r"\boxed{(2,1)}", r"\boxed{(1,2)}", 0.0),
        (r"\boxed{[2,5)}", r"\boxed{\left[2, 5\right)}", 1.0),
        (r"\boxed{(2,5)}", r"\boxed{[2,5)}", 0.0),
        (r"\boxed{\begin{pmatrix} 0.2 \\ -3 \end{pmatrix}}", r"\boxed{\begin{pmatrix} 1/5 \\ -3 \end{pmatrix}}", 1.0),
        (r"\boxed{15}", r"\boxed{15\mbox{ cm}^2}", 1.0),
        (r"\boxed{90}", r"\boxed{90^\circ}", 1.0),
        (r"\boxed{x = 5}", r"\boxed{5}", 1.0),
        (r"\boxed{C}", r"\boxed{\text{(C)}}", 1.0),
        ("The answer is evelyn", r"\boxed{\text{Evelyn}}", 1.0),
        ("The answer is Nevely", r"\boxed{\text{Evelyn}}", 0.0),
        (r"\boxed{4.5 \times 10^{33}}", r"\boxed{4.5e33}", 1.0),
        (r"\boxed{10^{-5}}", r"\boxed{1e-5}", 1.0),
        # GSM8K and AIME take the same grader.
        ("So she makes $18.00 a day.", "16 - 3 = 13\n#### 18", 1.0),
        ("So she makes $18.01 a day.", "16 - 3 = 13\n#### 18", 0.0),
        (r"\boxed{025}", "25", 1.0),
        ("no idea", "25", 0.0),
        ("", "25", 0.0),
    ],
)
def test_equal_answers_score_one_and_others_zero(given_answer: str, gold: str, score: float) -> None:
    assert load_grader("math")(given_answer, gold) == score


def test_faults_and_words() -> None:
    assert grade_math.faults(r"\boxed{5}", "5") == ()
    assert grade_math.faults(r"\boxed{5}" + CUT, "5") == ()
    assert grade_math.faults("so 4" + CUT, "5") == ("stop", "value")
    assert grade_math.faults("I do not know.", "5") == ("no final answer",)
    assert grade_math.explain("so 4", "#### 5") == "the final answer is '4', and '5' is right"
    assert grade_math.explain("so 5", "#### 5") == ""


@settings(deadline=None, max_examples=25)
@given(answer=st.text(max_size=60), reference=st.sampled_from(["7", r"\frac{1}{2}", "#### 18"]))
def test_the_grader_never_raises(answer: str, reference: str) -> None:
    assert load_grader("math")(answer, reference) in (0.0, 1.0)


def test_a_hostile_answer_times_out_and_the_next_grading_works() -> None:
    grader = MathGrader(cpu_s=0.5)
    for power in (r"9^{9^{9^9}}", r"10^{10^{10}}!"):
        assert grader(rf"\boxed{{{power}}}", r"\boxed{\frac{1}{3}}") == 0.0
        assert grader.faults(rf"\boxed{{{power}}}", r"\boxed{\frac{1}{3}}") == ("timed out",)
        assert "could not be compared within 0.5 s" in grader.explain(rf"\boxed{{{power}}}", r"\boxed{\frac{1}{3}}")
        assert grader(r"\boxed{\frac{2}{6}}", r"\boxed{\frac{1}{3}}") == 1.0


@pytest.mark.parametrize(
    ("text", "one_of"),
    [
        (r"\boxed{" + r"\frac{" * 9000 + "1" + "}{2}" * 9000 + "}", ("too long",)),
        (r"\boxed{" * 15_000, ("no final answer",)),
        ("}" * 50_000 + "{" * 50_000, ("no final answer",)),
        ("the answer is " + r"\(" * 50_000, ("value", "timed out")),
        ("answer is" * 15_000 + "\n####" + "7" * 5000, ("too long",)),
        ("9" * 100_000, ("too long",)),
    ],
)
def test_long_hostile_answers_are_told_at_once(text: str, one_of: tuple[str, ...]) -> None:
    begun = time.process_time()
    assert MathGrader(cpu_s=1.0).faults(text, r"\boxed{7}")[0] in one_of
    assert time.process_time() - begun < 3.0


def test_nested_fractions_end_within_the_limit() -> None:
    nested = r"\boxed{" + r"\frac{" * 300 + "1" + "}{2}" * 300 + "}"
    assert MathGrader(cpu_s=1.0)(nested, r"\boxed{\frac{1}{3}}") == 0.0
    assert MathGrader(cpu_s=1.0)(r"\boxed{\frac{2}{6}}", r"\boxed{\frac{1}{3}}") == 1.0


def test_answers_are_never_run_as_python(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    grade_math(rf"\boxed{{__import__('pathlib').Path('{mark}').touch()}}", "7")
    assert not mark.exists()


def test_workers_serve_several_threads() -> None:
    workers = MathWorkers(size=2)
    questions = [(r"\frac{1}{2}", "0.5"), (r"\frac{1}{2}", "0.6"), ("x^2-1", "(x-1)(x+1)"), ("x+1", "x")] * 3
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda pair: workers.compare(*pair, cpu_s=5.0), questions))
    assert found == ["same", "different", "same", "different"] * 3
    workers.close()
    assert workers.compare("1", "1.0", cpu_s=5.0) == "same"
    workers.close()


def interpreter(folder: Path, script: str) -> str:
    """A program in the place of Python, which a worker is started with."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo no such library >&2; exit 1", "could not be started; it said 'no such library'"),
        ("echo ready; read line; exit 1", "ended twice on the right answer '7'"),
        ("echo ready; exec sleep 100", "ended twice on the right answer '7'"),
    ],
)
def test_a_broken_worker_is_an_error_and_not_a_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, script))
    with pytest.raises(TaskError, match=message):
        MathWorkers().compare("7", "x", cpu_s=0.05)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo ready; read line; echo gold; kill -SEGV $$", "crashed"),
        ("echo ready; read line; echo gold; kill -PROF $$", "timed out"),
        ("echo ready; read line; echo gold; exec sleep 100", "timed out"),
        ("echo ready; read line; echo gold; echo nonsense; exec sleep 100", "timed out"),
    ],
)
def test_what_an_answer_does_to_a_worker_is_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, script))
    assert MathWorkers().compare("7", "x", cpu_s=0.05) == found


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(SetupError, match=r"pip install 'heldout\[benchmarks\]'"):
        MathWorkers().compare("7", "x", cpu_s=1.0)


def test_a_forked_process_has_its_own_workers_and_no_worker_outlives_its_process() -> None:
    code = """
import os, pathlib
from heldout.benchmarks.math_workers import math_workers
assert math_workers().compare("1/2", "0.5", cpu_s=5.0) == "same"
child = os.fork()
if child == 0:
    os._exit(0 if math_workers().compare("1/2", "0.6", cpu_s=5.0) == "different" else 1)
assert os.waitpid(child, 0)[1] == 0
assert math_workers().compare("1/3", "2/6", cpu_s=5.0) == "same"
print(pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text())
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    workers = [int(pid) for pid in done.stdout.split()]
    assert workers
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
