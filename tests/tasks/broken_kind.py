"""Kinds of sandbox in which nothing can be computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from heldout.errors import SandboxError
from heldout.sandbox import Completed, Conversation, Limits, Scene


@dataclass(frozen=True)
class Broken:
    """It does not start."""

    fingerprint: str = "broken"

    def fault(self) -> str | None:
        return "it cannot start"

    @contextmanager
    def open(self, scene: Scene) -> Iterator[_Says]:
        del scene
        raise SandboxError("it cannot start")
        yield _Says()


@dataclass(frozen=True)
class _Says:
    output: str = ""
    killed: Literal["", "time"] = ""
    exit_code: int = 1

    def run(self, argv: Sequence[str], *, stdin: str = "", limits: Limits | None = None) -> Completed:
        del argv, stdin, limits
        return Completed(exit_code=self.exit_code, output=self.output, killed=self.killed)

    def snapshot(self) -> Mapping[str, str]:
        return {}

    def talk(self, argv: Sequence[str]) -> Conversation:
        raise SandboxError(f"nothing to talk to: {argv}")


class Empty(Broken):
    """Its Python finds nothing."""

    @contextmanager
    def open(self, scene: Scene) -> Iterator[_Says]:
        del scene
        yield _Says("Traceback: no module")


class GivesUp(Broken):
    """Its program ends in the middle."""

    @contextmanager
    def open(self, scene: Scene) -> Iterator[_Says]:
        del scene
        yield _Says("ready\nTraceback")


class Slow(Broken):
    """Its program is ended."""

    @contextmanager
    def open(self, scene: Scene) -> Iterator[_Says]:
        del scene
        yield _Says("ready\n", killed="time", exit_code=137)
