"""The seam to sandboxes: where untrusted code runs, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from pydantic import Field

from heldout.records import Record

__all__ = ["Completed", "Conversation", "Limits", "Sandbox", "Sandboxes", "Scene"]


class Limits(Record):
    """What one command may use. A command that passes a limit is killed with everything that it started."""

    wall_s: float = Field(default=30.0, gt=0.0)
    cpu_s: float = Field(default=20.0, gt=0.0)
    """Of each process."""
    memory_mb: int = Field(default=1024, ge=16)
    """Address space of each process."""
    processes: int = Field(default=64, ge=1)
    """Processes and threads alive at once."""
    file_mb: int = Field(default=32, ge=1)
    """Largest file that may be written."""
    disk_mb: int = Field(default=128, ge=1)
    """Of the work folder and `/tmp`, each."""
    output_bytes: int = Field(default=65536, ge=256)
    """Output that is kept; of more, the head and the tail with a line between that says how much is missing."""


class Scene(Record):
    """What a sandbox begins with. Nothing of a grader belongs here."""

    files: Mapping[str, str] = Field(default_factory=dict)
    """Relative path to text: the work folder at the start."""
    encoded: tuple[str, ...] = ()
    """Suffixes (`.xlsx`) of files that are bytes: their text in `files`, and in a snapshot, is base64."""
    mounts: Mapping[str, str] = Field(default_factory=dict)
    """Further host folders to show read-only: host path to the path inside."""
    env: Mapping[str, str] = Field(default_factory=dict)
    """Environment variables; none of the host's are passed on."""
    image: str | None = None
    """Container image; None is the base system of this machine, read-only."""
    origin: str | None = None
    """Folder of `image` that is copied into the work folder before `files` are written; None leaves it empty."""
    limits: Limits = Limits()


class Completed(Record):
    """How a command ended."""

    exit_code: int
    """128 + signal for a killed command."""
    output: str
    """Standard output and error as one stream, in UTF-8 with replacements, capped."""
    killed: Literal["", "time", "processes", "disk", "memory"] = ""
    """Which limit ended it, where one did."""
    wall_s: float = 0.0
    cpu_s: float = 0.0


class Conversation(Protocol):
    """A process in the sandbox that answers one line with one line."""

    def ask(self, line: str, *, timeout_s: float) -> str:
        """Send a line (without its end) and wait for one. `SandboxError` where none comes; the process is then dead."""

    def close(self) -> None:
        """Kill it. Safe to call twice."""


class Sandbox(Protocol):
    """One work folder, seen as `/work` (also the home and the working folder) by every command run in it.

    No network, no host environment, no writable place but `/work` and `/tmp`; both stay between commands. When a
    command has ended, nothing that it started is alive. Methods raise `SandboxError` where the sandbox itself failed;
    what a command does is data.
    """

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: Limits | None = None) -> Completed:
        """Run one command to its end, under the scene's limits or these."""

    def snapshot(self) -> Mapping[str, str]:
        """Every regular text file of the work folder, by relative path; links, special files, files that are no
        UTF-8, caches (`__pycache__`, `.pytest_cache`) and what passes the disk limit are left out. Files of the scene's
        `encoded` suffixes are there as base64, whatever their bytes."""

    def talk(self, argv: Sequence[str]) -> Conversation:
        """Start a process for a conversation; it ends with the sandbox."""


class Sandboxes(Protocol):
    """A kind of sandbox. Instances are immutable and picklable, and may be used from several threads."""

    fingerprint: str
    """Kind and settings, for cache keys."""

    def fault(self) -> str | None:
        """Why this kind does not work on this machine, with the command that mends it; None where it works."""

    def open(self, scene: Scene) -> AbstractContextManager[Sandbox]:
        """A new sandbox, gone with all its processes and files at the end. `SandboxError` where it cannot start:
        nothing ever runs unprotected instead."""
