"""Candidates as folders that are named after their content, and small files beside them.

blobs/<digest>/…        the candidate's files, as a person would write them
blobs/<digest>.json     what its files cannot say: digest of weights, parent
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from heldout.errors import SetupError, StoreError
from heldout.records import Candidate, Record
from heldout.store.base import FULL

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_FOLDER_BYTES",
    "Manifest",
    "export_candidate",
    "fault_of_files",
    "load_candidate",
    "read_folder",
    "save_blob",
    "save_candidate",
    "write_atomic",
]

_NAME_BYTES = 200
"""Longest name of a file or folder, below what file systems take."""

MAX_FILE_BYTES = 1 << 20
"""Largest file that a user's folder may hold."""

MAX_FOLDER_BYTES = 16 << 20
"""Largest user's folder: every candidate of a run is kept whole."""

_NOT_CONTENT = frozenset({".git", "__pycache__", ".DS_Store"})
"""Names in a user's folder that are left out."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Manifest(Record):
    """What lies beside a candidate's folder."""

    weights: str | None = None
    parent: str | None = None


def save_candidate(root: Path, candidate: Candidate) -> Path:
    """Keep the candidate as `root/<digest>/`, whole or not at all; returns that folder.

    Saving the same content again changes nothing (the first parent stays). `StoreError` for unsafe paths.
    """
    folder = root / candidate.digest
    if folder.is_dir():
        return folder
    _check_paths(candidate.files)
    manifest = Manifest(weights=candidate.weights, parent=candidate.parent)
    write_atomic(root / f"{candidate.digest}.json", manifest.model_dump_json() + "\n")
    try:
        _write_folder(folder, candidate.files)
    except StoreError:
        # Another process may have saved the same content meanwhile.
        if not folder.is_dir():
            raise
    return folder


def load_candidate(root: Path, digest: str) -> Candidate:
    """The candidate of this digest; `StoreError` where it is absent or its content was changed."""
    folder, manifest_file = root / digest, root / f"{digest}.json"
    if not _DIGEST.fullmatch(digest) or not folder.is_dir() or folder.is_symlink():
        raise StoreError(f"no candidate {digest!r} in {str(root)!r}")
    try:
        manifest = Manifest.model_validate_json(manifest_file.read_bytes())
        files = {name: path.read_bytes().decode() for name, path in _walk(folder)}
    except (OSError, UnicodeDecodeError, ValidationError) as cause:
        raise StoreError(f"candidate {digest!r} in {str(root)!r} cannot be read: {cause}") from cause
    candidate = Candidate(files=files, weights=manifest.weights, parent=manifest.parent)
    if candidate.digest != digest:
        raise StoreError(
            f"the content of {str(folder)!r} was changed: its digest is now {candidate.digest}. "
            "Put the files back, or copy them elsewhere and start a run from that folder"
        )
    return candidate


def read_folder(path: Path) -> Candidate:
    """A user's folder of text files as a candidate; `SetupError` says which file cannot be one."""
    if not path.is_dir():
        raise SetupError(f"no folder {str(path)!r}")
    files: dict[str, str] = {}
    total = 0
    try:
        for name, file in _walk(path, skip=_NOT_CONTENT):
            total += file.stat().st_size
            if file.stat().st_size > MAX_FILE_BYTES or total > MAX_FOLDER_BYTES:
                raise SetupError(
                    f"{str(file)!r} is too large: a candidate's files may have {MAX_FILE_BYTES} bytes, "
                    f"and {MAX_FOLDER_BYTES} together"
                )
            files[name] = _text(file)
    except StoreError as cause:
        raise SetupError(f"{str(path)!r} cannot be a candidate: {cause}") from cause
    except OSError as cause:
        raise SetupError(f"cannot read {cause.filename!r}: {cause.strerror}") from cause
    if not files:
        raise SetupError(f"{str(path)!r} holds no files")
    return Candidate(files=files)


def export_candidate(candidate: Candidate, to: Path) -> Path:
    """Write the candidate's files to a new or empty folder, whole or not at all."""
    if to.is_symlink() or (to.exists() and not (to.is_dir() and not any(to.iterdir()))):
        raise SetupError(f"{str(to)!r} exists and is not an empty folder; name another one")
    _check_paths(candidate.files)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
    except OSError as cause:
        raise SetupError(f"cannot create {str(to.parent)!r}: {cause.strerror}") from cause
    _write_folder(to, candidate.files)
    return to


def save_blob(root: Path, content: str | bytes, *, name: str) -> Path:
    """Keep a small file as `root/name`, whole or not at all; returns its path."""
    _check_paths({name: ""})
    write_atomic(root / name, content)
    return root / name


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace a file: readers see the old content or the new one, also after a crash."""
    temporary = _beside(path)
    try:
        _write_file(temporary, content.encode() if isinstance(content, str) else content)
        temporary.replace(path)
    except OSError as cause:
        temporary.unlink(missing_ok=True)
        raise _refused(path, cause) from cause


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    temporary = _beside(folder)
    try:
        temporary.mkdir()
        for name, text in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            _write_file(temporary / name, text.encode())
        temporary.rename(folder)
    except OSError as cause:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _refused(folder, cause) from cause


def _refused(path: Path, cause: OSError) -> StoreError:
    if cause.errno not in FULL:
        return StoreError(f"cannot write {str(path)!r}: {cause.strerror}")
    return StoreError(
        f"the disk is full: cannot write {str(path)!r}. Nothing recorded before is lost: "
        "make room, then go on with heldout run … --resume"
    )


def _write_file(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _beside(path: Path) -> Path:
    """A free name in the same file system; what a killed process left under it is removed."""
    temporary = path.parent / f".heldout-{os.getpid()}-{threading.get_ident()}.part"
    if temporary.is_dir():
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        temporary.unlink(missing_ok=True)
    return temporary


def _walk(folder: Path, *, skip: frozenset[str] = frozenset()) -> Iterator[tuple[str, Path]]:
    """Relative name and path of every file, sorted; `StoreError` at a link or anything else that is no file."""
    for path in sorted(folder.rglob("*")):
        if skip.intersection(path.relative_to(folder).parts):
            continue
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            raise StoreError(f"{str(path)!r} is a link or a special file")
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path


def _text(file: Path) -> str:
    data = file.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise SetupError(f"{str(file)!r} is not UTF-8 text; a candidate is a set of text files")
    return text


def fault_of_files(files: Mapping[str, str]) -> str | None:
    """What keeps files from becoming a candidate's folder, or None: unsafe paths, odd characters, too many bytes."""
    try:
        _check_paths(files)
        sizes = [len(text.encode()) for text in files.values()]
    except StoreError as fault:
        return str(fault)
    except UnicodeEncodeError as fault:
        return f"a text that is no UTF-8: {fault.reason} at position {fault.start}"
    long = next((part for name in files for part in name.split("/") if len(part.encode()) > _NAME_BYTES), None)
    if long is not None:
        return f"the name {long[:40]!r}… is longer than {_NAME_BYTES} bytes"
    if max(sizes, default=0) > MAX_FILE_BYTES or sum(sizes) > MAX_FOLDER_BYTES:
        return f"{sum(sizes)} bytes; at most {MAX_FILE_BYTES} in a file and {MAX_FOLDER_BYTES} in all"
    return None


def _check_paths(files: Mapping[str, str]) -> None:
    for name in files:
        parts = name.split("/")
        if "" in parts or "." in parts or ".." in parts or "\0" in name or "\\" in name:
            raise StoreError(f"{name!r} is not a safe path: it must be relative, without '..', inside the folder")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        if clash := files.keys() & set(above):
            raise StoreError(f"{min(clash)!r} cannot be a file and the folder of {name!r}")
