"""A work folder, on disk or in memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Protocol

__all__ = ["DiskFolder", "Folder", "MemoryFolder"]

_KEPT = "/tmp/inputs"
"""Where a sandbox keeps the files of the beginning."""


class Folder(Protocol):
    """Files by name, without folders in it."""

    def names(self) -> list[str]:
        """Every file, in the order of names."""

    def read(self, name: str) -> bytes:
        """The content of a file."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in the place of one of this name."""


class DiskFolder:
    """The folder in which a program was started. The first one that is made keeps a copy of every file; each later one
    puts those files back first, so that a program which mends another begins where that began."""

    def __init__(self) -> None:
        if not os.path.isdir(_KEPT):
            os.mkdir(_KEPT)
            for name in self.names():
                shutil.copyfile(name, os.path.join(_KEPT, name))
            return
        for name in self.names():
            os.remove(name)
        for name in os.listdir(_KEPT):
            shutil.copyfile(os.path.join(_KEPT, name), name)

    def names(self) -> list[str]:
        """Every file, in the order of names."""
        return sorted(entry.name for entry in os.scandir(".") if entry.is_file(follow_symlinks=False))

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with open(name, "rb") as file:
            return file.read()

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in the place of one of this name."""
        with open(name, "wb") as file:
            file.write(data)


class MemoryFolder:
    """Files in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    def names(self) -> list[str]:
        """Every file, in the order of names."""
        return sorted(self.files)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return self.files[name]

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in the place of one of this name."""
        self.files[name] = data
