"""A process that is asked line by line, for every kind of sandbox."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from subprocess import Popen
from typing import Protocol

from heldout.errors import HeldoutError, SandboxError
from heldout.sandbox.output import CappedOutput
from heldout.sandbox.pump import Killed, pipe_of

__all__ = ["LINE_BYTES", "LineConversation", "Running"]

LINE_BYTES = 4 << 20
"""Longest line of an answer."""
_CHUNK = 65536
_LOOK_S = 0.25
_ERROR_BYTES = 4096


class Running(Protocol):
    """A process with three pipes, and whatever it started."""

    popen: Popen[bytes]

    def kill(self) -> None:
        """End all of it, from any thread, at any time."""

    def watch(self) -> Killed:
        """Which limit it has passed, asked now and then."""

    def close(self) -> None:
        """End all of it and wait for that; called by the thread that started it."""


class LineConversation:
    """Sends a line and waits for one, in order: a line that was not asked for answers the next question.

    A thread of its own starts the process, looks after its limits and ends it, because the process may be bound to
    the life of the thread that started it, and conversations pass from thread to thread.
    """

    def __init__(self, start: Callable[[], Running]) -> None:
        self._lock = threading.Lock()
        self._ready, self._stop = threading.Event(), threading.Event()
        self._process: Running | None = None
        self._failure: HeldoutError | None = None
        self._passed: Killed = ""
        self._pending = bytearray()
        self._errors = CappedOutput(_ERROR_BYTES)
        self._closed = False
        self._keeper = threading.Thread(target=self._keep, args=(start,), daemon=True)
        self._keeper.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def ask(self, line: str, *, timeout_s: float) -> str:
        """Send a line (without its end) and wait for one. `SandboxError` where none comes; the process is then dead."""
        with self._lock:
            if self._closed or self._process is None:
                raise SandboxError("the conversation has ended: its process is dead")
            with ExitStack() as unanswered:
                unanswered.callback(self._end)
                if "\n" in line:
                    raise SandboxError(f"a question is one line, and this one holds a line end: {line[:200]!r}")
                answer = self._exchange(self._process.popen, line, timeout_s)
                unanswered.pop_all()
            return answer

    def close(self) -> None:
        """Kill it. Safe to call twice, and while another thread waits for an answer."""
        if self._process is not None:
            self._process.kill()
        with self._lock:
            self._end()

    def _end(self) -> None:
        if not self._closed:
            self._closed = True
            self._stop.set()
            self._keeper.join()

    def _keep(self, start: Callable[[], Running]) -> None:
        try:
            process = start()
        except HeldoutError as failure:
            self._failure = failure
            self._ready.set()
            return
        try:
            for pipe in (process.popen.stdin, process.popen.stdout, process.popen.stderr):
                os.set_blocking(pipe_of(pipe).fileno(), False)
            self._process = process
            self._ready.set()
            while not self._stop.wait(_LOOK_S):
                self._passed = self._passed or process.watch()
                if self._passed:
                    process.kill()
        finally:
            self._ready.set()
            process.close()

    def _exchange(self, popen: Popen[bytes], line: str, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        question = memoryview(line.encode("utf-8", "replace") + b"\n")
        stdin, stdout, stderr = (pipe_of(pipe).fileno() for pipe in (popen.stdin, popen.stdout, popen.stderr))
        poll = select.poll()
        for descriptor, event in ((stdin, select.POLLOUT), (stdout, select.POLLIN), (stderr, select.POLLIN)):
            poll.register(descriptor, event)
        while question or b"\n" not in self._pending:
            events = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not events:
                raise SandboxError(f"no answer within {timeout_s:g} s{self._complaint()}")
            for descriptor, _ in events:
                if descriptor == stdin:
                    question = self._send(stdin, question)
                    if not question:
                        poll.unregister(stdin)
                elif descriptor == stderr:
                    if not self._hear(stderr):
                        poll.unregister(stderr)
                elif not self._take(stdout):
                    raise SandboxError(f"the process ended without an answer{self._complaint(stderr)}")
        answer, _, rest = bytes(self._pending).partition(b"\n")
        self._pending = bytearray(rest)
        return answer.decode("utf-8", "replace")

    def _send(self, stdin: int, question: memoryview) -> memoryview:
        try:
            return question[os.write(stdin, question[:_CHUNK]) :]
        except BlockingIOError:
            return question
        except BrokenPipeError:
            return question[:0]  # the end of its output tells

    def _hear(self, stderr: int) -> bool:
        try:
            chunk = os.read(stderr, _CHUNK)
        except BlockingIOError:
            return True
        self._errors.add(chunk)
        return bool(chunk)

    def _take(self, stdout: int) -> bool:
        """Add what there is to what is pending; whether the process can still answer."""
        try:
            chunk = os.read(stdout, _CHUNK)
        except BlockingIOError:
            return True
        self._pending += chunk
        if len(self._pending) > LINE_BYTES and b"\n" not in self._pending:
            raise SandboxError(f"an answer passes {LINE_BYTES >> 20} MB without a line end")
        return bool(chunk)

    def _complaint(self, stderr: int | None = None) -> str:
        """What is known of the reason: the limit that was passed, and what it wrote to standard error."""
        if stderr is not None:
            self._hear(stderr)
        passed = f"; it passed the limit of {self._passed}" if self._passed else ""
        said = self._errors.text().strip()
        return f"{passed}; it said: {said!r}" if said else passed
