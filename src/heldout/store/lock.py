"""One writer per run folder, by a lock that the kernel releases when its process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from heldout.errors import SetupError
from heldout.records import Record

__all__ = ["LockHolder", "RunLock"]


_PATIENCE, _PAUSE_S = 60, 0.05
"""How often, and after how long, the lock of a dead process is tried again."""


class LockHolder(Record):
    """Who holds a run folder: the content of `writer.lock`."""

    pid: int
    host: str
    command: str
    since: float
    """Unix seconds."""


class RunLock:
    """The right to write in a run folder, until `release` or the end of the process.

    It rests on flock: what a killed process left behind counts for nothing, and network file systems
    without flock between hosts are not protected.
    """

    def __init__(self, descriptor: int, holder: LockHolder) -> None:
        """Use `RunLock.acquire`."""
        self.holder = holder
        self._descriptor = descriptor
        # A forked worker that outlives a killed writer must not keep the lock.
        lock = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forget(lock()))

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Take the lock file `path`; `SetupError` names the process that holds it.

        A link is refused: the file is overwritten, and in somebody else's run folder it could lead anywhere.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as cause:
            raise SetupError(f"cannot write in {str(path.parent)!r}: {cause.strerror}") from cause
        for patience in range(_PATIENCE, -1, -1):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as cause:
                text = os.pread(descriptor, 65536, 0)
                # A fork of a writer that was killed this instant has not dropped its copy of the lock yet.
                if patience and _is_gone(text):
                    time.sleep(_PAUSE_S)
                    continue
                os.close(descriptor)
                who = _name(text)
                raise SetupError(f"{str(path.parent)!r} is being written by {who}; one writer at a time") from cause
        command = " ".join(sys.argv).encode(errors="replace").decode()
        holder = LockHolder(pid=os.getpid(), host=socket.gethostname(), command=command, since=time.time())
        # On a full disk the lock holds all the same; only its holder's name is missing.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.model_dump_json().encode(), 0)
        return cls(descriptor, holder)

    def release(self) -> None:
        """Let another writer in. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _forget(lock: RunLock | None) -> None:
    if lock is not None:
        lock.release()


def _is_gone(text: bytes) -> bool:
    """Whether the named holder was a process of this machine and has ended."""
    try:
        holder = LockHolder.model_validate_json(text)
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return holder.host == socket.gethostname()
    except (ValidationError, PermissionError):
        return False
    return False


def _name(text: bytes) -> str:
    try:
        holder = LockHolder.model_validate_json(text)
    except ValidationError:
        return "another process"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.since))
    return f"process {holder.pid} on {holder.host} since {since} ({holder.command})"
