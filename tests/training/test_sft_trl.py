"""TRL: its loss on the same batch is ours, and it is a trainer like ours."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_parents import counting, example, job, tiny_parent

from heldout.errors import BudgetExhausted, SetupError, TrainingError
from heldout.store.weights import weights_digest
from heldout.training import Example, Watch
from heldout.training.loading import quiet
from heldout.training.trainer import TransformersTrainer
from heldout.training.trl_backend import TrlTrainer

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

OURS, TRL = TransformersTrainer(), TrlTrainer()

SHAPES = {
    "plain": {},
    "packing": {"packing": True},
    "accumulation": {"accumulate": 2},
    "lora": {"method": "lora", "lora": {"rank": 2}},
}


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return tiny_parent(tmp_path / "parent")


def their_loss(folder: Path, work: Path, examples: tuple[Example, ...]) -> float:
    """Loss of one step of `SFTTrainer` as a user of TRL writes it: conversational prompts and completions."""
    rows = [
        {
            "prompt": [
                *([{"role": "system", "content": one.system}] if one.system else []),
                {"role": "user", "content": one.prompt},
            ],
            "completion": [{"role": "assistant", "content": one.completion}],
        }
        for one in examples
    ]
    told: list[float] = []

    class Told(trl.SFTTrainer):  # type: ignore[name-defined,misc]
        def training_step(self, *args: object, **options: object) -> torch.Tensor:
            loss: torch.Tensor = super().training_step(*args, **options)
            told.append(float(loss))
            return loss

    with quiet():
        settings = trl.SFTConfig(
            output_dir=str(work),
            max_steps=1,
            per_device_train_batch_size=len(rows),
            completion_only_loss=True,
            max_length=64,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            dataloader_pin_memory=False,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        Told(model=str(folder), args=settings, train_dataset=datasets.Dataset.from_list(rows)).train()
    (loss,) = told
    return loss


def test_the_loss_of_a_step_equals_trls_on_the_same_batch(parent: Path, tmp_path: Path) -> None:
    examples = (*counting(7), example("write b", "bb", system="Be brief."))
    one = job(tmp_path, parent, examples=examples, batch=8, until=1)
    assert OURS.fit(one, Watch()).losses == pytest.approx((their_loss(parent, tmp_path / "trl", examples),), abs=1e-5)


@pytest.mark.parametrize("shape", [pytest.param(name, id=name) for name in SHAPES])
def test_the_backend_gives_the_losses_of_ours_at_every_step(parent: Path, tmp_path: Path, shape: str) -> None:
    ours = OURS.fit(job(tmp_path, parent, name="ours", **SHAPES[shape]), Watch())
    theirs = TRL.fit(job(tmp_path, parent, name="theirs", **SHAPES[shape]), Watch())
    assert theirs.losses == pytest.approx(ours.losses, abs=1e-5)
    same = {"steps", "examples", "dropped", "tokens", "trained_tokens", "resumed_from"}
    assert theirs.model_dump(include=same) == ours.model_dump(include=same)
    file = "adapter_model.safetensors" if shape == "lora" else "model.safetensors"
    mine, other = (load_file(Path(fitted.folder) / file) for fitted in (ours, theirs))
    assert all(torch.allclose(mine[name], other[name], atol=1e-4) for name in mine | other)
    assert {f.name for f in Path(ours.folder).iterdir()} == {f.name for f in Path(theirs.folder).iterdir()}


def test_equal_jobs_give_equal_weights_and_other_generators_are_left_alone(parent: Path, tmp_path: Path) -> None:
    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.random()
    random.seed(1)
    np.random.seed(1)
    first = TRL.fit(job(tmp_path, parent, name="a"), Watch())
    assert (random.random(), np.random.random()) == expected
    again = TRL.fit(job(tmp_path, parent, name="b"), Watch())
    assert weights_digest(Path(first.folder)) == weights_digest(Path(again.folder))


def test_the_backend_is_watched_and_goes_on_from_its_checkpoint(parent: Path, tmp_path: Path) -> None:
    whole = TRL.fit(job(tmp_path, parent, name="whole"), Watch())
    seen: list[int] = []
    watch = Watch(step=lambda number, _: seen.append(number), stop=lambda: "enough" if len(seen) >= 3 else "")
    with pytest.raises(BudgetExhausted, match=r"^enough$"):
        TRL.fit(job(tmp_path, parent), watch)
    assert seen == [1, 2, 3]
    with pytest.raises(BudgetExhausted, match=r"^enough$"):
        TRL.fit(job(tmp_path, parent), watch)
    assert seen == [1, 2, 3]
    resumed = TRL.fit(job(tmp_path, parent), Watch())
    assert resumed.resumed_from == 3
    assert resumed.losses == whole.losses
    assert weights_digest(Path(resumed.folder)) == weights_digest(Path(whole.folder))


def test_the_backend_refuses_what_ours_refuses(parent: Path, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="the data set is empty"):
        TRL.fit(job(tmp_path, parent, examples=()), Watch())
    with pytest.raises(SetupError, match=r"train\.batch = 5 is no multiple of accumulate = 2"):
        TRL.fit(job(tmp_path, parent, batch=5, accumulate=2), Watch())
    huge = {"learning_rate": 1e20, "clip": 0.0, "warmup": 0.0}
    with pytest.raises(TrainingError, match=r"the loss of step \d is nan"):
        TRL.fit(job(tmp_path, parent, optimiser=huge), Watch())
    assert not (tmp_path / "work" / "weights").exists()


@pytest.mark.slow
def test_two_processes_of_the_backend_give_the_losses_of_one(parent: Path, tmp_path: Path) -> None:
    one = OURS.fit(job(tmp_path, parent, name="one"), Watch())
    shared = job(tmp_path, parent, name="two", processes=2)
    two = TRL.fit(shared, Watch())
    assert two.losses == pytest.approx(one.losses, abs=1e-5)
    # Its checkpoints tell what both have spent, all but the launcher's start.
    assert 0.5 * two.spend.cpu_s < TRL.spent(shared).cpu_s < two.spend.cpu_s
