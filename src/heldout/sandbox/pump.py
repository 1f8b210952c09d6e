"""Feeding a process and reading its output until it ends or passes a limit."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from subprocess import Popen
from typing import IO, Literal

from heldout.sandbox.output import CappedOutput

__all__ = ["TICK_S", "Killed", "Pump", "pipe_of"]

Killed = Literal["", "time", "processes", "disk", "memory"]
"""Which limit ended a command, where one did."""

TICK_S = 0.05
"""Between two looks at what the kernel does not limit."""
_CHUNK = 65536
_FLOOD_BYTES = 64 << 20
"""Output after which reading slows to about 64 MB/s, so that endless output leaves the machine to others."""
_FLOOD_PAUSE_S = 0.001


class Pump:
    """Moves bytes without ever waiting for a process that neither reads nor writes."""

    def __init__(self, process: Popen[bytes], feed: bytes, output: CappedOutput, *, ended: int | None) -> None:
        """`ended` is a descriptor that becomes readable when the process has ended; without one, the end of its
        output counts as its end."""
        self._stdout = pipe_of(process.stdout).fileno()
        self._stdin = process.stdin
        self._feed = memoryview(feed)
        self._output = output
        self._ended = ended
        self._poll = select.poll()
        os.set_blocking(self._stdout, False)
        self._poll.register(self._stdout, select.POLLIN)
        if ended is not None:
            self._poll.register(ended, select.POLLIN)
        if self._stdin is not None:
            os.set_blocking(self._stdin.fileno(), False)
            self._poll.register(self._stdin.fileno(), select.POLLOUT)

    def run(self, *, wall_s: float, watch: Callable[[], Killed]) -> Killed:
        """Until the process has ended: "". Or until `wall_s` are over: "time". Or until `watch` names a limit, asked
        every `TICK_S`. In the last two cases the process still runs."""
        now = time.monotonic()
        deadline, look = now + wall_s, now + TICK_S
        while not self._step(min(deadline, look) - now):
            now = time.monotonic()
            if now >= deadline:
                return "time"
            if now >= look:
                look = now + TICK_S
                verdict = watch()
                if verdict:
                    return verdict
        return ""

    def drain(self) -> None:
        """Take what a process left in the pipe when it ended."""
        while self._read():
            pass

    def _step(self, timeout_s: float) -> bool:
        """Move what can be moved within the time; whether the process has ended."""
        ended = False
        for descriptor, _ in self._poll.poll(max(0.0, timeout_s) * 1000):
            if descriptor == self._ended:
                ended = True
            elif descriptor == self._stdout:
                if not self._read():
                    self._poll.unregister(self._stdout)
                    ended = ended or self._ended is None
            else:
                self._write()
        return ended

    def _read(self) -> bool:
        """Whether there was something, or may be more."""
        try:
            chunk = os.read(self._stdout, _CHUNK)
        except BlockingIOError:
            return False
        self._output.add(chunk)
        if self._output.total > _FLOOD_BYTES:
            time.sleep(_FLOOD_PAUSE_S)
        return bool(chunk)

    def _write(self) -> None:
        stdin = pipe_of(self._stdin)
        try:
            self._feed = self._feed[os.write(stdin.fileno(), self._feed[:_CHUNK]) :] if self._feed else self._feed
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._feed = self._feed[:0]
        if not self._feed:
            self._poll.unregister(stdin.fileno())
            self._stdin = None
            stdin.close()


def pipe_of(pipe: IO[bytes] | None) -> IO[bytes]:
    """A pipe that was asked for when its process was started."""
    assert pipe is not None
    return pipe
