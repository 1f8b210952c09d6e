"""Diagnosis-first post-training and its ablations (ImproveAnyTask, arXiv 2610.06347): its section 7."""

from heldout.studies.improve_any_task.arms import ARMS, Arm, run_config
from heldout.studies.improve_any_task.bench import Bench
from heldout.studies.improve_any_task.plans import Plan, Sizes
from heldout.studies.improve_any_task.runs import Result, run_all
from heldout.studies.improve_any_task.study import study

__all__ = ["ARMS", "Arm", "Bench", "Plan", "Result", "Sizes", "run_all", "run_config", "study"]
