"""Executors: results, errors, and processes that are killed for real."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from heldout.config import ExecutorConfig
from heldout.errors import HarnessError, ModelError, SandboxError
from heldout.rollouts import Executor, JobTimeout, ProcessExecutor, make_executor


def _double(value: int) -> int:
    return 2 * value


def _refuse(value: int) -> int:
    raise ModelError(f"no answer for {value}")


def _bug(value: int) -> int:
    return value // 0


def _pid() -> tuple[int, int]:
    return os.getpid(), os.getpgid(0)


def _vanish() -> None:
    os._exit(1)


def _hang_with_a_child(note: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(note).write_text(str(child.pid))
    time.sleep(600)


def _leave_a_child(note: str) -> str:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(note).write_text(str(child.pid))
    return "done"


@pytest.fixture(params=["inline", "threads", "process"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    made = make_executor(ExecutorConfig(kind=request.param, workers=3, timeout_s=30))
    yield made
    made.close()
    made.close()


class TestEveryExecutor:
    def test_results_come_back(self, executor: Executor) -> None:
        assert [executor.submit(_double, i).result(timeout=30) for i in range(4)] == [0, 2, 4, 6]

    def test_a_deliberate_error_is_the_futures_exception(self, executor: Executor) -> None:
        with pytest.raises(ModelError, match="no answer for 3"):
            executor.submit(_refuse, 3).result(timeout=30)


class TestProcesses:
    def test_a_job_leads_its_own_process_group(self) -> None:
        executor = ProcessExecutor(1, timeout_s=30)
        pid, group = executor.submit(_pid).result(timeout=30)
        assert pid == group != os.getpgid(0)
        executor.close()

    def test_a_bug_in_a_job_is_told_with_its_traceback(self) -> None:
        executor = ProcessExecutor(1, timeout_s=30)
        with pytest.raises(HarnessError, match="ZeroDivisionError"):
            executor.submit(_bug, 1).result(timeout=30)
        executor.close()

    def test_a_process_that_dies_is_not_an_answer(self) -> None:
        executor = ProcessExecutor(1, timeout_s=30)
        with pytest.raises(SandboxError, match="died without an answer"):
            executor.submit(_vanish).result(timeout=30)
        executor.close()

    def test_the_time_limit_kills_the_whole_group(self, tmp_path: Path) -> None:
        note = tmp_path / "child.pid"
        executor = ProcessExecutor(1, timeout_s=3)
        with pytest.raises(JobTimeout, match="killed after 3 s"):
            executor.submit(_hang_with_a_child, str(note)).result(timeout=30)
        assert _gone(int(note.read_text()))
        executor.close()

    def test_what_a_job_leaves_running_dies_with_it(self, tmp_path: Path) -> None:
        note = tmp_path / "child.pid"
        executor = ProcessExecutor(1, timeout_s=30)
        assert executor.submit(_leave_a_child, str(note)).result(timeout=30) == "done"
        assert _gone(int(note.read_text()))
        executor.close()


def _gone(pid: int) -> bool:
    """Whether a process ended (a zombie has ended too) within five seconds."""
    for _ in range(100):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False
