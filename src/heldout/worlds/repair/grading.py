"""The grader of the world: hidden tests on what an agent left, out of reach of what it left."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from heldout.errors import SandboxError, TaskError, need
from heldout.records import Record
from heldout.sandbox import Conversation, Limits, Sandboxes, Scene, make_sandboxes
from heldout.sandbox.syntax import syntax_tree
from heldout.tasks.environment import read_changes
from heldout.worlds.repair.generator import generate
from heldout.worlds.repair.package import Package

__all__ = ["Reference", "RepairGrader", "grade", "read_reference"]

_SERVING = Limits(cpu_s=60.0, memory_mb=512, processes=16, file_mb=8, disk_mb=32)
_JUDGING = Limits(cpu_s=60.0, memory_mb=2048, processes=16, file_mb=8, disk_mb=16)
_BEGIN_S, _JUDGE_S, _TOTAL_S = 60.0, 120.0, 60.0
_REPLY_CHARACTERS = 65536
"""Longer than any right answer; pytest compares texts line by line, which must not take long."""
_FILE_CHARACTERS = 1 << 20
_TREE_ENTRIES, _TREE_CHARACTERS = 2000, 4 << 20
"""Files and folders of a work folder that is graded, and all their text: less than what fits where it is served."""
_NEEDED = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
_WITHOUT = ("cacheprovider", "terminal", "junitxml", "pastebin", "doctest", "unittest", "logging", "faulthandler")
_FEEDBACK_CHARACTERS = 1200
_SHOWN = 2
_NOT_BEGUN = (3, 4)
"""Exit codes of pytest for its own errors and for arguments that it does not take."""


class Reference(Record):
    """What a package is generated from; the reference of a task."""

    seed: int
    family: str
    number: int
    nondeterminism: float

    def package(self) -> Package:
        """The package."""
        return generate(seed=self.seed, family=self.family, number=self.number, nondeterminism=self.nondeterminism)


class _Graded(Record):
    score: float
    feedback: str


def read_reference(text: str) -> Reference:
    """The reference that a task carries, from its JSON."""
    return Reference.model_validate_json(text)


@dataclass(frozen=True, slots=True)
class RepairGrader:
    """1 where all hidden tests pass on the work folder with the answer's changes made to it, else 0.

    The changed package runs in one sandbox and the tests in another; see `referee`. An answer that is no set of
    changes scores 0. Whatever the code under test does (it ends its process, runs on, fills the memory) scores 0;
    where a sandbox itself fails, `SandboxError` says that nothing was measured. The same answer is graded once.
    """

    sandbox: str = "bubblewrap"
    call_s: float = 20.0
    """How long one call of a test may take."""

    def __call__(self, answer: str | None, reference: str) -> float:
        """Score of an answer."""
        return self._graded(answer, reference).score

    def explain(self, answer: str | None, reference: str) -> str:
        """What the hidden tests said, without their source; empty for an answer that is right."""
        return self._graded(answer, reference).feedback

    def _graded(self, answer: str | None, reference: str) -> _Graded:
        spec = read_reference(reference)
        tree = _tree(spec.package(), read_changes(answer))
        if tree is None:
            return _Graded(score=0.0, feedback="the answer is no set of changed files, or too many of them")
        return _grade_tree(self, spec, tuple(sorted(tree.items())))


def _tree(package: Package, changes: Mapping[str, str | None]) -> dict[str, str] | None:
    """The work folder as it was left; None for changes that no work folder can hold, and for more than is graded.

    That is the answer's fault: where it surfaced as a sandbox that failed, an agent could let its failures go missing.
    A file of more than a megabyte that was not there before is left out: a log, and no part of a package.
    """
    tree: dict[str, str] = dict(package.files)
    for path, text in changes.items():
        if text is None:
            tree.pop(path, None)
        elif len(text) <= _FILE_CHARACTERS or path in package.files:
            tree[path] = text
    folders = {str(parent) for path in tree for parent in PurePosixPath(path).parents}
    plain = all(_is_plain(path, text) and path not in folders for path, text in tree.items())
    fits = len(tree) + len(folders) <= _TREE_ENTRIES and sum(map(len, tree.values())) <= _TREE_CHARACTERS
    return tree if plain and fits else None


def _is_plain(path: str, text: str) -> bool:
    """Whether a file of a snapshot can have this path and this text."""
    parts = path.split("/")
    try:
        sizes = [len(part.encode()) for part in parts]
        text.encode()
    except UnicodeEncodeError:
        return False
    return len(parts) < 64 and all(0 < size < 256 for size in sizes) and not {".", ".."} & {*parts} and "\0" not in path


@lru_cache(maxsize=4096)
def _grade_tree(grader: RepairGrader, spec: Reference, tree: tuple[tuple[str, str], ...]) -> _Graded:
    package = spec.package()
    sandboxes = make_sandboxes(grader.sandbox)
    verdict = _judged(sandboxes, package, dict(tree), call_s=grader.call_s)
    wanted = {name for text in package.hidden.values() for name in _tests_in(text)}
    passed = set(verdict.passed)
    right = verdict.code == 0 and not verdict.failed and passed == wanted
    return _Graded(score=float(right), feedback="" if right else _feedback(verdict, len(wanted)))


class _Verdict(Record):
    code: int
    """Exit code of pytest."""
    passed: tuple[str, ...]
    failed: Mapping[str, str]


def _tests_in(text: str) -> list[str]:
    return [
        node.name
        for node in syntax_tree(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    ]


def _feedback(verdict: _Verdict, total: int) -> str:
    shown = [f"{name}: {message}" for name, message in list(verdict.failed.items())[:_SHOWN]]
    head = f"{total - len(verdict.passed)} of {total} hidden tests failed"
    return "\n".join((head, *shown))[:_FEEDBACK_CHARACTERS]


def _judged(sandboxes: Sandboxes, package: Package, tree: Mapping[str, str], *, call_s: float) -> _Verdict:
    """Run the hidden tests in one sandbox on the tree in another, and carry what they say to each other."""
    name, library = package.target.split("/")[0], _pytest()
    with ExitStack() as stack:
        scene = Scene(
            files={"pytest.ini": "[pytest]\n", **library.files, **package.hidden},
            mounts=library.mounts,
            limits=_JUDGING,
        )
        judging = stack.enter_context(sandboxes.open(scene))
        judge = judging.talk(_program("judge"))
        serving = stack.enter_context(sandboxes.open(Scene(files=tree, limits=_SERVING)))
        served = _Served(serving.talk(_program("serve")), call_s=call_s)
        task = {"package": name, "tests": sorted(package.hidden), "without": _WITHOUT}
        said = json.loads(judge.ask(json.dumps(task), timeout_s=_JUDGE_S))
        while "ask" in said:
            said = json.loads(judge.ask(served.reply(json.dumps(said["ask"])), timeout_s=_JUDGE_S))
        verdict = _Verdict.model_validate(said)
        if verdict.code in _NOT_BEGUN and not served.asked:
            raise TaskError(f"pytest ended with {verdict.code} before the first test; the grader needs pytest>=8")
        return verdict


class _Served:
    """The code under test, which may do anything. Once it has been heard of, silence is its own fault."""

    def __init__(self, conversation: Conversation, *, call_s: float) -> None:
        self._conversation = conversation
        self._call_s = call_s
        conversation.ask('{"do": "begin"}', timeout_s=_BEGIN_S)
        self._ends = time.monotonic() + _TOTAL_S
        self._dead = ""
        self.asked = 0

    def reply(self, request: str) -> str:
        """Its answer as one line, or a fault in its name."""
        self.asked += 1
        left = min(self._call_s, self._ends - time.monotonic())
        if not self._dead and left <= 0:
            self._dead = f"all calls together took longer than {_TOTAL_S:g} s"
        if not self._dead:
            try:
                line = self._conversation.ask(request, timeout_s=left)
            except SandboxError as fault:
                self._dead = str(fault)
            else:
                if len(line) <= _REPLY_CHARACTERS:
                    return line
                self._dead = "an answer was too long"
        return json.dumps({"fault": ["SystemExit", self._dead, ""]})


def _program(role: str) -> list[str]:
    """Isolated from the working folder, the environment and every installed package."""
    return ["python3", "-I", "-S", "-c", _referee(), role]


@lru_cache(maxsize=1)
def _referee() -> str:
    return files("heldout.worlds.repair").joinpath("referee.py").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Library:
    """What of this machine's packages the judging sandbox shows."""

    mounts: Mapping[str, str]
    files: Mapping[str, str]
    """Modules that are a single file."""


@lru_cache(maxsize=1)
def _pytest() -> _Library:
    """pytest and what it needs."""
    need("pytest", extra="repair")
    origins = {name: Path(spec.origin) for name in _NEEDED if (spec := find_spec(name)) is not None and spec.origin}
    return _Library(
        mounts={str(path.parent): f"/judge/{name}" for name, path in origins.items() if path.name == "__init__.py"},
        files={
            f"single/{name}.py": path.read_text(encoding="utf-8")
            for name, path in origins.items()
            if path.name != "__init__.py"
        },
    )


grade = RepairGrader()
"""The grader `repair`."""
