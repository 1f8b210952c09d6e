"""Task sources, graders, the duplicate audit, and the division into sealed roles."""

from heldout.tasks.base import Grader, Item, TaskSource
from heldout.tasks.check import DuplicateExample, SourceEntry, SourceReport, check_source, list_sources
from heldout.tasks.duplicates import DuplicatePair, clusters, find_duplicates, normalise_text
from heldout.tasks.graders import CheckedGrader, load_grader
from heldout.tasks.roles import OpenRole, SealedRole, SealedTask
from heldout.tasks.sources import CsvSource, FileOptions, FileSource, JsonlSource, load_source, read_items
from heldout.tasks.splitting import Division, divide
from heldout.tasks.taskset import TaskSet, load_tasks

__all__ = [
    "CheckedGrader",
    "CsvSource",
    "Division",
    "DuplicateExample",
    "DuplicatePair",
    "FileOptions",
    "FileSource",
    "Grader",
    "Item",
    "JsonlSource",
    "OpenRole",
    "SealedRole",
    "SealedTask",
    "SourceEntry",
    "SourceReport",
    "TaskSet",
    "TaskSource",
    "check_source",
    "clusters",
    "divide",
    "find_duplicates",
    "list_sources",
    "load_grader",
    "load_source",
    "load_tasks",
    "normalise_text",
    "read_items",
]
