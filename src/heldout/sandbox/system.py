"""What of this machine a sandbox shows: the system's programs, the Python that runs Heldout, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from heldout.errors import SandboxError

__all__ = ["INNER_ID", "WORK", "Layout", "layout"]

WORK = "/work"
INNER_ID = 1000
"""User and group of every command, as it sees itself."""

_PYTHON_LINKS = "/.python"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_PROGRAMS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
_TAKEN = ("/proc", "/dev", "/tmp", "/etc", "/sys", WORK, _PYTHON_LINKS, *_SYSTEM)
_ETC: Mapping[str, str] = {
    "passwd": f"root:x:0:0::/:/sbin/nologin\nagent:x:{INNER_ID}:{INNER_ID}::{WORK}:/bin/sh\n"
    "nobody:x:65534:65534::/:/sbin/nologin\n",
    "group": f"root:x:0:\nagent:x:{INNER_ID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A root folder to build. Paths are absolute, as seen inside."""

    folders: tuple[str, ...]
    links: Mapping[str, str]
    """Path to what it points to."""
    files: Mapping[str, bytes]
    binds: Mapping[str, str]
    """Path to the folder of this machine that is shown there, read-only."""
    hidden: tuple[str, ...]
    """Folders below the binds that are shown empty."""
    env: Mapping[str, str] = field(repr=False)
    """The whole environment of a command."""


def layout(mounts: Mapping[str, str], env: Mapping[str, str]) -> Layout:
    """The root of a sandbox with the further `mounts` and `env` of its scene; `SandboxError` for what cannot be."""
    prefix, python = _python()
    _check_private_folders(prefix)
    links = {f"{_PYTHON_LINKS}/{name}": python for name in ("python", "python3")}
    binds: dict[str, str] = {}
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            links[str(path)] = os.readlink(path)
        elif path.is_dir():
            binds[str(path)] = str(path)
    if Path("/etc/alternatives").is_dir():
        binds["/etc/alternatives"] = "/etc/alternatives"
    if not PurePosixPath(prefix).is_relative_to("/usr"):
        binds[prefix] = prefix
    for source, point in mounts.items():
        binds[_mount_point(point, binds)] = _mount_source(source)
    return Layout(
        folders=("/proc", "/dev", "/tmp", WORK, "/etc", _PYTHON_LINKS),
        links=links,
        files={f"/etc/{name}": text.encode() for name, text in _ETC.items()} | _loader_cache(),
        binds=dict(sorted(binds.items())),
        hidden=_hidden(binds),
        env={
            "PATH": ":".join(dict.fromkeys((_PYTHON_LINKS, f"{prefix}/bin", *_PROGRAMS))),
            "HOME": WORK,
            "USER": "agent",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            **_checked(env),
        },
    )


def _hidden(binds: Mapping[str, str]) -> tuple[str, ...]:
    """Heldout itself, where it is installed beside the system's libraries: with its generators a task set could be made
    again, the tasks that nobody may see included."""
    own = Path(__file__).resolve().parents[1]
    shown = ((PurePosixPath(path), Path(source).resolve()) for path, source in binds.items())
    return tuple(sorted(str(path / own.relative_to(source)) for path, source in shown if own.is_relative_to(source)))


def _python() -> tuple[str, str]:
    """The installation that runs Heldout, behind any virtual environment, and its interpreter."""
    prefix = Path(sys.base_prefix)
    resolved = Path(os.path.realpath(sys.executable))
    if not resolved.is_relative_to(prefix):
        resolved = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(prefix), str(resolved)


def _check_private_folders(prefix: str) -> None:
    for private in (Path.home(), Path.cwd()):
        shown = next((folder for folder in (prefix, *_SYSTEM) if private.is_relative_to(folder)), None)
        if shown is not None:
            raise SandboxError(
                f"{str(private)!r} lies in {shown!r}, which every sandbox shows for its programs, so what runs inside "
                "could read your files; work in another folder, with a Python that is installed in one of its own"
            )


def _loader_cache() -> dict[str, bytes]:
    # A copy: the dynamic loader then finds libraries outside its standard folders at the same cost as on the host.
    cache = Path("/etc/ld.so.cache")
    return {str(cache): cache.read_bytes()} if cache.is_file() else {}


def _mount_source(source: str) -> str:
    if not Path(source).is_absolute() or not Path(source).is_dir():
        raise SandboxError(f"no folder of this machine to mount: {source!r}; a mount is an absolute path of a folder")
    return str(Path(source).resolve())


def _mount_point(path: str, taken: Mapping[str, str]) -> str:
    point = PurePosixPath(path)
    plain = path == str(point) and point.is_absolute() and ".." not in point.parts and "\0" not in path
    for other in map(PurePosixPath, (*_TAKEN, *taken)):
        if not plain or point.is_relative_to(other) or other.is_relative_to(point):
            raise SandboxError(
                f"no place for a mount: {path!r}; it is an absolute path inside, apart from {', '.join(_TAKEN)} "
                "and from other mounts"
            )
    return path


def _checked(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise SandboxError(f"no environment variable: {name!r}; a name has no '=' and no text holds a NUL")
    return env
