"""Kinds of sandbox that fail."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from heldout.errors import SandboxError
from heldout.sandbox import Sandbox, Scene


@dataclass(frozen=True)
class ClosedSandboxes:
    """Works, it says, and then cannot start."""

    fingerprint: str = "closed"

    def fault(self) -> str | None:
        return None

    def open(self, scene: Scene) -> AbstractContextManager[Sandbox]:
        raise SandboxError(f"no room for {len(scene.files)} files")
