"""One process of a training that several share: `python -m heldout.training.worker job.json`, under a launcher."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from heldout.errors import BudgetExhausted, HeldoutError, TrainingError
from heldout.registry import load
from heldout.store.folders import write_atomic
from heldout.training.base import Watch
from heldout.training.launching import WorkerError, WorkerJob

__all__ = ["main"]


def main(order_file: str) -> int:
    """Train, and leave the result or the error beside the order; returns the exit code."""
    order = WorkerJob.model_validate_json(Path(order_file).read_bytes())
    work, process = Path(order.work), int(os.environ.get("RANK", "0"))
    train = load(order.function, among={}, what="training function")
    try:
        fitted = train(order.job(), _watch(order, work))
    except HeldoutError as error:
        missing = isinstance(error, TrainingError) and error.missing
        told = WorkerError(kind=type(error).__name__, message=str(error), missing=missing)
        write_atomic(work / f"error-{process}.json", told.model_dump_json())
        # All processes agree on a stop and end by themselves; of another error the others may not know.
        return 0 if isinstance(error, BudgetExhausted) else 1
    if process == 0:
        write_atomic(work / "result.json", fitted.model_dump_json())
    return 0


def _watch(order: WorkerJob, work: Path) -> Watch:
    """Progress into a file, and the wish to stop from one; asked of the first process alone."""

    def step(number: int, loss: float) -> None:
        with (work / "progress.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([number, loss]) + "\n")

    def stop() -> str:
        if not _alive(order.owner):
            raise TrainingError(f"process {order.owner}, which waits for this training, is gone", missing=True)
        file = work / "stop"
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    return Watch(step=step, stop=stop)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
