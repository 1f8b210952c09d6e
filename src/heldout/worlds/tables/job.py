"""One generated task of the world `tables`: its work folder, what can go wrong in it, and the programs that do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heldout.records import Record
from heldout.worlds.tables.parts import Part

__all__ = ["DECOY_SHARE", "SUMMARY_SHARE", "Job", "Origin"]

SUMMARY_SHARE, DECOY_SHARE = 0.3, 0.25
"""Shares of tasks that ask for a summary file, and that have a decoy beside the input."""


class Origin(Record):
    """What a task is generated from; the reference of a task."""

    seed: int
    """Of the world."""
    family: str
    number: int
    """From 0, in its family and vocabulary."""
    vocabulary: str
    summary: float = SUMMARY_SHARE
    decoy: float = DECOY_SHARE

    @property
    def words(self) -> str:
        """What draws for the task are seeded with."""
        return f"{self.seed} {self.family} {self.vocabulary} {self.number} {self.summary:g} {self.decoy:g}"


@dataclass(frozen=True, slots=True)
class Job:
    """A pure function of (world seed, family, number, vocabulary). Paths are relative to the work folder."""

    id: str
    """Says nothing about the family, the names or what may go wrong."""
    family: str
    """Operation: filter, join, pivot, …"""
    request: str
    """What the solver reads."""
    files: Mapping[str, str]
    """The work folder at the start; workbooks as base64 (`Scene.encoded`)."""
    parts: tuple[Part, ...]
    """What must be decided rightly in this task, in the order of the parts; STEPS is always the last."""
    steps: int
    """Steps that can slip, 2 to 4."""
    names: Mapping[Part, str]
    """The literal that is right for FILE, SHEET, COLUMNS and LAYOUT in this task, where it has that part (for COLUMNS
    the key column's header): what a skill may bind by name, rightly here and wrongly elsewhere."""
    literals: tuple[str, ...]
    """Every file, sheet and column name of the task: what no guide may hold."""
    summary: str | None
    """Name of the summary file that the request asks for, or None."""
    decoy: bool
    origin: Origin
