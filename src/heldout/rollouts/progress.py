"""How the engine tells a person how far it is; quiet by default."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Progress", "QuietProgress"]


class Progress(Protocol):
    """Receives counts of evaluations. Called from the engine's own thread."""

    def expect(self, evaluations: int) -> None:
        """The run plans this many evaluations in all."""

    def advance(self, *, cost_usd: float) -> None:
        """One evaluation was paid for."""

    def skipped(self, evaluations: int) -> None:
        """This many evaluations were already recorded."""


class QuietProgress:
    """Says nothing."""

    def expect(self, evaluations: int) -> None:
        """Ignore the plan."""

    def advance(self, *, cost_usd: float) -> None:
        """Ignore the evaluation."""

    def skipped(self, evaluations: int) -> None:
        """Ignore what was recorded."""
