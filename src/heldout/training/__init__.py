"""Training: pocket models, supervised fine-tuning, policy gradients, and data whose provenance is checked."""

from heldout.training.base import TRAINERS, Fitted, Trainer, TrainingJob, Watch
from heldout.training.examples import Example, Provenance, Turn, examples_digest
from heldout.training.settings import LoraSettings, OptimiserSettings, TrainConfig

__all__ = [
    "TRAINERS",
    "Example",
    "Fitted",
    "LoraSettings",
    "OptimiserSettings",
    "Provenance",
    "TrainConfig",
    "Trainer",
    "TrainingJob",
    "Turn",
    "Watch",
    "examples_digest",
]
