"""The Winner's Curse in LLM Self-Improvement Loops (arXiv 2610.09239), run again (its section 7)."""

from heldout.studies.winners_curse.arms import RULES, WORLDS, Arm, World
from heldout.studies.winners_curse.closed_forms import closed_forms
from heldout.studies.winners_curse.real_model import RealPlan, real_model
from heldout.studies.winners_curse.simulated_loop import simulated_loop
from heldout.studies.winners_curse.simulation import SimulatedRun, simulate
from heldout.studies.winners_curse.study import study

__all__ = [
    "RULES",
    "WORLDS",
    "Arm",
    "RealPlan",
    "SimulatedRun",
    "World",
    "closed_forms",
    "real_model",
    "simulate",
    "simulated_loop",
    "study",
]
