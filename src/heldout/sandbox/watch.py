"""What the kernel does not limit by itself, looked at from outside while a command runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from heldout.sandbox.base import Limits
from heldout.sandbox.confined import Confined
from heldout.sandbox.filesystem import FileSystem
from heldout.sandbox.pump import Killed

__all__ = ["MEMORY_TOGETHER", "Watch"]

MEMORY_TOGETHER = 4
"""What all processes of a command together may hold in memory, in times of what each may."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class _Process:
    tasks: int
    resident: int


class Watch:
    """Call it now and then: it names the limit that a command has passed."""

    def __init__(self, process: Confined, files: FileSystem, limits: Limits) -> None:
        self._process = process
        self._files = files
        self._limits = limits
        self._disk = min(files.size, limits.disk_mb << 20)
        self._was_full = files.used() >= self._disk

    def __call__(self) -> Killed:
        if self.disk_is_full():
            return "disk"
        first = self._process.first_process
        if first is None:
            return ""
        proc = first / "root/proc"
        found = dict(_processes(proc))
        # Process 1 is the shell that set the limits.
        if sum(process.tasks for process in found.values()) - 1 > self._limits.processes:
            return "processes"
        most = MEMORY_TOGETHER * self._limits.memory_mb << 20
        if sum(process.resident for process in found.values()) > most and _held(proc, found) > most:
            return "memory"
        return ""

    def disk_is_full(self) -> bool:
        """Whether this command filled the disk; what begins on a full one may run, for it may be what clears it."""
        return not self._was_full and self._files.used() >= self._disk


def _processes(proc: Path) -> Iterator[tuple[str, _Process]]:
    """Every process of the namespace whose process file system `proc` is (proc(5), stat, fields 20 and 24)."""
    # Whatever ends while it is looked at is no longer there to be counted.
    with suppress(FileNotFoundError, ProcessLookupError):
        for name in os.listdir(proc):
            if name.isdigit():
                with suppress(FileNotFoundError, ProcessLookupError):
                    text = (proc / name / "stat").read_text(encoding="utf-8", errors="replace")
                    fields = text.rpartition(")")[2].split()
                    yield name, _Process(tasks=int(fields[17]), resident=int(fields[21]) * _PAGE)


def _held(proc: Path, processes: dict[str, _Process]) -> int:
    """Bytes that the processes hold together, with memory that several share counted once."""
    return sum(_share(proc / name, process) for name, process in processes.items())


def _share(folder: Path, process: _Process) -> int:
    with suppress(OSError):  # it has ended, or it hides from its reader: then all that it holds counts
        for line in (folder / "smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return process.resident
