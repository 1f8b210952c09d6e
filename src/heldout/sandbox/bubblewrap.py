"""The default sandbox: bubblewrap, started for every command, on file systems that last as long as the sandbox."""

from __future__ import annotations

import errno
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from heldout.errors import SandboxError
from heldout.sandbox.base import Completed, Conversation, Limits, Sandbox, Scene
from heldout.sandbox.confined import Confined, Ended, limited
from heldout.sandbox.conversation import LineConversation
from heldout.sandbox.faults import Fault, explain, missing_tool
from heldout.sandbox.filesystem import FileSystem
from heldout.sandbox.folder import read_folder, write_folder
from heldout.sandbox.output import CappedOutput
from heldout.sandbox.pump import Killed, Pump
from heldout.sandbox.syscalls import FILTERED_MACHINES, filter_program
from heldout.sandbox.system import INNER_ID, WORK, Layout, layout
from heldout.sandbox.watch import Watch

__all__ = ["Bubblewrap"]

_TOOLS = ("bwrap", "unshare", "nsenter", "mount")
_PROBE = Limits(wall_s=20.0, disk_mb=1)
_CLOSE_S = 30.0
_ARGUMENT_BYTES, _ARGUMENTS_BYTES = 131_000, 1 << 20
"""Of one argument, and of all together: a little less than execve(2) takes."""


class Bubblewrap:
    """Linux namespaces, no privileges needed, a few milliseconds for a command.

    Shown read-only: the programs and libraries of this machine (`/usr`), the Python installation that runs Heldout
    (not its virtual environment), made-up users, and the folders that the scene names; in none of these is Heldout's
    own package. Of the rest of this machine nothing: no home, no project, no environment, no other process, no network.
    Commands run as a user who is not root, without capabilities, behind a system call filter, and where Heldout runs as
    root, as a user who owns nothing.

    Kernel limits: time, address space and file size of each process, the number of processes (Linux 5.14 or later),
    size and number of files of `/work` and `/tmp`. Watched every 50 ms, so that they may be passed for an instant:
    wall clock, the number of processes, and memory of all processes together (four times `memory_mb`).
    Time on the processor is counted in whole seconds, rounded up. A conversation has no limit of wall clock of its
    own. `disk_mb` of a single command can be less than the scene's, not more.

    It does not protect against: holes in the kernel, whose whole system call surface but for the filtered part is
    reachable; what can be measured through shared hardware (time, caches, load, `/proc/meminfo`, `/proc/cpuinfo`);
    use of all processors for as long as the limits allow; reading what other people have put under `/usr`; sockets
    that somebody left in a folder that a scene mounts. It is no defence against a person with days for one machine.
    """

    def __init__(self) -> None:
        self.fingerprint = f"bubblewrap:{sys.implementation.cache_tag}"

    def fault(self) -> str | None:
        """Why bubblewrap does not work here, with what mends it; found by running one command."""
        fault = self.diagnose()
        return None if fault is None else str(fault)

    def diagnose(self) -> Fault | None:
        """`fault` with reason and remedy apart."""
        fault = _unsupported()
        if fault is not None:
            return fault
        try:
            with self.open(Scene(limits=_PROBE)) as sandbox:
                found = sandbox.run(["python3", "-c", "print('works')"])
        except SandboxError as failure:
            return explain(str(failure))
        if found.output != "works\n":
            return explain(f"its Python ends with {found.exit_code} and says {found.output!r}")
        return None

    @contextmanager
    def open(self, scene: Scene) -> Iterator[Sandbox]:
        """A new sandbox, gone with all its processes and files at the end."""
        fault = _unsupported()
        if fault is not None:
            raise SandboxError(str(fault))
        if scene.image is not None or scene.origin is not None:
            raise SandboxError(f'bubblewrap has no images, and the task needs {scene.image!r}: use sandbox = "docker"')
        plan = layout(scene.mounts, scene.env)
        bwrap, *tools = (str(shutil.which(name)) for name in _TOOLS)
        files = FileSystem(plan, disk_mb=scene.limits.disk_mb, tools=tools)
        try:
            write_folder(files.work, scene.files, owner=files.owner, encoded=scene.encoded)
            sandbox = _Sandbox(files, plan, bwrap=bwrap, scene=scene)
            try:
                yield sandbox
            finally:
                sandbox.close()
        finally:
            files.close()


def _unsupported() -> Fault | None:
    """What can be known without starting anything."""
    if sys.platform != "linux":
        return Fault(f"bubblewrap needs Linux, and this is {sys.platform}", 'sandbox = "docker"')
    if platform.machine() not in FILTERED_MACHINES:
        return Fault(
            f"there is no system call filter for {platform.machine()!r}; there is for {', '.join(FILTERED_MACHINES)}",
            'sandbox = "docker"',
        )
    return missing_tool(_TOOLS, shutil.which)


class _Sandbox:
    def __init__(self, files: FileSystem, plan: Layout, *, bwrap: str, scene: Scene) -> None:
        self._files = files
        self._limits = scene.limits
        self._encoded = scene.encoded
        self._head = [*files.enter(), bwrap, *_namespaces(plan.env), *files.binds()]
        self._program = filter_program()
        self._running: set[Confined] = set()
        self._conversations: list[LineConversation] = []
        self._closed = False
        self._quiet = threading.Condition()

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: Limits | None = None) -> Completed:
        """Run one command to its end, under the scene's limits or these."""
        used = limits or self._limits
        refused = _refused(argv)
        if refused is not None:
            return refused
        begun = time.perf_counter()
        output = CappedOutput(used.output_bytes)
        process = self._start(argv, used, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL)
        try:
            pump = Pump(process.popen, stdin.encode("utf-8", "replace"), output, ended=process.pidfd)
            watch = Watch(process, self._files, used)
            killed = pump.run(wall_s=used.wall_s, watch=watch)
            ended = process.end()
            pump.drain()
            if not process.ran():
                raise _never_ran(output.text())
            killed = killed or _limit_behind(ended, used, watch)
        finally:
            self._finish(process)
        return Completed(
            exit_code=ended.exit_code,
            output=output.text(),
            killed=killed,
            wall_s=time.perf_counter() - begun,
            cpu_s=ended.cpu_s,
        )

    def snapshot(self) -> Mapping[str, str]:
        """Every regular text file of the work folder, by relative path."""
        self._files.open_again()
        return read_folder(self._files.work, limit=self._files.size, encoded=self._encoded)

    def talk(self, argv: Sequence[str]) -> Conversation:
        """Start a process for a conversation; it ends with the sandbox."""
        refused = _refused(argv)
        if refused is not None:
            raise SandboxError(refused.output.strip())
        conversation = LineConversation(lambda: self._keep(argv))
        with self._quiet:
            self._conversations.append(conversation)
        return conversation

    def close(self) -> None:
        """Kill what runs, from whatever thread, and wait until it is gone."""
        with self._quiet:
            self._closed = True
            for process in self._running:
                process.kill()
        for conversation in self._conversations:
            conversation.close()
        with self._quiet:
            if not self._quiet.wait_for(lambda: not self._running, _CLOSE_S):
                raise SandboxError(f"processes of a sandbox were not gone {_CLOSE_S:.0f} s after they had been killed")

    def _start(self, argv: Sequence[str], limits: Limits, *, stdin: int, stderr: int = subprocess.STDOUT) -> Confined:
        with self._quiet:
            if self._closed:
                raise SandboxError("the sandbox is closed")
            self._files.open_again()
            try:
                process = Confined(
                    self._head,
                    limited(argv, limits),
                    processes=self._files.processes,
                    program=self._program,
                    stdin=stdin,
                    stderr=stderr,
                )
            except OSError as cause:
                raise SandboxError(f"bubblewrap cannot be started: {cause}") from cause
            self._running.add(process)
        if self._files.owner is not None:
            # Else `/dev/stderr` and its like, which open a pipe anew, would belong to somebody else inside.
            for pipe in (process.popen.stdin, process.popen.stdout, process.popen.stderr):
                if pipe is not None:
                    os.fchown(pipe.fileno(), self._files.owner, self._files.owner)
        return process

    def _keep(self, argv: Sequence[str]) -> _Kept:
        process = self._start(argv, self._limits, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        return _Kept(process, Watch(process, self._files, self._limits), self._finish)

    def _finish(self, process: Confined) -> None:
        try:
            process.close()
        finally:
            with self._quiet:
                self._running.discard(process)
                self._quiet.notify_all()


class _Kept:
    """The process of a conversation, which the sandbox counts as running until it is closed."""

    def __init__(self, process: Confined, watch: Callable[[], Killed], finish: Callable[[Confined], None]) -> None:
        self.popen = process.popen
        self.kill = process.kill
        self.watch = watch
        self._process = process
        self._finish = finish

    def close(self) -> None:
        """End it and tell the sandbox."""
        self._finish(self._process)


def _namespaces(env: Mapping[str, str]) -> list[str]:
    """The arguments of bubblewrap but for the file systems."""
    settings = [word for name, value in env.items() for word in ("--setenv", name, value)]
    return [
        *("--unshare-all", "--unshare-user", "--uid", str(INNER_ID), "--gid", str(INNER_ID), "--hostname", "sandbox"),
        *("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--as-pid-1", "--chdir", WORK, "--clearenv"),
        *settings,
    ]


def _refused(argv: Sequence[str]) -> Completed | None:
    """What a shell would say of arguments that no program can be given; a model may write such a command."""
    if not argv:
        raise SandboxError("there is no command to run: its list of arguments is empty")
    try:
        sizes = [len(os.fsencode(word)) for word in argv]
    except UnicodeEncodeError as cause:
        return Completed(exit_code=126, output=f"sh: no text: {cause}\n")
    if any("\0" in word for word in argv):
        return Completed(exit_code=126, output="sh: an argument holds a NUL character\n")
    if max(sizes) > _ARGUMENT_BYTES or sum(sizes) > _ARGUMENTS_BYTES:
        return Completed(exit_code=126, output=f"sh: {os.strerror(errno.E2BIG)}\n")
    return None


def _limit_behind(ended: Ended, limits: Limits, watch: Watch) -> Killed:
    """The limit by which the kernel itself ended a command."""
    if ended.exit_code == 128 + signal.SIGKILL and ended.cpu_s >= math.ceil(limits.cpu_s) - 0.5:
        return "time"
    if ended.exit_code == 128 + signal.SIGXFSZ or (ended.exit_code != 0 and watch.disk_is_full()):
        return "disk"
    return ""


def _never_ran(said: str) -> SandboxError:
    return SandboxError(f"bubblewrap did not start the command; it said: {said.strip()[-2000:]!r}")
