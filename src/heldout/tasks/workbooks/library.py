"""Packages of this machine, shown read-only to a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["LIBRARY", "Library", "library"]

LIBRARY = "/library"
"""Where packages are mounted."""
_SINGLE = "library"
"""Folder of the work folder for modules that are a single file, which cannot be mounted."""


@dataclass(frozen=True, slots=True)
class Library:
    """What a scene needs for some packages."""

    mounts: Mapping[str, str]
    files: Mapping[str, str]

    @property
    def path(self) -> tuple[str, ...]:
        """What `sys.path` needs inside."""
        return (LIBRARY, *([f"/work/{_SINGLE}"] if self.files else []))


def library(names: Sequence[str]) -> Library:
    """Those of the packages that are installed here, with the shared libraries that lie beside them."""
    mounts: dict[str, str] = {}
    files: dict[str, str] = {}
    for name in names:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        if origin.name != "__init__.py":
            files[f"{_SINGLE}/{origin.name}"] = origin.read_text(encoding="utf-8")
            continue
        shared = origin.parent.with_name(f"{name}.libs")
        for folder in (origin.parent, *([shared] if shared.is_dir() else [])):
            mounts[str(folder)] = f"{LIBRARY}/{folder.name}"
    return Library(mounts, files)
