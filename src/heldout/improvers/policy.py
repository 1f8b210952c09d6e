"""How the catalogue improver works, as numbers in a skill file that it may change itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

__all__ = ["POLICY_FILE", "RANGES", "Policy", "read_policy"]

POLICY_FILE = "skills/policy.md"

RANGES: Mapping[str, tuple[int, int]] = {"probes": (0, 24), "canaries": (0, 3), "edit_size": (1, 3)}
"""Lowest and highest value; a number outside is taken as the nearest inside."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Its numbers. They say how much of what is offered gets used, never how much is offered."""

    probes: int = 8
    """Units that one episode spends at most."""
    canaries: int = 0
    """Passing tasks on which a draft runs once more before it is submitted, beyond the probe kit's own canary."""
    edit_size: int = 1
    """Entries of the catalogue in one proposal, at most; those after the first must have helped before."""

    def changed(self, **steps: int) -> Policy:
        """With these steps added to its numbers, kept in their ranges."""
        return replace(self, **{name: _within(name, getattr(self, name) + step) for name, step in steps.items()})

    def text(self) -> str:
        """The skill file."""
        return (
            "# Policy\n\n"
            "The lines below are read at the start of an episode; a number outside its range is taken as the nearest "
            "inside.\n\n"
            f"- probes: {self.probes} (units that one episode spends at most, {_range('probes')})\n"
            f"- canaries: {self.canaries} (passing tasks on which a draft runs once more before it is submitted, "
            f"{_range('canaries')})\n"
            f"- edit_size: {self.edit_size} (entries in one proposal at most; those after the first must have helped "
            f"before, {_range('edit_size')})\n"
        )


def read_policy(text: str, default: Policy) -> Policy:
    """The policy that a skill file states; a line that is missing or unreadable leaves the default's number."""
    found = {name: int(number) for name, number in re.findall(r"^- ([a-z_]+): ([0-9]{1,6})\b", text, re.MULTILINE)}
    known = {field.name for field in fields(Policy)}
    return replace(default, **{name: _within(name, number) for name, number in found.items() if name in known})


def _within(name: str, number: int) -> int:
    lowest, highest = RANGES[name]
    return min(highest, max(lowest, number))


def _range(name: str) -> str:
    lowest, highest = RANGES[name]
    return f"{lowest} to {highest}"
