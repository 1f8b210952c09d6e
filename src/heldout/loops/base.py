"""The seam to loops: a program that moves track heads forward under gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from heldout import registry
from heldout.config import read_toml
from heldout.errors import SetupError
from heldout.loops.session import Scored, Session
from heldout.records import Candidate

__all__ = ["LOOPS", "Found", "Loop", "load_loop", "preset"]

LOOPS: Mapping[str, str] = {"winners_curse": "heldout.loops.winners_curse:WinnersCurse"}
"""Short names of the built-in loops."""

PRESETS = ("small", "default", "paper")


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a search ends with; `final` is `start` when nothing improved."""

    start: Scored
    final: Scored


class Loop(Protocol):
    """A loop is made with a session and runs once; it is deterministic given the session's recorded steps."""

    def __init__(self, session: Session) -> None: ...

    def run(self, start: Candidate) -> Found:
        """Search. `BudgetExhausted` passes through, and `found` then says what there is."""

    def found(self, start: Candidate) -> Found:
        """The final selection among the heads and the start, with what is measured so far."""


def load_loop(name: str) -> Any:
    """The loop class that `name` means: a built-in, or `package.module:Class`."""
    return registry.load(name, among=LOOPS, what="loop")


def preset(loop: str, name: str) -> dict[str, Any]:
    """The settings of a built-in loop's preset."""
    if name not in PRESETS:
        raise SetupError(f"no preset {name!r}; there is {', '.join(PRESETS)}")
    if loop not in LOOPS:
        return {}
    table: dict[str, Any] = read_toml(Path(__file__).with_name("presets") / f"{loop}.toml")[name]
    return table
