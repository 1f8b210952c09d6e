"""The improver of weights with a language model: it diagnoses, compares strategies, and writes data and configs."""

from heldout.improvers.training_llm.improver import TrainingLlm
from heldout.improvers.training_llm.settings import TrainingLlmOptions

__all__ = ["TrainingLlm", "TrainingLlmOptions"]
