"""The loops: programs that move track heads forward under gates."""

from heldout.loops.base import LOOPS, SKILL_LOOPS, Found, Loop, check_loop, edits_of, load_loop, preset
from heldout.loops.noise import measure_noise
from heldout.loops.recorder import Recorder
from heldout.loops.session import CandidateStore, Scored, Session, TrainingGround, gain_over, mean_score, score_column

__all__ = [
    "LOOPS",
    "SKILL_LOOPS",
    "CandidateStore",
    "Found",
    "Loop",
    "Recorder",
    "Scored",
    "Session",
    "TrainingGround",
    "check_loop",
    "edits_of",
    "gain_over",
    "load_loop",
    "mean_score",
    "measure_noise",
    "preset",
    "score_column",
]
