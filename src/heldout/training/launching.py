"""Training in several processes: they are started, watched through files, and lost together.

work/job.json        what each process reads       work/worker.log      what they print
work/progress.jsonl  (step, loss), as they come    work/stop            why they must end
work/result.json     what the first one gives      work/error-N.json    what ended process N
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import ValidationError

from heldout import errors
from heldout.errors import HeldoutError, StoreError, TrainingError, boundary
from heldout.records import Record, Spend
from heldout.store.folders import write_atomic
from heldout.training.base import Fitted, TrainingJob, Watch
from heldout.training.examples import Example
from heldout.training.metering import Meter
from heldout.training.settings import TrainConfig

__all__ = ["WorkerError", "WorkerJob", "launch"]

_POLL_S = 0.05
_GRACE_S = 15.0
_LOG_TAIL = 2_000


class WorkerJob(Record):
    """A `TrainingJob` on disk."""

    function: str
    """`module:function` that trains: (job, watch) to `Fitted`."""
    owner: int
    """Process that waits for the result; the workers end where it is gone."""
    parent: str
    examples: tuple[Example, ...]
    config: TrainConfig
    seed: int
    work: str
    steps: int | None
    bases: Mapping[str, str]
    endless: bool

    def job(self) -> TrainingJob:
        """As a trainer takes it."""
        return TrainingJob(
            parent=Path(self.parent),
            examples=self.examples,
            config=self.config,
            seed=self.seed,
            work=Path(self.work),
            steps=self.steps,
            bases={digest: Path(folder) for digest, folder in self.bases.items()},
            endless=self.endless,
        )


class WorkerError(Record):
    """A deliberate error of one process, on disk."""

    kind: str
    """Name of the class in `errors`."""
    message: str
    missing: bool = False

    def raised(self) -> HeldoutError:
        """As it was raised there."""
        if self.kind == "TrainingError":
            return TrainingError(self.message, missing=self.missing)
        found: type[HeldoutError] = getattr(errors, self.kind)
        return found(self.message)


def launch(function: str, job: TrainingJob, watch: Watch, *, earlier: Spend) -> Fitted:
    """Run `function` in `job.config.processes` processes that share each step, with torch's elastic launcher.

    The first process's losses and weights count; seconds are those of all of them. `TrainingError` that is missing
    where a process was lost. `earlier` is what a killed launch of the same job has spent.
    """
    with boundary(StoreError, f"cannot write to {str(job.work)!r}"):
        job.work.mkdir(parents=True, exist_ok=True)
        for name in ("progress.jsonl", "stop", "result.json", *(file.name for file in job.work.glob("error-*.json"))):
            (job.work / name).unlink(missing_ok=True)
    write_atomic(job.work / "job.json", _order(function, job).model_dump_json())
    meter = Meter()
    with (job.work / "worker.log").open("wb") as log:
        process = subprocess.Popen(_command(job), stdout=log, stderr=subprocess.STDOUT, env=_environment())
        try:
            _attend(process, job.work, watch)
        finally:
            _end(process)
    fitted = _result(job.work, process.returncode)
    # A worker counts itself alone; starting them and importing torch is not free.
    own = meter.spend(children=True)
    devices = job.config.processes if fitted.spend.gpu_s else 0
    return fitted.model_copy(update={"spend": earlier + own.model_copy(update={"gpu_s": own.wall_s * devices})})


def _order(function: str, job: TrainingJob) -> WorkerJob:
    return WorkerJob(
        function=function,
        owner=os.getpid(),
        parent=str(job.parent.resolve()),
        examples=job.examples,
        config=job.config,
        seed=job.seed,
        work=str(job.work.resolve()),
        steps=job.steps,
        bases={digest: str(folder.resolve()) for digest, folder in job.bases.items()},
        endless=job.endless,
    )


def _command(job: TrainingJob) -> list[str]:
    # `accelerate launch` starts the same launcher, but only where it finds several GPUs.
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=0"]
    processes = f"--nproc-per-node={job.config.processes}"
    return [*launcher, processes, "-m", "heldout.training.worker", str((job.work / "job.json").resolve())]


def _environment() -> dict[str, str]:
    # Threads: see `sft`. The interface: by default gloo looks up the host's name, which not every machine knows.
    fixed = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}), **os.environ, **fixed}


def _attend(process: subprocess.Popen[bytes], work: Path, watch: Watch) -> None:
    """Pass the steps on, and the wish to stop, until the processes have ended."""
    told, stopping = 0, False
    while True:
        ended = _ended(process)
        told = _tell(work / "progress.jsonl", told, watch.step)
        if ended:
            return
        if not stopping and (words := watch.stop()):
            write_atomic(work / "stop", words)
            stopping = True


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=_POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _tell(progress: Path, told: int, step: Callable[[int, float], object]) -> int:
    """Report the whole lines after byte `told`; returns where they end."""
    if not progress.is_file():
        return told
    with progress.open("rb") as file:
        file.seek(told)
        whole = file.read().rpartition(b"\n")[0]
    for line in whole.splitlines():
        number, loss = json.loads(line)
        step(int(number), float(loss))
    return told + len(whole) + 1 if whole else told


def _end(process: subprocess.Popen[bytes]) -> None:
    """The launcher ends its workers when it is asked to."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _result(work: Path, code: int) -> Fitted:
    try:
        return Fitted.model_validate_json((work / "result.json").read_bytes())
    except (OSError, ValidationError):
        raise _cause(work, code) from None


def _cause(work: Path, code: int) -> HeldoutError:
    """Why there is no result: what a process said, the accidents first, or that one was lost."""
    told = [WorkerError.model_validate_json(file.read_bytes()) for file in sorted(work.glob("error-*.json"))]
    if told:
        return min(told, key=lambda error: not error.missing).raised()
    log = (work / "worker.log").read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:]
    return TrainingError(f"a process was lost (the launcher ended with {code}): {log.strip()}", missing=True)
