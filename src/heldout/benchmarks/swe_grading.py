"""Grades SWE-style answers: the hidden tests that failed must pass, and those that passed must pass still."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from types import MappingProxyType

from heldout.benchmarks.scenes import Beginning, Tree, applied, sandboxes_for
from heldout.benchmarks.unified_diff import apply_patch, read_patch
from heldout.benchmarks.verdicts import (
    HIDDEN,
    RUNNER,
    Verdict,
    hidden_files,
    nonce_of,
    pytest_mounts,
    run_pytest,
    runner_text,
)
from heldout.errors import SandboxError, TaskError
from heldout.records import Record
from heldout.sandbox import Limits, Sandbox, Scene
from heldout.tasks.environment import changes_answer

__all__ = ["DEFAULT_COMMAND", "LOGS", "SweGrader", "SweReference", "grade_swe", "solved_by"]

DEFAULT_COMMAND = "pytest"

LOGS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "unittest": re.compile(r"^(?P<name>\S.*?) \.\.\. (?P<status>ok|FAIL|ERROR|skipped|expected failure)\b", re.M),
        "go": re.compile(r"^\s*--- (?P<status>PASS|FAIL|SKIP): (?P<name>\S+)", re.M),
        "cargo": re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<status>ok|FAILED|ignored)\b", re.M),
    }
)
"""Runners other than pytest, by how their logs name a test and its outcome."""

_PASSED = frozenset({"ok", "PASS", "expected failure"})
_STEERS_TESTS = frozenset(
    (
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"),
        *("pyproject.toml", "sitecustomize.py", "usercustomize.py", ".condarc"),
    )
)
"""Where pytest is told which plug-ins to load, among much else that decides no test."""
_INSTALLED = (".egg-info", ".dist-info")
"""Folders that say what is installed, plug-ins of pytest among it."""
_KEPT_WITH_VALUE = ("-W", "-o", "-p", "-k", "-m")
_KEPT_WHOLE = ("--import-mode=", "--ds=", "--asyncio-mode=")
_SHOWN = 3
"""Failures that feedback tells of."""


class SweReference(Record):
    """What grading one instance needs; the reference of an item, as JSON."""

    id: str
    repo: str
    commit: str
    patch: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...] = ()
    image: str | None = None
    folder: str = ""
    """Of the repository: in the image, or on this machine where there is none."""
    command: str = DEFAULT_COMMAND
    runner: str = "pytest"
    shell: str = ""
    timeout_s: float = 1800.0
    memory_mb: int = 8192

    def beginning(self, *, limits: Limits) -> Beginning:
        if self.image is None:
            return Beginning(folder=self.folder, limits=limits)
        return Beginning(image=self.image, origin=self.folder, limits=limits)

    @property
    def limits(self) -> Limits:
        """Of the test run."""
        return Limits(
            wall_s=self.timeout_s,
            cpu_s=self.timeout_s,
            memory_mb=self.memory_mb,
            processes=512,
            disk_mb=2048,
            file_mb=256,
            output_bytes=4 << 20,
        )


@dataclass(frozen=True, slots=True)
class SweGrader:
    """1 where every named test passes over what the answer left, with the test patch put over it.

    The tests and what steers a test run (conftest.py, pytest.ini, pyproject.toml, sitecustomize.py …) are those of the
    base commit and of the test patch, whatever the answer did to them, but for files that the reference patch changes
    too.
    pytest is asked by a runner of ours in the sandbox, whose verdict a printed line, an early exit or a changed pytest
    does not forge; a program made to search its own process for the verdict's mark could. Other runners are read by
    their logs, where the worse of two outcomes counts. A sandbox that fails raises `SandboxError`: not measured.
    """

    def __call__(self, answer: str | None, reference: str) -> float:
        return float(not _faults(answer, reference))

    def explain(self, answer: str | None, reference: str) -> str:
        """Feedback for train tasks: which tests fail and with what message, without their source."""
        return "\n".join(_faults(answer, reference)[:_SHOWN])


grade_swe = SweGrader()
"""The grader of the source `swe`."""


def solved_by(reference: SweReference) -> str:
    """The answer that the reference patch makes; `TaskError` where it does not fit the base commit."""
    tree = reference.beginning(limits=reference.limits).tree()
    return changes_answer(tree, _patched(tree, reference.patch, task=reference.id, what="patch"))


@lru_cache(maxsize=128)
def _faults(answer: str | None, reference: str) -> tuple[str, ...]:
    """Why the answer is not right; empty where it is. A pure function, whose tests are paid for once."""
    task = SweReference.model_validate_json(reference)
    tree = task.beginning(limits=task.limits).tree()
    allowed = _touched(task.patch)
    tests = _touched(task.test_patch)
    files = applied(tree, answer, protected=lambda path: path in tests or (_steers(path) and path not in allowed))
    if files is None:
        return ("the answer holds what no work folder can",)
    with_tests = _patched(tree, task.test_patch, task=task.id, what="test_patch")
    for path in tests:
        files.pop(path, None)
        if path in with_tests:
            files[path] = with_tests[path]
    verdict = _run(task, files, gone=tuple(sorted(tree.keys() - files.keys())), nonce=nonce_of(answer or "", reference))
    if verdict.fault:
        return (verdict.fault,)
    return tuple(_failures(task, verdict))


def _failures(task: SweReference, verdict: Verdict) -> list[str]:
    """One line for each named test that did not pass."""
    lines = []
    for kind, names in (("did not pass", task.fail_to_pass), ("passed before and no longer does", task.pass_to_pass)):
        for name in names:
            outcome = verdict.outcomes.get(name, "was not run")
            if outcome != "passed":
                message = verdict.messages.get(name, "") or outcome
                lines.append(f"{name} {kind}: {message.strip()[:400]}")
    return lines


def _run(task: SweReference, files: Tree, *, gone: tuple[str, ...], nonce: str) -> Verdict:
    with hidden_files({RUNNER: runner_text()}) as folder:
        own = task.image is not None
        mounts = {str(folder): HIDDEN, **({} if own else pytest_mounts())}
        scene = Scene(files=files, image=task.image, mounts=mounts, limits=task.limits)
        if own:
            scene = scene.model_copy(update={"origin": task.folder})
        with sandboxes_for(task.image).open(scene) as box:
            if gone and own:  # the image's own copy of what was deleted
                box.run(["rm", "-f", "--", *gone])
            return _ask(task, box, nonce=nonce)


def _ask(task: SweReference, box: Sandbox, *, nonce: str) -> Verdict:
    tests = sorted(path for path in _touched(task.test_patch))
    if task.runner == "pytest":
        files = sorted({name.split("::")[0] for name in (*task.fail_to_pass, *task.pass_to_pass) if "::" in name})
        return run_pytest(
            box,
            [*_pytest_options(task.command), "--rootdir", "/work", "-p", "no:cacheprovider", *(files or tests)],
            nonce=nonce,
            paths=("/work", "/work/src", "/work/lib"),
            shell=task.shell,
            own=task.image is not None,
        )
    done = box.run(["bash", "-c", f"{task.shell}\n{task.command}"])
    if done.exit_code in (126, 127) and not LOGS[task.runner].search(done.output):
        raise SandboxError(f"task {task.id!r}: its test command could not be started: {done.output.strip()[-300:]!r}")
    if done.killed:
        return Verdict(fault=f"the tests were ended by a limit ({done.killed})")
    return Verdict(read_log(done.output, runner=task.runner))


def read_log(text: str, *, runner: str) -> Mapping[str, str]:
    """Outcome by test name; where a name stands twice, the worse one."""
    outcomes: dict[str, str] = {}
    for found in LOGS[runner].finditer(text):
        outcome = "passed" if found["status"] in _PASSED else "failed"
        if outcomes.get(found["name"]) != "failed":
            outcomes[found["name"]] = outcome
    return outcomes


def _pytest_options(command: str) -> list[str]:
    """Options of the published command that change how tests run; those of its output are our own."""
    words = shlex.split(command)
    start = next((at for at, word in enumerate(words) if word.rsplit("/", 1)[-1] in ("pytest", "py.test")), len(words))
    options = words[start + 1 :]
    kept = [word for word in options if word.startswith(_KEPT_WHOLE)]
    for option, value in pairwise(options):
        if option in _KEPT_WITH_VALUE and value != "no:cacheprovider":
            kept += [option, value]
    return kept


def _touched(patch: str) -> frozenset[str]:
    return frozenset(path for one in read_patch(patch) for path in one.paths)


def _steers(path: str) -> bool:
    place = PurePosixPath(path)
    installed = any(part.endswith(_INSTALLED) for part in place.parts)
    return installed or place.name in _STEERS_TESTS or path.endswith(".pth")


def _patched(tree: Tree, patch: str, *, task: str, what: str) -> dict[str, str]:
    """The tree with a patch of the release; `TaskError` names the task that it does not fit."""
    try:
        changes = apply_patch(tree, patch)
    except ValueError as cause:
        raise TaskError(f"task {task!r}: its {what} does not fit its base commit: {cause}") from cause
    files = {**tree, **{path: text for path, text in changes.items() if text is not None}}
    for path, text in changes.items():
        if text is None:
            files.pop(path, None)
    return files
