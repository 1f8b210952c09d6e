"""One command under bubblewrap: a process that takes everything below it along when it ends."""

from __future__ import annotations

import json
import math
import os
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from heldout.errors import SandboxError
from heldout.sandbox.base import Limits

__all__ = ["SPARE_PROCESSES", "Confined", "Ended", "limited"]

SPARE_PROCESSES = 16
"""What the kernel lets through above the limit, so that passing it is seen and reported before forks fail."""
_OPEN_FILES = 1024
_BLOCK = 512
_START_S, _END_S, _PAUSE_S = 5.0, 10.0, 0.002


@dataclass(frozen=True, slots=True)
class Ended:
    """How it went: as of a shell, 128 + signal for a killed command."""

    exit_code: int
    cpu_s: float
    """Of every process that ran, and of the start of the sandbox."""


class Confined:
    """A running bubblewrap.

    Its child is process 1 of a process namespace, so when that ends, the kernel has killed the rest of the namespace
    before bubblewrap notices: after `end`, nothing is alive, not even what detached itself.
    """

    def __init__(
        self, head: Sequence[str], tail: Sequence[str], *, processes: Path, program: bytes, stdin: int, stderr: int
    ) -> None:
        """Start `head`, bubblewrap's arguments for status and system call filter `program`, and `tail`. `processes`
        is the process file system in whose numbers bubblewrap reports."""
        status, theirs = os.pipe()
        filtered, ours = os.pipe()
        with ExitStack() as undo, ExitStack() as after:
            undo.callback(os.close, status)
            after.callback(os.close, theirs)
            after.callback(os.close, filtered)
            with os.fdopen(ours, "wb") as pipe:
                pipe.write(program)
            self.popen = subprocess.Popen(
                [*head, "--json-status-fd", str(theirs), "--seccomp", str(filtered), *tail],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                env={},
                pass_fds=(theirs, filtered),
                start_new_session=True,
            )
            undo.pop_all()
        os.set_blocking(status, False)
        self._processes = processes
        self._status = status
        self._said = b""
        self._reading = threading.Lock()
        self._killed = False
        self._ended: Ended | None = None
        self.pidfd = os.pidfd_open(self.popen.pid)
        """Readable when everything has ended."""

    @property
    def first_process(self) -> Path | None:
        """What is known of process 1 of the namespace; None where it is not there yet."""
        found = self._report("child-pid")
        return self._processes / found if found else None

    def kill(self) -> None:
        """End everything at once. Safe to call at any time, from any thread."""
        self._killed = True
        deadline = time.monotonic() + _START_S
        while self._ended is None and not self._finished(0.0):
            first = self.first_process
            if first is not None:
                _kill(first)
                return
            if time.monotonic() > deadline:
                # By descriptor: the methods of `popen` would collect the process, and with it the time that it used.
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
                return
            time.sleep(_PAUSE_S)

    def end(self) -> Ended:
        """Kill what is left and wait for it; its exit code is its own only where it `ran`."""
        if self._ended is None:
            if not self._finished(0.0):
                self.kill()
            if not self._finished(_END_S):
                raise SandboxError(f"a command was still not gone {_END_S:.0f} s after it had been killed")
            self._ended = self._reap()
        return self._ended

    def close(self) -> None:
        """End it and close everything."""
        try:
            self.end()
        finally:
            for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            os.close(self.pidfd)
            os.close(self._status)

    def ran(self) -> bool:
        """Whether the command was started, and did not merely fail to be: only then its exit code is its own."""
        return self._killed or self._report("exit-code") is not None

    def _finished(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _reap(self) -> Ended:
        _, status, usage = os.wait4(self.popen.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.popen.returncode = code  # else it would warn that it was never waited for
        return Ended(code if code >= 0 else 128 - code, usage.ru_utime + usage.ru_stime)

    def _report(self, key: str) -> str | None:
        """What bubblewrap has reported on the status pipe under `key`."""
        with self._reading, suppress(BlockingIOError):
            while part := os.read(self._status, 4096):
                self._said += part
        for line in self._said.splitlines():
            with suppress(ValueError):
                found = json.loads(line)
                if key in found:
                    return str(found[key])
        return None


def _kill(process: Path) -> None:
    """Kill the process that a folder of a process file system is about."""
    with suppress(FileNotFoundError, ProcessLookupError):
        descriptor = os.open(process, os.O_RDONLY | os.O_DIRECTORY)
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def limited(argv: Sequence[str], limits: Limits) -> list[str]:
    """The command line that runs `argv` under kernel limits, from a shell that is process 1 and ends with it.

    The shell forks, so that the command is an ordinary process: process 1 ignores signals, and would not collect
    what is left to it. `exec` finds programs only, never what the shell has built in.
    """
    sizes = {
        "-c": (resource.RLIMIT_CORE, 0, 1),
        "-n": (resource.RLIMIT_NOFILE, _OPEN_FILES, 1),
        "-t": (resource.RLIMIT_CPU, math.ceil(limits.cpu_s), 1),
        "-v": (resource.RLIMIT_AS, limits.memory_mb << 20, 1024),
        "-f": (resource.RLIMIT_FSIZE, limits.file_mb << 20, _BLOCK),
    }
    steps = ["set -e", *(f"ulimit {flag} {_allowed(*size)}" for flag, size in sizes.items())]
    if _counts_by_namespace():
        tasks = _allowed(resource.RLIMIT_NPROC, limits.processes + 1 + SPARE_PROCESSES, 1)
        steps.append(f'if [ -n "$BASH_VERSION" ]; then ulimit -u {tasks}; else ulimit -p {tasks}; fi')
    steps += ["echo 1000 >/proc/self/oom_score_adj || :", "set +e", '(exec "$@")', "exit $?"]
    return ["/bin/sh", "-c", "; ".join(steps), "sh", *argv]


def _allowed(kind: int, wanted: int, unit: int) -> int:
    """`wanted` in units, or less where Heldout itself may not use so much."""
    hard = resource.getrlimit(kind)[1]
    return (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)) // unit


def _counts_by_namespace() -> bool:
    """Whether the kernel counts processes per user namespace (Linux 5.14); before that, per user of the machine."""
    major, minor = (int(part) for part in os.uname().release.split(".")[:2])
    return (major, minor) >= (5, 14)
