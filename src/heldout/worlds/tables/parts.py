"""What can go wrong in a task of the world `tables`, part by part, and the rules of a skill that prevent it.

Everything here is a stated assumption of the simulation. A rule is a sentence: the simulated writer and the simulated
solver take a text to hold a rule where this sentence stands in it, white space and case aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["CHANCE", "PARTS_OF_CLASS", "RULES", "SUMMARY_CHANCE", "Part", "Rule"]


class Part(StrEnum):
    """One decision in a task; a task passes where all of its parts are right."""

    OUTPUTS = "outputs"
    """Whether a summary file is written: where it is asked for, and nowhere else."""
    FILE = "file"
    """Which of two files is the input, where a decoy lies beside it."""
    SHEET = "sheet"
    """Which sheet the request is about, in workbooks of several."""
    COLUMNS = "columns"
    """Which column a role of the request is."""
    VALUES = "values"
    """How values are read: numbers stored as text, padded or differently cased keys."""
    OPERATION = "operation"
    """The rule of the operation itself: which duplicate stays, what becomes of unmatched rows, …"""
    PRESERVE = "preserve"
    """What must stay as it is: other sheets, other columns, the order of rows."""
    LAYOUT = "layout"
    """Where and under which header the result goes."""
    STEPS = "steps"
    """A slip while a step is carried out; not a decision, and a part of every task."""


CHANCE: Mapping[Part, float] = {
    Part.OUTPUTS: 0.9,  # of tasks that must not have a summary; where one is asked for, 0.45
    Part.FILE: 0.55,
    Part.SHEET: 0.65,
    Part.COLUMNS: 0.8,
    Part.VALUES: 0.55,
    Part.OPERATION: 0.8,
    Part.PRESERVE: 0.82,
    Part.LAYOUT: 0.7,
}
"""Share of tasks on which a solver gets the part right without any rule for it."""

SUMMARY_CHANCE = 0.45
"""`CHANCE` of OUTPUTS in tasks that ask for a summary file."""

PARTS_OF_CLASS: Mapping[str, tuple[Part, ...]] = {
    "reopen": (Part.COLUMNS, Part.VALUES, Part.OPERATION, Part.STEPS),
    "files": (Part.OUTPUTS, Part.FILE, Part.PRESERVE),
    "shape": (Part.SHEET, Part.LAYOUT),
}
"""Name of a checking rule to the parts whose faults it finds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A useful line of a guide, or of a skill."""

    name: str
    module: str
    """File of the guide's module that it belongs to."""
    text: str
    part: Part | None = None
    """The part that it decides rightly."""
    start: bool = True
    """Whether the hand-written start guide holds it."""


RULES: tuple[Rule, ...] = (
    Rule(
        "outputs",
        "m1_task.md",
        "List the outputs that the request names, and treat any other output as a fault.",
        Part.OUTPUTS,
    ),
    Rule(
        "sheet",
        "m1_task.md",
        "Take the sheet from the words of the request, not from the order of the sheets.",
        Part.SHEET,
        start=False,
    ),
    Rule(
        "ambiguity",
        "m1_task.md",
        "State every rule that the request gives for ties, gaps and duplicates.",
        Part.OPERATION,
    ),
    Rule("headers", "m2_sources.md", "Bind every column to a header that was read from the file.", Part.COLUMNS),
    Rule(
        "decoy",
        "m2_sources.md",
        "Where two files could be meant, take the one that holds every header needed.",
        Part.FILE,
        start=False,
    ),
    Rule(
        "values",
        "m2_sources.md",
        "Look at the values of a column, their types and their spelling, before using it.",
        Part.VALUES,
        start=False,
    ),
    Rule("order", "m3_skill.md", "Write the steps in the order in which their inputs become available."),
    Rule(
        "preserve",
        "m3_skill.md",
        "Name what must stay unchanged, and touch nothing that the request leaves out.",
        Part.PRESERVE,
    ),
    Rule(
        "layout",
        "m3_skill.md",
        "Write down where the result goes and under which header, as the request says it.",
        Part.LAYOUT,
        start=False,
    ),
    Rule("reopen", "m4_validation.md", "Reopen the saved result and compare counts and values with the input."),
    Rule("files", "m4_validation.md", "Compare the files that exist now with those that existed before.", start=False),
    Rule("shape", "m4_validation.md", "Compare sheets and headers of the result with the wanted layout."),
    Rule("first", "m5_attribution.md", "Name the first step whose result differs from its contract."),
    Rule("evidence", "m5_attribution.md", "Keep the observation that shows a fault beside its explanation."),
    Rule("intact", "m5_attribution.md", "Say which finished parts a repair must leave as they are.", start=False),
    Rule("single", "m6_repair.md", "Repair the one faulty step, then carry out only the steps that depend on it."),
    Rule("again", "m6_repair.md", "After a repair run the failed check again before submitting.", start=False),
    Rule("abstain", "m6_repair.md", "Without a supported repair, submit what is verified and say what is open."),
)
"""The 18 useful lines; the start guide lacks 7 of them."""
