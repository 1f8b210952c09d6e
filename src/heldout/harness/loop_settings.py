"""The settings of a tool loop: the run's, and what a candidate may change of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pydantic import Field

from heldout.errors import HarnessError
from heldout.records import Record

__all__ = ["LOOP_FILE", "LOOP_RANGES", "LoopSettings", "ToolLoopOptions", "read_loop_file"]

LOOP_FILE = "harness_code/loop.toml"

LOOP_RANGES: Mapping[str, tuple[int, int]] = {
    "max_turns": (1, 100),
    "obs_cap": (1024, 12288),
    "keep_full_turns": (4, 32),
}
"""What `loop.toml` may set, and between which bounds, both allowed. `max_turns` only ever shrinks the run's."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What holds in an episode."""

    max_turns: int
    obs_cap: int
    """Bytes of a command's output that the model is shown."""
    keep_full_turns: int
    """Newest turns whose output stays in full; older ones shrink to a line."""


class ToolLoopOptions(Record):
    """`solver.options` of the harness `tool_loop`."""

    sandbox: str = "bubblewrap"
    """Kind of sandbox: `bubblewrap`, `docker` or `package.module:Class`."""
    max_turns: int = Field(default=30, ge=1, le=100)
    """Replies of the model in one episode."""
    obs_cap: int = Field(default=4096, ge=1024, le=12288)
    """Bytes of a command's output that the model is shown; a candidate's `loop.toml` may set another."""
    keep_full_turns: int = Field(default=12, ge=4, le=32)
    """Newest turns whose output stays in full; a candidate's `loop.toml` may set another number."""
    command_timeout_s: float = Field(default=30.0, gt=0.0, le=86400.0)
    """Longest time of one command."""
    wall_s: float = Field(default=900.0, gt=0.0)
    """Longest time of an episode: no turn begins later, and no command lasts longer."""
    max_format_errors: int = Field(default=3, ge=1, le=100)
    """Replies in a row without a usable command that end an episode."""
    hook_timeout_s: float = Field(default=2.0, gt=0.0, le=60.0)
    """Longest time of one call of a candidate's hook."""

    def settings(self, declared: Mapping[str, int]) -> LoopSettings:
        """What holds for a candidate that declares this in its `loop.toml`."""
        return LoopSettings(
            max_turns=min(self.max_turns, declared.get("max_turns", self.max_turns)),
            obs_cap=declared.get("obs_cap", self.obs_cap),
            keep_full_turns=declared.get("keep_full_turns", self.keep_full_turns),
        )


@lru_cache(maxsize=256)
def read_loop_file(text: str) -> Mapping[str, int]:
    """The settings in the text of a `loop.toml`; `HarnessError` with the ranges for anything else."""
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as cause:
        raise HarnessError(f"{LOOP_FILE} cannot be read as TOML: {cause}") from cause
    for key, value in found.items():
        if key not in LOOP_RANGES:
            raise HarnessError(f"{LOOP_FILE} has no setting {key!r}; allowed are {_allowed()}")
        low, high = LOOP_RANGES[key]
        if type(value) is not int or not low <= value <= high:
            raise HarnessError(f"{LOOP_FILE}: {key} = {value!r} is no whole number from {low} to {high}")
    return found


def _allowed() -> str:
    return ", ".join(f"{key} ({low} to {high})" for key, (low, high) in LOOP_RANGES.items())
