"""The trainer `transformers`: supervised fine-tuning of any causal language model, here or in several processes."""

from __future__ import annotations

from heldout.errors import need
from heldout.records import Spend
from heldout.training.base import Fitted, TrainingJob, Watch
from heldout.training.launching import launch

__all__ = ["TransformersTrainer"]


class TransformersTrainer:
    """Full fine-tuning and LoRA; needs the extra `train`."""

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        """See `Trainer.fit`. A killed job's checkpoints in `job.work` are gone on from, with the same result."""
        for module in ("torch", "transformers", "accelerate", "safetensors"):
            need(module, extra="train")
        if job.config.method == "lora":
            need("peft", extra="train")
        # Only here, since they import torch.
        from heldout.training.sft import fine_tune

        if job.config.processes > 1:
            return launch("heldout.training.sft:fine_tune", job, watch, earlier=self.spent(job))
        return fine_tune(job, watch)

    def spent(self, job: TrainingJob) -> Spend:
        """See `Resuming.spent`."""
        from heldout.training.checkpoints import spent

        return spent(job)
