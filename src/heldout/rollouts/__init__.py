"""Evaluations: schedule, cache, run, grade, record."""

from heldout.rollouts.engine import Engine, Grade, Sweep, outcome_key, paired_seed, run_job
from heldout.rollouts.executors import (
    Executor,
    InlineExecutor,
    JobTimeout,
    ProcessExecutor,
    ThreadExecutor,
    make_executor,
)
from heldout.rollouts.progress import Progress, QuietProgress

__all__ = [
    "Engine",
    "Executor",
    "Grade",
    "InlineExecutor",
    "JobTimeout",
    "ProcessExecutor",
    "Progress",
    "QuietProgress",
    "Sweep",
    "ThreadExecutor",
    "make_executor",
    "outcome_key",
    "paired_seed",
    "run_job",
]
