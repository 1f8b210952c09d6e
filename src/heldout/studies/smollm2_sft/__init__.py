"""One real step with a real model: SmolLM2-135M, low-rank adapters, one narrow family of instructions."""

from heldout.studies.smollm2_sft.running import one_step
from heldout.studies.smollm2_sft.study import step_config, study

__all__ = ["one_step", "step_config", "study"]
