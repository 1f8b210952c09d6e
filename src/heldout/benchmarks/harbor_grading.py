"""Grades Harbor tasks: their tests are written beside what the agent left, and run there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from heldout.benchmarks.harbor_folder import HarborReference
from heldout.benchmarks.scenes import Beginning, Tree, applied, sandboxes_for
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
from heldout.errors import SandboxError
from heldout.sandbox import Limits, Sandbox, Scene
from heldout.tasks.environment import changes_answer

__all__ = ["HarborGrader", "grade_harbor", "solution_text", "solved_by"]

TESTS = "/tests"
SOLUTION = "/solution"

_LOGS = "/logs/verifier"
_CONFIG = "pytest.ini"
"""An empty one of ours, so that none is looked for elsewhere."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class HarborGrader:
    """The reward of a task's tests over what the answer left; with pytest files 1 where all of them pass, else 0.

    The tests are mounted read-only where the agent never was, and nothing of its folder is imported by the test runner
    itself. A `test.sh` that needs neither network nor pytest is run as it is, and the reward that it wrote is read when
    everything that it started is dead; it counts only if the script came to its own end. A program of the answer that
    such a script runs could still write the reward in its place, as it could where the task was published. What is
    outside of the work folder (packages, services, /etc) is not part of an answer. A sandbox that fails raises
    `SandboxError`.
    """

    def __call__(self, answer: str | None, reference: str) -> float:
        return _graded(answer, reference)[0]

    def explain(self, answer: str | None, reference: str) -> str:
        """Feedback for train tasks: what failed and with what message, without the tests' source."""
        return _graded(answer, reference)[1]


grade_harbor = HarborGrader()
"""The grader of the source `harbor`."""


@lru_cache(maxsize=512)
def solved_by(reference: str) -> str:
    """The answer that `solution/solve.sh` makes in a sandbox; the empty answer for a task without one, so that a check
    names it."""
    task = HarborReference.model_validate_json(reference)
    tree = _beginning(task).tree()
    if "solve.sh" not in task.solution:
        return changes_answer(tree, tree)
    with hidden_files(task.solution) as folder:
        scene = _scene(task, tree, mounts={str(folder): SOLUTION})
        with sandboxes_for(task.image).open(scene) as box:
            box.run(["bash", f"{SOLUTION}/solve.sh"])
            return changes_answer(tree, box.snapshot())


def solution_text(reference: str) -> str:
    """The files of `solution/`, one after another; nothing is run."""
    return "\n".join(HarborReference.model_validate_json(reference).solution.values())


@lru_cache(maxsize=128)
def _graded(answer: str | None, reference: str) -> tuple[float, str]:
    """Reward and feedback: a pure function, whose tests are paid for once."""
    task = HarborReference.model_validate_json(reference)
    tree = _beginning(task).tree()
    files = applied(tree, answer)
    if files is None:
        return 0.0, "the answer holds what no work folder can"
    with _opened(task, files, gone=tuple(sorted(tree.keys() - files.keys()))) as box:
        if task.script:
            return _by_script(box)
        return _by_pytest(box, nonce=nonce_of(answer or "", reference))


@contextmanager
def _opened(task: HarborReference, files: Tree, *, gone: tuple[str, ...]) -> Iterator[Sandbox]:
    tests = {path: text.replace(_LOGS, f"/tmp{_LOGS}") for path, text in task.tests.items()}
    with hidden_files(tests) as folder, hidden_files({RUNNER: runner_text(), _CONFIG: "[pytest]\n"}) as ours:
        mounts = {str(folder): TESTS, str(ours): HIDDEN, **({} if task.script else pytest_mounts())}
        with sandboxes_for(task.image).open(_scene(task, files, mounts=mounts)) as box:
            if gone and task.image is not None:  # the image's own copy of what was deleted
                box.run(["rm", "-f", "--", *gone])
            yield box


def _by_pytest(box: Sandbox, *, nonce: str) -> tuple[float, str]:
    arguments = ["-c", f"{HIDDEN}/{_CONFIG}", "--rootdir", TESTS, "-p", "no:cacheprovider", TESTS]
    verdict = run_pytest(box, arguments, nonce=nonce)
    if verdict.fault:
        return 0.0, verdict.fault
    failed = [name for name, outcome in verdict.outcomes.items() if outcome not in ("passed", "skipped")]
    if "passed" not in verdict.outcomes.values() and not failed:
        return 0.0, "no test was run to its end"
    return float(not failed), "\n".join(_told(name, verdict) for name in failed[:_SHOWN])


def _told(name: str, verdict: Verdict) -> str:
    message = verdict.messages.get(name, "") or verdict.outcomes[name]
    return f"{name.split('::')[-1]}: {message.strip()[:400]}"


def _by_script(box: Sandbox) -> tuple[float, str]:
    done = box.run(["bash", "-c", f"mkdir -p /tmp{_LOGS} && echo started && exec bash {TESTS}/test.sh"])
    if not done.output.startswith("started"):
        raise SandboxError(f"test.sh could not be started in the sandbox: {done.output.strip()[-300:]!r}")
    tail = done.output.removeprefix("started").strip()[-400:]
    if done.killed or done.exit_code >= 128:
        return 0.0, f"test.sh did not come to its end ({done.killed or f'exit code {done.exit_code}'})"
    reward = _reward(box)
    if reward is None:
        return 0.0, f"test.sh wrote no reward: {tail}"
    return reward, "" if reward == 1.0 else tail


def _reward(box: Sandbox) -> float | None:
    """What `reward.txt`, or `reward.json`, says; None where there is no number from 0 to 1."""
    for name in ("reward.txt", "reward.json"):
        text = box.run(["cat", "--", f"/tmp{_LOGS}/{name}"])
        if text.exit_code == 0:
            return _as_reward(text.output)
    return None


def _as_reward(text: str) -> float | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    value = value.get("reward") if isinstance(value, dict) else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        return None
    return float(value)


def _beginning(task: HarborReference) -> Beginning:
    return Beginning(files=task.files, image=task.image, origin=task.origin)


def _scene(task: HarborReference, files: Tree, *, mounts: dict[str, str]) -> Scene:
    return Scene(
        files=dict(files),
        mounts=mounts,
        env={"TEST_DIR": TESTS},
        image=task.image,
        origin=task.origin,
        limits=Limits(
            wall_s=task.timeout_s,
            cpu_s=task.timeout_s,
            memory_mb=task.memory_mb,
            processes=128,
            disk_mb=512,
            output_bytes=1 << 20,
        ),
    )
