"""Whole episodes of train tasks, kept beside the journal under their outcome's key."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from heldout.errors import StoreError
from heldout.records import Trajectory
from heldout.store.folders import write_atomic

__all__ = ["FolderTraces", "MemoryTraces", "Traces"]


class Traces(Protocol):
    """Where trajectories are kept. Safe to share between threads."""

    def save(self, key: str, trajectory: Trajectory) -> None:
        """Keep the trajectory of an outcome key; an older one is replaced."""

    def load(self, key: str) -> Trajectory | None:
        """The trajectory of an outcome key; None where the episode left none (it crashed)."""


@dataclass(frozen=True, slots=True)
class FolderTraces:
    """One JSON file a trajectory, readable without Heldout."""

    folder: Path

    def save(self, key: str, trajectory: Trajectory) -> None:
        self.folder.mkdir(exist_ok=True)
        write_atomic(self._path(key), trajectory.model_dump_json(exclude_defaults=True))

    def load(self, key: str) -> Trajectory | None:
        path = self._path(key)
        if not path.exists():
            return None
        try:
            return Trajectory.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as cause:
            raise StoreError(f"the trace {str(path)!r} is damaged: {cause}") from cause

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


@dataclass(frozen=True, slots=True)
class MemoryTraces:
    """For studies and tests: nothing reaches the disk."""

    kept: MutableMapping[str, Trajectory]

    def save(self, key: str, trajectory: Trajectory) -> None:
        self.kept[key] = trajectory

    def load(self, key: str) -> Trajectory | None:
        return self.kept.get(key)
