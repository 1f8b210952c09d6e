"""A work folder as a tar archive, for sandboxes whose files cannot be reached from outside."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import IO

from heldout.errors import SandboxError
from heldout.sandbox.encoding import as_bytes, as_text
from heldout.sandbox.folder import check_path, is_skipped

__all__ = ["pack", "unpack"]


def pack(files: Mapping[str, str], *, owner: int, encoded: Sequence[str] = ()) -> bytes:
    """An archive of the files and their folders, all of them `owner`'s; the text of files whose names end with one of
    `encoded` is base64."""
    buffer = io.BytesIO()
    paths = {check_path(name): as_bytes(name, text, encoded) for name, text in files.items()}
    folders = {parent for path in paths for parent in path.parents if parent.parts}
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in sorted(folders):
            archive.addfile(_member(folder, owner, kind=tarfile.DIRTYPE, mode=0o755))
        for path, data in paths.items():
            archive.addfile(_member(path, owner, kind=tarfile.REGTYPE, mode=0o644, size=len(data)), io.BytesIO(data))
    return buffer.getvalue()


def _member(path: PurePosixPath, owner: int, *, kind: bytes, mode: int, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(str(path))
    member.type, member.mode, member.size = kind, mode, size
    member.uid = member.gid = owner
    return member


def unpack(stream: IO[bytes], *, limit: int, encoded: Sequence[str] = ()) -> dict[str, str]:
    """Every regular text file of an archive that untrusted code may have shaped, `limit` bytes together; files whose
    names end with one of `encoded` as base64, whatever their bytes.

    Nothing is written anywhere, and of content no more than twice the limit is read. `SandboxError` for what is no
    archive.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            found = dict(_texts(archive, limit, encoded))
    except (tarfile.TarError, EOFError) as cause:
        raise SandboxError(f"the work folder cannot be read: {cause}") from cause
    return dict(sorted(found.items()))


def _texts(archive: tarfile.TarFile, limit: int, encoded: Sequence[str]) -> Iterator[tuple[str, str]]:
    left, passed = limit, 0
    for member in archive:
        passed += member.size
        if passed > 2 * limit:
            return
        name = member.name.removeprefix("./")
        if not member.isreg() or member.size > left or any(map(is_skipped, name.split("/"))):
            continue
        try:
            check_path(name)
            file = archive.extractfile(member)
        except SandboxError:
            continue
        data = b"" if file is None else file.read()
        text = as_text(name, data, encoded)
        if text is None:
            continue
        left -= len(data)
        yield name, text
