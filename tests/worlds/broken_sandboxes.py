"""Kinds of sandbox that fail, as infrastructure does: at once, or in the middle of a grading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from heldout.errors import SandboxError
from heldout.sandbox import Conversation, Sandbox, Scene, make_sandboxes

__all__ = ["Closed", "DeafJudge"]


class Closed:
    """No sandbox can be opened."""

    fingerprint = "closed"

    def fault(self) -> str | None:
        """Why."""
        return "closed for the day"

    @contextmanager
    def open(self, scene: Scene) -> Iterator[Sandbox]:  # noqa: ARG002
        """Never."""
        raise SandboxError("closed for the day")
        yield


@dataclass
class _Judging:
    """A sandbox whose conversation breaks off after a few lines."""

    real: Sandbox

    def talk(self, argv: Sequence[str]) -> Conversation:
        """A conversation that ends early."""
        return _Short(self.real.talk(argv))


class _Short:
    def __init__(self, real: Conversation) -> None:
        self._real = real
        self._left = 3

    def ask(self, line: str, *, timeout_s: float) -> str:
        """Three answers, then none."""
        self._left -= 1
        if self._left < 0:
            raise SandboxError("the machine went away")
        return self._real.ask(line, timeout_s=timeout_s)

    def close(self) -> None:
        """Close it."""
        self._real.close()


class DeafJudge:
    """The sandbox with the hidden tests breaks down while they run; the other one works."""

    fingerprint = "deaf"

    def fault(self) -> str | None:
        """It seems to work."""
        return None

    @contextmanager
    def open(self, scene: Scene) -> Iterator[Sandbox]:
        """A real sandbox."""
        with make_sandboxes("bubblewrap").open(scene) as real:
            yield _Judging(real) if scene.mounts else real  # type: ignore[misc]
