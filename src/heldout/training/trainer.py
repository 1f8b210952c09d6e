"""The trainer `transformers`: supervised fine-tuning of any causal language model, here or in several processes."""

from __future__ import annotations

from heldout.errors import need
from heldout.records import Spend
from heldout.training.base import Fitted, TrainingJob, Watch, check_job
from heldout.training.launching import launch
from heldout.training.settings import TrainConfig

__all__ = ["TransformersTrainer", "need_training"]


def need_training(config: TrainConfig) -> None:
    """`SetupError` with the command where a library of the extra `train` is not there."""
    for module in ("torch", "transformers", "accelerate", "safetensors"):
        need(module, extra="train")
    if config.method == "lora":
        need("peft", extra="train")


class TransformersTrainer:
    """Full fine-tuning and LoRA; needs the extra `train`."""

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        """See `Trainer.fit`. A killed job's checkpoints in `job.work` are gone on from, with the same result."""
        check_job(job)
        self.ready(job.config)
        # Only here, since they import torch.
        from heldout.training.sft import fine_tune

        if job.config.processes > 1:
            return launch("heldout.training.sft:fine_tune", job, watch, earlier=self.spent(job))
        return fine_tune(job, watch)

    def ready(self, config: TrainConfig) -> None:
        """See `Readying.ready`."""
        need_training(config)

    def spent(self, job: TrainingJob) -> Spend:
        """See `Resuming.spent`. Where there is no checkpoint, it needs no extra."""
        if not any(job.work.glob("checkpoint-*")):
            return Spend()
        self.ready(job.config)
        from heldout.training.checkpoints import spent

        return spent(job)
