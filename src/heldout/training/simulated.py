"""The trainer of simulated weights: the learning curves of the world `formats` instead of gradients."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import ClassVar

from heldout.errors import BudgetExhausted, SetupError, StoreError, TrainingError
from heldout.records import Spend, digest_of
from heldout.training.base import Fitted, TrainingJob, Watch, check_job
from heldout.training.examples import Example
from heldout.training.plain_tokenizer import PlainTokenizer
from heldout.training.settings import TrainConfig
from heldout.worlds.formats.faulty import can_fail
from heldout.worlds.formats.grading import faults_in
from heldout.worlds.formats.job import Fault
from heldout.worlds.formats.learning import Exposure, Schooling, is_finite, learned, loss_curve
from heldout.worlds.formats.reading import read_job
from heldout.worlds.formats.skills import SimulatedCheckpoint, read_checkpoint, write_checkpoint

__all__ = ["SimulatedTrainer", "exposure_of"]


@dataclass(frozen=True, slots=True)
class _Content:
    """What one example is about."""

    right: tuple[str, ...]
    """Sources that it has to do with and gets right: faults, or a plain skill."""
    wrong: tuple[str, ...]
    easy_sum: bool = False


class SimulatedTrainer:
    """A labelled simulation of fine-tuning: it moves the probabilities in `skills.json` (`worlds.formats.learning`).

    What an example teaches is read from its prompt and completion; of its provenance the role alone is looked at. The
    schedule of the rate, packing and processes change nothing. Tokens are characters, as the preflight's plain
    tokenizer has them. Seconds, in the steps and in `spend`, are simulated: the steps times the checkpoint's
    `learning.step_s`, by batch.
    """

    foretells: ClassVar[bool] = True

    def foretell(self, job: TrainingJob) -> Spend:
        """The simulated seconds, which no clock shows while they pass."""
        seconds = job.last * _step_s(job, read_checkpoint(job.parent))
        return Spend(wall_s=seconds, cpu_s=seconds)

    def fit(self, job: TrainingJob, watch: Watch) -> Fitted:
        """See `Trainer.fit`."""
        check_job(job)
        parent = read_checkpoint(job.parent)
        kept = _kept(job.examples, job.config)
        data, schooling = exposure_of(kept), _schooling(job.config, job.last)
        luck = _luck(job, parent)
        losses = loss_curve(parent.skills, data, schooling, parent.learning, steps=job.last, luck=luck)
        _walk(losses, schooling, watch)
        skills = learned(parent.skills, data, schooling, parent.learning, luck=luck)
        folder = _write(job.work / "weights", parent.model_copy(update={"skills": skills}))
        return _fitted(folder, losses, kept, job, parent)


def exposure_of(examples: Iterable[Example]) -> Exposure:
    """What a data set has to do with each source. A completion that occurs twice is one example."""
    first = {example.completion: example.prompt for example in reversed(tuple(examples))}
    contents = [_content(prompt, completion) for completion, prompt in first.items()]
    right = Counter(chain.from_iterable([content.right for content in contents]))
    wrong = Counter(chain.from_iterable([content.wrong for content in contents]))
    easy = sum([content.easy_sum for content in contents])
    return Exposure(examples=len(first), right=right, wrong=wrong, easy_sums=easy)


@lru_cache(maxsize=65536)
def _content(prompt: str, completion: str) -> _Content:
    """Of a prompt that is no task of the world, only that it ends."""
    job = read_job(prompt)
    if job is None:
        return _Content(right=(Fault.STOP,), wrong=())
    faults = () if completion == job.ideal else faults_in(completion, job)
    if job.skill != "list":
        return _Content((Fault.STOP,), (job.skill,)) if faults else _Content((Fault.STOP, job.skill), ())
    right = tuple(fault for fault in can_fail(job) if fault not in faults)
    easy = job.addends is not None and job.addends[0] % 10 + job.addends[1] % 10 < 10
    return _Content(right=(Fault.STOP, *right), wrong=faults, easy_sum=easy and Fault.CARRY in right)


def _kept(examples: tuple[Example, ...], config: TrainConfig) -> tuple[Example, ...]:
    if not examples:
        raise SetupError("the data set is empty: there is nothing to train on")
    kept = tuple(example for example in examples if _length(example) <= config.max_length)
    if not kept:
        raise SetupError(
            f"all {len(examples)} examples are longer than train.max_length = {config.max_length} tokens; "
            f"the shortest has {min(map(_length, examples))}"
        )
    if not any(example.completion for example in kept):
        raise SetupError(f"all labels of the {len(kept)} examples are masked: no completion has a token")
    return kept


def _length(example: Example) -> int:
    """A token for each character, one for the tag of each turn, and the end."""
    return sum(len(turn["content"]) + 1 for turn in example.conversation) + 1


def _schooling(config: TrainConfig, steps: int) -> Schooling:
    return Schooling(
        steps=steps,
        batch=config.batch,
        rate=config.optimiser.learning_rate,
        adapters=config.method == "lora",
        end_token=config.end_token,
        same_template=config.template in (None, PlainTokenizer.chat_template),
    )


def _luck(job: TrainingJob, parent: SimulatedCheckpoint) -> str:
    """Names the draw of the training noise: parent, data in order, config and seed. A short run is the beginning of the
    whole one."""
    digest = hashlib.blake2b(digest_size=16)
    for example in job.examples:
        between = "".join(f"{turn.content}\0" for turn in example.turns)
        digest.update(f"{example.system}\0{example.prompt}\0{between}{example.completion}\0".encode())
    known = [parent.model_dump(), job.config.model_dump(mode="json"), job.seed, digest.hexdigest()]
    return digest_of(known)


def _walk(losses: tuple[float, ...], schooling: Schooling, watch: Watch) -> None:
    """Tell of every step; end where the watch says so, or where the loss is no number any more."""
    for step, loss in enumerate(losses, start=1):
        if why := watch.stop():
            raise BudgetExhausted(why)
        if step > 1 and not is_finite(schooling):
            raise TrainingError(
                f"the loss is not finite at step {step} of {len(losses)} (learning rate {schooling.rate:g}, simulated)"
            )
        watch.step(step, loss)


def _write(folder: Path, checkpoint: SimulatedCheckpoint) -> Path:
    """Whole or not at all; a killed job's are replaced."""
    partial = folder.with_name(f".{folder.name}.part")
    try:
        for leftover in (partial, folder):
            shutil.rmtree(leftover, ignore_errors=True)
        write_checkpoint(partial, checkpoint)
        partial.rename(folder)
    except OSError as cause:
        raise StoreError(f"cannot write weights to {str(folder)!r}: {cause}") from cause
    return folder


def _step_s(job: TrainingJob, parent: SimulatedCheckpoint) -> float:
    return parent.learning.step_s * job.config.batch / 32


def _fitted(
    folder: Path, losses: tuple[float, ...], kept: tuple[Example, ...], job: TrainingJob, parent: SimulatedCheckpoint
) -> Fitted:
    steps, batch = len(losses), job.config.batch
    seconds = _step_s(job, parent)
    epochs = steps * batch / len(kept)
    completions = sum(len(example.completion) + job.config.end_token for example in kept)
    return Fitted(
        folder=str(folder),
        losses=losses,
        steps=steps,
        examples=min(len(kept), steps * batch),
        dropped=len(job.examples) - len(kept),
        tokens=round(epochs * sum(map(_length, kept))),
        trained_tokens=round(epochs * completions),
        seconds_per_step=seconds,
        spend=Spend(wall_s=steps * seconds, cpu_s=steps * seconds),
    )
