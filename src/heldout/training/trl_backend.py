"""The trainer `trl`: the same jobs through TRL's `SFTTrainer`, for large models on a GPU."""

from __future__ import annotations

from heldout.errors import need
from heldout.records import Spend
from heldout.training.base import Fitted, TrainingJob, Watch, check_job
from heldout.training.launching import launch
from heldout.training.settings import TrainConfig
from heldout.training.trainer import need_training

__all__ = ["TrlTrainer"]


class TrlTrainer:
    """Full fine-tuning and LoRA with TRL's memory savings; needs the extras `train` and `trl`."""

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        """See `Trainer.fit`. The data of each step and the schedule are those of the trainer `transformers`."""
        check_job(job)
        self.ready(job.config)
        # Only here, since they import torch.
        from heldout.training.trl_sft import fine_tune

        if job.config.processes > 1:
            return launch("heldout.training.trl_sft:fine_tune", job, watch, earlier=self.spent(job))
        return fine_tune(job, watch)

    def ready(self, config: TrainConfig) -> None:
        """See `Readying.ready`."""
        need_training(config)
        need("trl", extra="trl")

    def spent(self, job: TrainingJob) -> Spend:
        """See `Resuming.spent`. Where there is no checkpoint, it needs no extra."""
        if not any(job.work.glob("trl-*")):
            return Spend()
        self.ready(job.config)
        from heldout.training.trl_sft import spent

        return spent(job)
