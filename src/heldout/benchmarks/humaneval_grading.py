"""Grades HumanEval answers: the published tests in one sandbox, what was submitted in another."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from heldout.benchmarks.humaneval_code import program_of
from heldout.errors import SandboxError, TaskError
from heldout.records import Record
from heldout.sandbox import Conversation, Limits, Scene, make_sandboxes
from heldout.tasks.graders import CUT

__all__ = ["HumanevalGrader", "HumanevalReference", "grade_humaneval"]

_SERVING = Limits(cpu_s=60.0, memory_mb=1024, processes=16, file_mb=8, disk_mb=16)
_JUDGING = Limits(cpu_s=60.0, memory_mb=1024, processes=16, file_mb=8, disk_mb=16)
_BEGIN_S, _JUDGE_S, _TOTAL_S = 60.0, 120.0, 60.0
_ANSWER_CHARACTERS, _REPLY_CHARACTERS = 100_000, 65_536
_REFEREE = ("heldout.worlds.repair", "referee.py")
_JUDGE = "import runpy, sys; sys.path.append('/work'); runpy.run_path('/work/judge.py', run_name='__main__')"


class HumanevalReference(Record):
    """What grading one problem needs; the reference of an item, as JSON."""

    id: str
    prompt: str
    entry_point: str
    solution: str
    """The published body of the function."""
    test: str


class _Graded(Record):
    fault: str = ""
    """Empty for an answer that is right."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class HumanevalGrader:
    """1 where the published tests pass on the function of the answer, else 0.

    The program that an answer means (`program_of`) runs in one sandbox and the tests in another, which gets plain data
    from it: it cannot reach the tests, end them, or print a verdict. Whatever it does (it ends its process, runs on,
    fills the memory) scores 0; where a sandbox itself fails, `SandboxError` says that nothing was measured. What the
    function does to its arguments is not seen. The same answer is graded once.
    """

    sandbox: str = "bubblewrap"
    call_s: float = 10.0
    """How long one call of the function may take."""

    def __call__(self, answer: str | None, reference: str) -> float:
        """Score of an answer."""
        return float(not self._graded(answer, reference).fault)

    def faults(self, answer: str | None, reference: str) -> tuple[str, ...]:
        """`stop` for an answer that was cut, then one of `no code`, `load` (it cannot be run, or lacks the function),
        `raised`, `value`, `timed out`, `ended`."""
        fault = self._graded(answer, reference).fault
        if not fault:
            return ()
        return ("stop", fault) if (answer or "").endswith(CUT) else (fault,)

    def explain(self, answer: str | None, reference: str) -> str:
        """What the tests said, without their source; empty for an answer that is right."""
        return self._graded(answer, reference).why

    def _graded(self, answer: str | None, reference: str) -> _Graded:
        task = HumanevalReference.model_validate_json(reference)
        text = (answer or "").removesuffix(CUT)
        if len(text) > _ANSWER_CHARACTERS or "\0" in text:
            return _Graded(fault="no code", why="the answer is too long, or no text")
        program = program_of(task.prompt, text, entry_point=task.entry_point)
        if not program.strip():
            return _Graded(fault="no code", why="the answer holds no code")
        return _judged(self, task, program.encode("utf-8", "replace").decode())


grade_humaneval = HumanevalGrader()
"""The grader `humaneval`."""


@lru_cache(maxsize=1024)
def _judged(grader: HumanevalGrader, task: HumanevalReference, program: str) -> _Graded:
    """One grading: the judge asks, and what it asks is passed on."""
    sandboxes = make_sandboxes(grader.sandbox)
    with ExitStack() as stack:
        judging = stack.enter_context(sandboxes.open(Scene(files=_judge_files(), limits=_JUDGING)))
        judge = judging.talk(["python3", "-I", "-S", "-c", _JUDGE])
        serving = stack.enter_context(sandboxes.open(Scene(files={"solution.py": program}, limits=_SERVING)))
        served = _Served(serving.talk(["python3", "-I", "-S", "-c", _text_of(*_REFEREE), "serve"]), grader.call_s)
        told = {"entry_point": task.entry_point, "right": task.prompt + task.solution, "test": task.test}
        said = json.loads(judge.ask(json.dumps(told), timeout_s=_JUDGE_S))
        while "ask" in said:
            said = json.loads(judge.ask(served.reply(json.dumps(said["ask"])), timeout_s=_JUDGE_S))
    if said["outcome"] == "untested":
        raise TaskError(f"the tests of {task.id!r} never call {task.entry_point!r}")
    if said["outcome"] == "passed":
        return _Graded()
    return _Graded(fault=served.fault or said["outcome"], why=said["why"])


class _Served:
    """The code under test, which may do anything. Once it has been heard of, silence is its own fault."""

    def __init__(self, conversation: Conversation, call_s: float) -> None:
        self._conversation = conversation
        self._call_s = call_s
        conversation.ask('{"do": "begin"}', timeout_s=_BEGIN_S)
        self._ends = time.monotonic() + _TOTAL_S
        self._why = ""
        self.fault = ""
        """`timed out` or `ended` once it answers no more."""

    def reply(self, request: str) -> str:
        """Its answer as one line, or a fault in its name."""
        begun = time.monotonic()
        left = min(self._call_s, self._ends - begun)
        if not self.fault and left <= 0:
            self.fault, self._why = "timed out", f"all calls together took longer than {_TOTAL_S:g} s"
        if not self.fault:
            try:
                line = self._conversation.ask(request, timeout_s=left)
            except SandboxError as gone:
                self.fault = "timed out" if time.monotonic() - begun >= left else "ended"
                self._why = str(gone)
            else:
                if len(line) <= _REPLY_CHARACTERS:
                    return line
                self.fault, self._why = "value", "an answer was too long"
        return json.dumps({"fault": ["silence", self._why, ""]})


@lru_cache(maxsize=1)
def _judge_files() -> Mapping[str, str]:
    """The judge and the part of Heldout that it imports."""
    package, name = _REFEREE
    folders = package.split(".")
    parents = {"/".join((*folders[:depth], "__init__.py")): "" for depth in range(1, len(folders) + 1)}
    return {
        **parents,
        "/".join((*folders, name)): _text_of(package, name),
        "judge.py": _text_of("heldout.benchmarks", "humaneval_judge.py"),
    }


def _text_of(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
