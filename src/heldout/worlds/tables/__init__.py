"""The world `tables`: do what a request asks for to small workbooks and CSV files."""

from heldout.worlds.tables.environment import TablesEnvironment
from heldout.worlds.tables.families import FAMILIES, OOD_FAMILIES
from heldout.worlds.tables.generator import job_of, make_job
from heldout.worlds.tables.grading import TablesGrader, grade, read_origin
from heldout.worlds.tables.job import Job, Origin
from heldout.worlds.tables.programs import carried_out, program
from heldout.worlds.tables.source import TablesOptions, TablesSource
from heldout.worlds.tables.symbolic import Played, play
from heldout.worlds.tables.truth import PART_MODULE, PART_STAGE, mean_rate, pass_rate, wrong_parts

__all__ = [
    "FAMILIES",
    "OOD_FAMILIES",
    "PART_MODULE",
    "PART_STAGE",
    "Job",
    "Origin",
    "Played",
    "TablesEnvironment",
    "TablesGrader",
    "TablesOptions",
    "TablesSource",
    "carried_out",
    "grade",
    "job_of",
    "make_job",
    "mean_rate",
    "pass_rate",
    "play",
    "program",
    "read_origin",
    "wrong_parts",
]
