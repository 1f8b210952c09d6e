"""A training that is killed or stopped goes on from its checkpoint, and gives the same weights."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tiny_parents import counting, job, tiny_parent

from heldout.errors import BudgetExhausted, StoreError, TrainingError
from heldout.store.weights import weights_digest
from heldout.training import Watch, sft
from heldout.training.checkpoints import newest
from heldout.training.metering import accidents
from heldout.training.trainer import TransformersTrainer

TRAINER = TransformersTrainer()

CHILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from tiny_parents import job
from heldout.training import Watch, sft
from heldout.training.trainer import TransformersTrainer

def step(number, loss):
    print(number, flush=True)
    time.sleep(60 if number == 5 else 0)

TransformersTrainer().fit(job(Path({tmp!r}), Path({parent!r}), **{changes!r}), Watch(step=step))
"""


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return tiny_parent(tmp_path / "parent", dropout=0.3)


def stop_after(steps: int) -> Watch:
    seen: list[int] = []
    return Watch(step=lambda number, _: seen.append(number), stop=lambda: "enough" if len(seen) >= steps else "")


def steps_kept(work: Path) -> list[str]:
    return sorted(folder.name for folder in work.glob("checkpoint-*"))


ADAPTERS = {"method": "lora", "lora": {"rank": 2, "dropout": 0.3}}


@pytest.mark.parametrize(
    "changes", [pytest.param({}, id="full"), pytest.param(ADAPTERS, id="lora", marks=pytest.mark.slow)]
)
def test_a_killed_training_gives_the_same_digest_as_an_unbroken_one(
    parent: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    unbroken = TRAINER.fit(job(tmp_path, parent, name="unbroken", **changes), Watch())
    code = CHILD.format(tests=str(Path(__file__).parent), tmp=str(tmp_path), parent=str(parent), changes=changes)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = next(line for line in child.stdout if line.strip() == "5")
        child.send_signal(signal.SIGKILL)
    assert told
    assert child.returncode == -signal.SIGKILL
    assert steps_kept(tmp_path / "work") == ["checkpoint-0000004"]
    resumed = TRAINER.fit(job(tmp_path, parent, **changes), Watch())
    assert resumed.resumed_from == 4
    assert weights_digest(Path(resumed.folder)) == weights_digest(Path(unbroken.folder))
    assert resumed.losses == unbroken.losses
    same = {"steps", "examples", "tokens", "trained_tokens"}
    assert resumed.model_dump(include=same) == unbroken.model_dump(include=same)


def test_a_stopped_training_keeps_its_last_step_and_ends_as_an_unbroken_one(parent: Path, tmp_path: Path) -> None:
    unbroken = TRAINER.fit(job(tmp_path, parent, name="unbroken"), Watch())
    with pytest.raises(BudgetExhausted, match=r"^enough$"):
        TRAINER.fit(job(tmp_path, parent), stop_after(3))
    assert steps_kept(tmp_path / "work") == ["checkpoint-0000003"]
    resumed = TRAINER.fit(job(tmp_path, parent), Watch())
    assert resumed.resumed_from == 3
    assert weights_digest(Path(resumed.folder)) == weights_digest(Path(unbroken.folder))


def test_what_the_broken_part_cost_is_counted(parent: Path, tmp_path: Path) -> None:
    watch = stop_after(2)
    slow = Watch(step=lambda number, loss: (time.sleep(0.2), watch.step(number, loss)), stop=watch.stop)
    with pytest.raises(BudgetExhausted):
        TRAINER.fit(job(tmp_path, parent), slow)
    assert TRAINER.fit(job(tmp_path, parent), Watch()).spend.wall_s > 0.4


def test_a_short_run_hands_its_checkpoint_to_the_whole_and_not_the_reverse(parent: Path, tmp_path: Path) -> None:
    assert TRAINER.fit(job(tmp_path, parent, until=4), Watch()).steps == 4
    assert TRAINER.fit(job(tmp_path, parent), Watch()).resumed_from == 4
    assert TRAINER.fit(job(tmp_path, parent, until=5), Watch()).resumed_from == 0


@pytest.mark.parametrize(
    "changes", [{"seed": 2}, {"examples": counting(5)}, {"batch": 5}, {"optimiser": {"learning_rate": 1e-4}}], ids=str
)
def test_the_checkpoint_of_another_job_is_not_used(parent: Path, tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(BudgetExhausted):
        TRAINER.fit(job(tmp_path, parent), stop_after(3))
    fresh = TRAINER.fit(job(tmp_path, parent, **changes), Watch())
    assert fresh.resumed_from == 0


def test_a_checkpoint_that_was_not_finished_is_not_used(parent: Path, tmp_path: Path) -> None:
    with pytest.raises(BudgetExhausted):
        TRAINER.fit(job(tmp_path, parent), stop_after(3))
    folder = tmp_path / "work" / "checkpoint-0000003"
    folder.rename(tmp_path / "work" / ".checkpoint-0000003.part")
    assert TRAINER.fit(job(tmp_path, parent), Watch()).resumed_from == 0


def test_a_damaged_checkpoint_is_told(parent: Path, tmp_path: Path) -> None:
    with pytest.raises(BudgetExhausted):
        TRAINER.fit(job(tmp_path, parent), stop_after(3))
    file = tmp_path / "work" / "checkpoint-0000003" / "optimiser.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(StoreError, match="cannot be read; delete it to train from the beginning"):
        TRAINER.fit(job(tmp_path, parent), Watch())


def test_nothing_in_a_checkpoint_is_pickled_and_older_ones_are_removed(parent: Path, tmp_path: Path) -> None:
    TRAINER.fit(job(tmp_path, parent), Watch())
    assert steps_kept(tmp_path / "work") == ["checkpoint-0000006"]
    names = {file.name for file in (tmp_path / "work" / "checkpoint-0000006").iterdir()}
    assert names == {"parameters.safetensors", "optimiser.safetensors", "state.json"}


def test_a_disk_that_refuses_a_checkpoint_is_told(parent: Path, tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match="cannot write the checkpoint"):
        TRAINER.fit(job(tmp_path, parent), Watch())


def test_no_checkpoint_is_found_where_there_is_none(tmp_path: Path) -> None:
    assert newest(tmp_path / "nowhere", "job", until=9) is None


def test_memory_that_is_not_there_is_missing_and_no_verdict_on_the_recipe() -> None:
    with pytest.raises(TrainingError, match="step 3: out of memory") as caught, accidents("step 3"):
        torch.empty(1 << 60, dtype=torch.uint8)
    assert caught.value.missing
    with pytest.raises(TrainingError) as caught, accidents("step 3"):
        raise MemoryError
    assert caught.value.missing
    with pytest.raises(RuntimeError, match="shape"), accidents("step 3"):
        torch.zeros(2).view(3)


def test_a_step_that_runs_out_of_memory_is_missing(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(_rows: object) -> None:
        torch.empty(1 << 60, dtype=torch.uint8)

    monkeypatch.setattr(sft, "collate", greedy)
    with pytest.raises(TrainingError, match="step 1: out of memory") as caught:
        TRAINER.fit(job(tmp_path, parent), Watch())
    assert caught.value.missing
