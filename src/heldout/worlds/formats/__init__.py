"""The world `formats`: short instructions with verifiable constraints, and separable sources of error."""

from heldout.worlds.formats.faulty import can_fail, faulty_answer
from heldout.worlds.formats.grading import FormatsGrader, faults_in, grade
from heldout.worlds.formats.job import Constraint, Fault, Job, Skill, Wrapper
from heldout.worlds.formats.learner import FormatsLearner, FormatsLearnerOptions
from heldout.worlds.formats.reading import read_job
from heldout.worlds.formats.skills import Learning, Skills, pass_rate, true_accuracy, world_accuracy
from heldout.worlds.formats.source import FormatsOptions, FormatsSource

__all__ = [
    "Constraint",
    "Fault",
    "FormatsGrader",
    "FormatsLearner",
    "FormatsLearnerOptions",
    "FormatsOptions",
    "FormatsSource",
    "Job",
    "Learning",
    "Skill",
    "Skills",
    "Wrapper",
    "can_fail",
    "faults_in",
    "faulty_answer",
    "grade",
    "pass_rate",
    "read_job",
    "true_accuracy",
    "world_accuracy",
]
