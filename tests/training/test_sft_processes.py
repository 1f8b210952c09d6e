"""Several processes share each step; they are watched, stopped and lost together."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tiny_parents import job, tiny_parent

from heldout.errors import BudgetExhausted, SetupError, TrainingError
from heldout.store.weights import weights_digest
from heldout.training import Watch
from heldout.training.launching import WorkerError, WorkerJob
from heldout.training.trainer import TransformersTrainer
from heldout.training.worker import main

TRAINER = TransformersTrainer()


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    return tiny_parent(tmp_path / "parent")


def order(tmp_path: Path, parent: Path, **changes: object) -> Path:
    """The file that a worker reads."""
    one = job(tmp_path, parent, **changes)
    one.work.mkdir()
    told = WorkerJob(
        function="heldout.training.sft:fine_tune",
        owner=changes.pop("owner", os.getpid()),
        parent=str(one.parent),
        examples=one.examples,
        config=one.config,
        seed=one.seed,
        work=str(one.work),
        steps=None,
        endless=False,
        bases={},
    )
    (one.work / "job.json").write_text(told.model_dump_json())
    return one.work / "job.json"


def test_a_job_on_disk_is_the_job(tmp_path: Path, parent: Path) -> None:
    one = replace(job(tmp_path, parent), steps=3, bases={"b": tmp_path / "base"}, endless=True)
    told = WorkerJob(
        function="m:f", owner=1, parent=str(parent), examples=one.examples, config=one.config, seed=one.seed,
        work=str(one.work), steps=3, bases={"b": str(tmp_path / "base")}, endless=True,
    )  # fmt: skip
    assert WorkerJob.model_validate_json(told.model_dump_json()).job() == one


def launched(watched: psutil.Process) -> list[psutil.Process]:
    """The workers, below their launcher."""
    return [one for one in watched.children(recursive=True) if "heldout.training.worker" in " ".join(one.cmdline()[:4])]


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one(parent: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, float]] = []
    shape = {"batch": 6, "accumulate": 2, "packing": True}
    one = TRAINER.fit(job(tmp_path, parent, name="one", **shape), Watch())
    watch = Watch(step=lambda number, loss: seen.append((number, loss)))
    two = TRAINER.fit(job(tmp_path, parent, name="two", processes=2, **shape), watch)
    assert two.losses == pytest.approx(one.losses, abs=1e-5)
    assert seen == list(enumerate(two.losses, start=1))
    assert two.spend.cpu_s > one.spend.cpu_s
    same = {"steps", "examples", "dropped", "tokens", "trained_tokens"}
    assert two.model_dump(include=same) == one.model_dump(include=same)
    # Both processes count.
    assert two.peak_memory_mb > 300


@pytest.mark.slow
def test_a_lost_process_is_missing_and_the_checkpoint_stays(parent: Path, tmp_path: Path) -> None:
    def kill_one(number: int, _loss: float) -> None:
        if number == 5:
            launched(psutil.Process())[1].send_signal(signal.SIGKILL)

    long = {"processes": 2, "steps": 4000, "checkpoint_every": 4}
    with pytest.raises(TrainingError) as caught:
        TRAINER.fit(job(tmp_path, parent, **long), Watch(step=kill_one))
    assert caught.value.missing, str(caught.value)
    assert not launched(psutil.Process())
    assert list((tmp_path / "work").glob("checkpoint-*"))


@pytest.mark.slow
def test_a_stop_reaches_the_processes(parent: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    watch = Watch(step=lambda number, _: seen.append(number), stop=lambda: "enough" if seen else "")
    with pytest.raises(BudgetExhausted, match=r"^enough$"):
        TRAINER.fit(job(tmp_path, parent, processes=2, steps=100_000), watch)
    assert list((tmp_path / "work").glob("checkpoint-*"))


@pytest.mark.slow
def test_a_checkpoint_tells_what_every_process_spent(parent: Path, tmp_path: Path) -> None:
    one = job(tmp_path, parent, processes=2)
    whole = TRAINER.fit(one, Watch()).spend
    # The launcher's own start is all that it leaves out, and no process counts twice.
    assert 0.5 * whole.cpu_s < TRAINER.spent(one).cpu_s < whole.cpu_s


def test_a_worker_by_itself_leaves_the_result_of_one_process(parent: Path, tmp_path: Path) -> None:
    file = order(tmp_path, parent)
    assert main(str(file)) == 0
    alone = TRAINER.fit(job(tmp_path, parent, name="alone"), Watch())
    assert weights_digest(tmp_path / "work" / "weights") == weights_digest(Path(alone.folder))
    assert len((tmp_path / "work" / "progress.jsonl").read_text().splitlines()) == 6


def test_a_worker_tells_its_error_and_its_exit_code_ends_the_others(parent: Path, tmp_path: Path) -> None:
    file = order(tmp_path, parent, max_length=8)
    assert main(str(file)) == 1
    told = WorkerError.model_validate_json((tmp_path / "work" / "error-0.json").read_bytes())
    assert isinstance(told.raised(), SetupError)
    assert "train.max_length = 8" in str(told.raised())


def test_a_worker_that_is_asked_to_stop_ends_without_fault(parent: Path, tmp_path: Path) -> None:
    file = order(tmp_path, parent)
    (tmp_path / "work" / "stop").write_text("enough")
    assert main(str(file)) == 0
    told = WorkerError.model_validate_json((tmp_path / "work" / "error-0.json").read_bytes())
    assert isinstance(told.raised(), BudgetExhausted)


def test_a_worker_ends_where_nobody_waits_for_it(parent: Path, tmp_path: Path) -> None:
    file = order(tmp_path, parent)
    gone = WorkerJob.model_validate_json(file.read_bytes()).model_copy(update={"owner": 1 << 22})
    file.write_text(gone.model_dump_json())
    assert main(str(file)) == 1
    error = WorkerError.model_validate_json((tmp_path / "work" / "error-0.json").read_bytes()).raised()
    assert isinstance(error, TrainingError)
    assert error.missing
