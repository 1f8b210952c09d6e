"""Model weights as folders that are named after their content.

weights/<digest>/…        a checkpoint as `transformers` writes it, or adapters (`adapter_config.json`) of another one
weights/<digest>.json     where it came from: parent, data, config, seed (history and not content)
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from heldout.errors import SetupError, StoreError
from heldout.records import Record, digest_of
from heldout.store.folders import write_atomic

__all__ = ["WeightsOrigin", "WeightsStore", "weights_digest"]

_CHUNK = 1 << 20


class WeightsOrigin(Record):
    """What weights were made from."""

    parent: str | None = None
    """Digest of the weights that training began with; None for a checkpoint that was brought."""
    data: str = ""
    """Digest of the training examples."""
    config: str = ""
    """Digest of the training config."""
    seed: int = 0
    source: str = ""
    """Name of a checkpoint that was brought: `pocket:base`, a path."""


@dataclass(frozen=True, slots=True)
class WeightsStore:
    """The weights of one run. Folders appear whole or not at all."""

    root: Path

    def add(self, folder: Path, origin: WeightsOrigin) -> str:
        """Move a finished checkpoint folder into the store and return its digest; the same content is kept once.

        The first origin stays. `StoreError` where the folder is empty or the disk refuses.
        """
        digest = weights_digest(folder)
        target = self.root / digest
        self._note(digest, origin)
        if target.is_dir():
            shutil.rmtree(folder)
            return digest
        try:
            shutil.move(str(folder), str(target))
        except OSError as cause:
            raise StoreError(f"cannot keep weights as {str(target)!r}: {cause}") from cause
        return digest

    def adopt(self, folder: Path, *, source: str) -> str:
        """Keep a copy of a checkpoint that somebody brought; returns its digest.

        No link: what is written to a run's weights must never reach the original.
        """
        digest = weights_digest(folder)
        target = self.root / digest
        if target.is_dir():
            return digest
        partial = self.root / f".{digest}.{os.getpid()}.part"
        try:
            for name, file in _files(folder):
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, partial / name)
            self._note(digest, WeightsOrigin(source=source))
            partial.rename(target)
        except OSError as cause:
            shutil.rmtree(partial, ignore_errors=True)
            if not target.is_dir():
                raise StoreError(f"cannot keep weights as {str(target)!r}: {cause}") from cause
        return digest

    def path(self, digest: str) -> Path:
        """The folder of these weights; `StoreError` where it is absent."""
        folder = self.root / digest
        if not folder.is_dir():
            raise StoreError(f"no weights {digest[:12]!r} in {str(self.root)!r}: pruned, or never kept")
        return folder

    def check(self, digest: str) -> Path:
        """The folder of these weights, whose content is read and compared; `StoreError` where it was changed."""
        folder = self.path(digest)
        found = weights_digest(folder)
        if found != digest:
            raise StoreError(f"the weights in {str(folder)!r} were changed: their digest is now {found[:12]}")
        return folder

    def origin(self, digest: str) -> WeightsOrigin:
        """Where these weights came from; `StoreError` where that is not on record."""
        file = self.root / f"{digest}.json"
        try:
            return WeightsOrigin.model_validate_json(file.read_bytes())
        except (OSError, ValidationError) as cause:
            raise StoreError(f"the origin of weights {digest[:12]!r} cannot be read: {cause}") from cause

    def ancestry(self, digest: str) -> tuple[str, ...]:
        """These weights, their parent, and so on to a checkpoint that was brought."""
        chain = [digest]
        while (parent := self.origin(chain[-1]).parent) is not None:
            if parent in chain:
                raise StoreError(f"weights {digest[:12]!r} descend from themselves")
            chain.append(parent)
        return tuple(chain)

    def prune(self, digest: str) -> None:
        """Delete the folder; digest and origin stay on record."""
        shutil.rmtree(self.root / digest, ignore_errors=True)

    def _note(self, digest: str, origin: WeightsOrigin) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        file = self.root / f"{digest}.json"
        if not file.is_file():
            write_atomic(file, origin.model_dump_json() + "\n")


def weights_digest(folder: Path) -> str:
    """sha-256, hex, of the names and contents of every file below `folder`; `SetupError` where there is none."""
    if not folder.is_dir():
        raise SetupError(f"no folder {str(folder)!r} with weights")
    content = {name: _file_digest(file) for name, file in _files(folder)}
    if not content:
        raise SetupError(f"{str(folder)!r} holds no files")
    return digest_of(content)


def _file_digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as handle:
        while chunk := handle.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Relative name and path of every regular file, in order; hidden ones are left out."""
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name.as_posix(), file
