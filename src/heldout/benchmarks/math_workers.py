"""Processes that compare answers, and that are killed and replaced where an answer hangs or breaks one."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import IO, Literal

from heldout.errors import TaskError, need

__all__ = ["Compared", "MathWorkers", "math_workers"]

Compared = Literal["same", "different", "timed out", "crashed", "gold"]

_START_S = 120.0
_WALL_PER_CPU = 10.0
"""A question may wait so many times longer than it may compute: the machine may be busy."""
_OVER_TIME = (-signal.SIGPROF, -signal.SIGXCPU)
_TRIES = 2
_CHUNK = 65536
_END_S = 2.0
"""In which a process that says no more has ended, where it is about to."""
_COMPLAINT = 500


@cache
def _workers_of(pid: int) -> MathWorkers:
    del pid  # A forked process must not speak with the workers of its parent.
    return MathWorkers()


def math_workers() -> MathWorkers:
    """The workers of this process."""
    return _workers_of(os.getpid())


class MathWorkers:
    """At most `size` processes at once, started when they are needed. May be used from several threads.

    What an answer does to a worker is the answer's: beyond `cpu_s` it has `timed out`, and one that has ended two
    workers in other ways, a fresh one among them, has `crashed` them. `TaskError` where a worker does not start, or
    ends twice on the right answer: then nothing was measured.
    """

    def __init__(self, *, size: int = 2) -> None:
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._free: list[_Worker] = []

    def compare(self, gold: str, given: str, *, cpu_s: float) -> Compared:
        """Whether `given` is equal to `gold`, both in LaTeX; `cpu_s` for each, and ten times that by the clock."""
        with self._slots:
            for attempt in range(_TRIES):
                worker = self._take(fresh=attempt > 0)
                found = worker.ask(gold, given, cpu_s=cpu_s)
                if found in ("same", "different"):
                    with self._lock:
                        self._free.append(worker)
                if found not in ("crashed", "gold"):
                    return found
        if found == "gold":
            raise TaskError(f"the comparison of answers ended twice on the right answer {gold[:200]!r}")
        return found

    def close(self) -> None:
        """End the workers that are idle; new ones start when they are needed."""
        with self._lock:
            idle, self._free = self._free, []
        for worker in idle:
            worker.kill()

    def _take(self, *, fresh: bool) -> _Worker:
        while not fresh:
            with self._lock:
                worker = self._free.pop() if self._free else None
            if worker is None:
                break
            if worker.alive:
                return worker
        return _Worker()


class _Worker:
    """One process. Whatever else it does, it ends with this object or with the process that started it."""

    def __init__(self) -> None:
        if importlib.util.find_spec("math_verify") is None:
            need("math_verify", extra="benchmarks")
        with resources.as_file(resources.files("heldout.benchmarks").joinpath("math_worker.py")) as program:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", str(program)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd="/",
            )
            self._pending = b""
            self._finish = weakref.finalize(self, _end, self._popen, os.getpid())
            if self._line(_START_S) != "ready":
                raise TaskError(f"the comparison of answers could not be started; it said {self.kill()!r}")

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._popen.poll() is None

    def ask(self, gold: str, given: str, *, cpu_s: float) -> Compared:
        """`same`, `different`; or, with the process dead, `timed out`, `crashed`, or `gold` for one that ended on the
        right answer."""
        question = json.dumps({"gold": gold, "given": given, "cpu_s": cpu_s}).encode() + b"\n"
        if not self._send(question) or self._line(cpu_s * _WALL_PER_CPU) != "gold":
            self.kill()
            return "gold"
        said = self._line(cpu_s * _WALL_PER_CPU)
        if said in ("same", "different"):
            return "same" if said == "same" else "different"
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(_END_S)
        code = self._popen.returncode
        self.kill()
        return "timed out" if code is None or code in _OVER_TIME else "crashed"

    def kill(self) -> str:
        """End it; what it wrote to standard error."""
        return self._finish() or ""

    def _send(self, question: bytes) -> bool:
        try:
            while question:
                question = question[os.write(_descriptor(self._popen.stdin), question) :]
        except BrokenPipeError:
            return False
        return True

    def _line(self, timeout_s: float) -> str | None:
        """The next line; None where there is none in time, or the process has ended."""
        source = _descriptor(self._popen.stdout)
        poll = select.poll()
        poll.register(source, select.POLLIN)
        ends = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            ready = poll.poll(max(0.0, ends - time.monotonic()) * 1000)
            chunk = os.read(source, _CHUNK) if ready else b""
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode("utf-8", "replace")


def _descriptor(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise TaskError("the comparison of answers was started without pipes")
    return pipe.fileno()


def _end(popen: subprocess.Popen[bytes], owner: int) -> str:
    """Kill the process and give back the end of what it complained of; nothing in a fork of its owner."""
    if os.getpid() != owner:
        return ""
    popen.kill()
    _, said = popen.communicate()
    return said.decode("utf-8", "replace").strip()[-_COMPLAINT:]
