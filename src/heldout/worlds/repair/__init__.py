"""The world `repair`: mend a bug in a small generated Python package through shell commands."""

from heldout.worlds.repair.environment import RepairEnvironment
from heldout.worlds.repair.generator import generate
from heldout.worlds.repair.grading import RepairGrader, grade, read_reference
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.source import RepairOptions, RepairSource

__all__ = [
    "Package",
    "RepairEnvironment",
    "RepairGrader",
    "RepairOptions",
    "RepairSource",
    "generate",
    "grade",
    "read_reference",
]
