"""Generalizable skill optimization and its rivals (GSO, arXiv 2609.39148), in simulation (its section 7)."""

from heldout.studies.gso.arms import ARMS, Arm, Sizes, World, run_config
from heldout.studies.gso.bench import Bench, Plan
from heldout.studies.gso.runs import Result, run_once
from heldout.studies.gso.study import study

__all__ = ["ARMS", "Arm", "Bench", "Plan", "Result", "Sizes", "World", "run_config", "run_once", "study"]
