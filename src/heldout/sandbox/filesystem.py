"""The file systems of one sandbox, in namespaces of their own that leave no trace on this machine.

A process that only waits holds a user, a mount and a process namespace: the root folder of the sandbox and two
memory file systems, for `/work` and for `/tmp`, whose size and number of files the kernel limits. That process ends
when this end of its standard input closes, also where Heldout was killed, and the kernel then kills every command.
"""

from __future__ import annotations

import os
import select
import stat
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from heldout.errors import SandboxError
from heldout.sandbox.pump import pipe_of
from heldout.sandbox.system import INNER_ID, WORK, Layout

__all__ = ["FileSystem"]

_BASE = "/sys"
"""Hidden in the new mount namespace, where nothing needs it, so that no folder is made on the host."""
_ROOT, _DEVICES, _WORK, _TEMPORARY = (f"{_BASE}/{name}" for name in ("root", "dev", "work", "tmp"))
_NODES = ("null", "zero", "full", "random", "urandom", "tty")
_SCRIPT = f"""
echo new; read -r _ || exit 1
mount -t tmpfs -o size=4m,mode=755 sandbox {_BASE} && echo empty && read -r _ || exit 1
mount -t proc -o nosuid,nodev,noexec sandbox /proc || exit 1
mount --all --fstab {_BASE}/fstab && echo ready && read -r _
"""
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_START_S = 20.0
_FILES_PER_MB = 256
_NOBODY = 65534
"""What commands run as, on the host, where Heldout runs as root: somebody who owns nothing."""


class FileSystem:
    """What `layout` says, and empty `/work` and `/tmp` of `disk_mb` each. `SandboxError` where it cannot be made."""

    def __init__(self, layout: Layout, *, disk_mb: int, tools: Sequence[str]) -> None:
        """`tools` are the paths of `unshare`, `nsenter` and `mount`."""
        unshare, self._nsenter, mount = tools
        self._holder = subprocess.Popen(
            [unshare, "--user", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.path.dirname(mount), "LC_ALL": "C"},
            start_new_session=True,
        )
        self.size = disk_mb << 20
        """Bytes that fit into `/work`, and again into `/tmp`."""
        self.owner: int | None = None
        """User and group that files of the sandbox must belong to; None where that is who runs Heldout."""
        self._open: list[int] = []
        with ExitStack() as undo:
            undo.callback(self.close)
            self._build(layout, disk_mb)
            undo.pop_all()

    def _build(self, layout: Layout, disk_mb: int) -> None:
        try:
            self._await("new")
            self._map_users()
            if self.owner is not None:
                _check_readable(layout.binds.values())
            self._go_on()
            self._await("empty")
            base = self._folder(_BASE)
            _fill(base, layout)
            _write(base, "fstab", self._mount_table(layout, disk_mb).encode())
            self._go_on()
            self._await("ready")
            self.work = self._folder(_WORK)
            """Descriptor of the work folder, open for as long as this is."""
            self.temporary = self._folder(_TEMPORARY)
            self._modes = {folder: os.fstat(folder).st_mode for folder in (self.work, self.temporary)}
            self.processes = Path(f"/proc/{self._holder.pid}/root/proc")
            """The process file system of everything that runs in here."""
        except OSError as cause:
            raise SandboxError(f"the file systems of a sandbox cannot be made: {cause}") from cause

    def enter(self) -> list[str]:
        """The command line that runs what is appended to it in these namespaces, without the rights of their owner."""
        # The holder itself is not in the process namespace that it made; its child, process 1 of it, is.
        processes = f"--pid=/proc/{self._holder.pid}/ns/pid_for_children"
        head = [self._nsenter, f"--target={self._holder.pid}", "--user", "--mount", processes]
        if self.owner is None:
            return [*head, "--preserve-credentials"]
        return [*head, f"--setuid={INNER_ID}", f"--setgid={INNER_ID}"]

    @staticmethod
    def binds() -> list[str]:
        """The arguments of bubblewrap that make this the root of a command. `/dev/shm` is `/tmp`."""
        return [
            *("--ro-bind", _ROOT, "/", "--proc", "/proc", "--dev-bind", _DEVICES, "/dev", "--remount-ro", "/dev"),
            *("--bind", _WORK, WORK, "--bind", _TEMPORARY, "/tmp", "--bind", _TEMPORARY, "/dev/shm"),
        ]

    def open_again(self) -> None:
        """Give the folders their modes back: a command that closes them to itself keeps no later one from running."""
        for folder, mode in self._modes.items():
            if os.fstat(folder).st_mode != mode:
                os.fchmod(folder, stat.S_IMODE(mode))

    def used(self) -> int:
        """Bytes in use on the fuller of `/work` and `/tmp`; a file system without a free file counts as full."""
        return max(_used(folder) for folder in (self.work, self.temporary))

    def close(self) -> None:
        """End it and everything that runs in it."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()
        with suppress(BrokenPipeError):
            pipe_of(self._holder.stdin).close()
        self._holder.kill()
        self._holder.wait()
        pipe_of(self._holder.stdout).close()

    def _map_users(self) -> None:
        """Give the holder's namespace its users: 0, who mounts, and where that is the real root, one more."""
        process = Path(f"/proc/{self._holder.pid}")
        if os.geteuid() == 0:
            both = f"0 0 1\n{INNER_ID} {_NOBODY} 1\n"
            # In a container, root may have no right to map a second user; then all is done as the one it has.
            with suppress(PermissionError):
                (process / "uid_map").write_text(both)
                (process / "gid_map").write_text(both)
                self.owner = _NOBODY
                return
        (process / "setgroups").write_text("deny")
        (process / "uid_map").write_text(f"0 {os.geteuid()} 1\n")
        (process / "gid_map").write_text(f"0 {os.getegid()} 1\n")

    def _mount_table(self, layout: Layout, disk_mb: int) -> str:
        """The mounts in the format of fstab(5)."""
        limits = f"size={disk_mb}m,nr_inodes={disk_mb * _FILES_PER_MB},nosuid,nodev"
        user = 0 if self.owner is None else INNER_ID
        lines = [
            f"sandbox {path} tmpfs {limits},mode={mode},uid={user},gid={user} 0 0\n"
            for path, mode in ((_WORK, "0755"), (_TEMPORARY, "1777"))
        ]
        # The devices of bubblewrap's own --dev, mounted once instead of for every command.
        lines.append(f"sandbox {_DEVICES}/pts devpts newinstance,nosuid,noexec,mode=0620,ptmxmode=0666 0 0\n")
        lines += [f"/dev/{node} {_DEVICES}/{node} none bind 0 0\n" for node in _NODES]
        lines += [
            f"{_escaped(source)} {_escaped(_ROOT + path)} none rbind 0 0\n" for path, source in layout.binds.items()
        ]
        lines += [f"sandbox {_escaped(_ROOT + path)} tmpfs ro,size=4k,mode=0555 0 0\n" for path in layout.hidden]
        return "".join(lines)

    def _folder(self, path: str) -> int:
        descriptor = os.open(f"/proc/{self._holder.pid}/root{path}", os.O_RDONLY | os.O_DIRECTORY)
        self._open.append(descriptor)
        return descriptor

    def _go_on(self) -> None:
        pipe = pipe_of(self._holder.stdin)
        pipe.write(b"\n")
        pipe.flush()

    def _await(self, word: str) -> None:
        """Wait until the holder says `word`; `SandboxError` with what it says instead."""
        pipe, deadline, said = pipe_of(self._holder.stdout).fileno(), time.monotonic() + _START_S, b""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while not said.endswith(f"{word}\n".encode()):
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise SandboxError(f"the namespaces of a sandbox were not made within {_START_S:.0f} s")
            part = os.read(pipe, 65536)
            if not part:
                raise SandboxError(said.decode("utf-8", "replace").strip() or "the namespaces of a sandbox vanished")
            said += part


def _check_readable(folders: Iterable[str]) -> None:
    for folder in folders:
        if os.stat(folder).st_mode & 0o005 != 0o005:
            raise SandboxError(
                f"{folder!r} cannot be shown to a sandbox: Heldout runs as root, commands run as nobody, and only its "
                f"owner may read it; chmod o+rx {folder!r}"
            )


def _fill(base: int, layout: Layout) -> None:
    """Everything that is no mount: empty folders to mount on, links, and the few files of `/etc`."""
    made: set[str] = set()
    inside = (_ROOT + path for path in (*layout.folders, *layout.binds))
    for path in (_WORK, _TEMPORARY, f"{_DEVICES}/pts", f"{_DEVICES}/shm", *inside):
        _make_folders(base, path.removeprefix(f"{_BASE}/"), made)
    for path, target in layout.links.items():
        os.symlink(target, f"root{path}", dir_fd=base)
    for path, target in _DEVICE_LINKS.items():
        os.symlink(target, f"dev/{path}", dir_fd=base)
    for node in _NODES:
        _write(base, f"dev/{node}", b"")
    for path, data in layout.files.items():
        _write(base, f"root{path}", data)


def _make_folders(base: int, path: str, made: set[str]) -> None:
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        folder = "/".join(parts[:end])
        if folder not in made:
            os.mkdir(folder, 0o755, dir_fd=base)
            made.add(folder)


def _write(base: int, path: str, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=base), "wb") as file:
        file.write(data)


def _escaped(path: str) -> str:
    return "".join(f"\\{ord(c):03o}" if c in " \t\n\\#" else c for c in path)


def _used(folder: int) -> int:
    status = os.fstatvfs(folder)
    free = status.f_bavail if status.f_favail else 0
    return (status.f_blocks - free) * status.f_bsize
