"""Reading and writing a work folder from outside, without ever following a link that a command left there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from heldout.errors import SandboxError
from heldout.sandbox.encoding import as_bytes, as_text

__all__ = ["check_path", "is_skipped", "read_folder", "write_folder"]

_SKIPPED = frozenset({"__pycache__", ".pytest_cache"})
_DEPTH = 64
"""Folders within folders that are read; each holds a descriptor open while its content is read."""


def check_path(path: str) -> PurePosixPath:
    """The path, if it stays below the folder that it is relative to; else `SandboxError`."""
    parts = PurePosixPath(path).parts
    plain = "/".join(parts) == path and parts and ".." not in parts and "\0" not in path
    if not plain or path.startswith("/") or len(parts) > _DEPTH:
        raise SandboxError(
            f"no path in a sandbox: {path[:200]!r}; it is relative, has no '..', no '.', no empty part and at most "
            f"{_DEPTH} parts"
        )
    return PurePosixPath(path)


def write_folder(folder: int, files: Mapping[str, str], *, owner: int | None, encoded: Sequence[str] = ()) -> None:
    """Write new files into the open folder `folder`, before anything untrusted can reach it; `owner` is given them.

    The text of files whose names end with one of `encoded` is base64.
    """
    made: set[PurePosixPath] = {PurePosixPath(".")}
    for name, text in files.items():
        path, data = check_path(name), as_bytes(name, text, encoded)
        try:
            for parent in reversed(path.parents):
                if parent not in made:
                    os.mkdir(parent, 0o755, dir_fd=folder)
                    _give(folder, parent, owner)
                    made.add(parent)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            _give(folder, path, owner)
        except OSError as cause:
            raise SandboxError(f"cannot write {name[:200]!r} into the work folder: {cause}") from cause


def _give(folder: int, path: PurePosixPath, owner: int | None) -> None:
    if owner is not None:
        os.chown(path, owner, owner, dir_fd=folder, follow_symlinks=False)


def read_folder(folder: int, *, limit: int, encoded: Sequence[str] = ()) -> dict[str, str]:
    """Every regular file that is UTF-8 text, by relative path in sorted order, `limit` bytes together; files whose
    names end with one of `encoded` as base64, whatever their bytes.

    A file that no longer fits is left out, as are links, special files, caches, names that are no UTF-8 and what is
    more than 64 folders deep. Nothing is opened through a link, and opening never waits.
    """
    found: dict[str, str] = {}
    left = limit
    for path, descriptor in _files(folder, "", 1):
        data = _content(descriptor, left)
        text = None if data is None else as_text(path, data, encoded)
        if data is None or text is None:
            continue
        found[path] = text
        left -= len(data)
    return found


def _files(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, int]]:
    """Path and open descriptor of each file below, in the order of names; descriptors close behind the reader."""
    with os.scandir(folder) as entries:
        found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_folder in found:
        if is_skipped(name) or (is_folder and depth == _DEPTH):
            continue
        flags = os.O_DIRECTORY if is_folder else os.O_NONBLOCK | os.O_NOCTTY
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=folder)
        except OSError:  # a link, a socket, unreadable, or gone meanwhile
            continue
        try:
            if is_folder:
                yield from _files(descriptor, f"{prefix}{name}/", depth + 1)
            else:
                yield prefix + name, descriptor
        finally:
            os.close(descriptor)


def _content(descriptor: int, limit: int) -> bytes | None:
    """All bytes of a regular file of at most `limit`; None for anything else."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        return None
    parts, left = [], status.st_size
    while left and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def is_skipped(name: str) -> bool:
    """Whether a snapshot leaves out a file or folder of this name: caches, and names that are no UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return name in _SKIPPED
