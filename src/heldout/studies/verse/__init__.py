"""VERSE, a verified self-evolving optimizer for agent harnesses (arXiv 2610.02616), in simulation (its section 7)."""

from heldout.studies.verse.arms import ARMS, FOUR, Arm, Sizes, World, run_config
from heldout.studies.verse.bench import Bench, Plan
from heldout.studies.verse.runs import Result, run_once
from heldout.studies.verse.study import study

__all__ = ["ARMS", "FOUR", "Arm", "Bench", "Plan", "Result", "Sizes", "World", "run_config", "run_once", "study"]
