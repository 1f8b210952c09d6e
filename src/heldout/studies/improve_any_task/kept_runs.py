"""What every run of a part left, kept beside its tables, so that these can be written again without running."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

from heldout.errors import SetupError, StoreError
from heldout.records import Record
from heldout.store import write_atomic
from heldout.studies.improve_any_task.null_gates import NullRates
from heldout.studies.improve_any_task.plans import Plan
from heldout.studies.improve_any_task.runs import Result

__all__ = ["KeptRun", "KeptRuns", "keep_runs", "kept_path", "read_runs"]


class KeptRun(Record):
    """One line of the file: a run, by the name of its arm."""

    arm: str
    result: Result


class _Head(Record):
    """The first line."""

    plan: Plan
    rates: tuple[NullRates, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """All that a part was made of."""

    plan: Plan
    runs: tuple[KeptRun, ...]
    rates: tuple[NullRates, ...] = ()
    """Of gates under no effect, which are no runs."""


def kept_path(target: Path, part: str) -> Path:
    """JSON lines, compressed."""
    return target / f"runs_{part}.jsonl.gz"


def keep_runs(kept: KeptRuns, path: Path) -> Path:
    """Equal runs give equal bytes."""
    head = _Head(plan=kept.plan, rates=kept.rates).model_dump_json()  # whole, since the plan's defaults may change
    lines = (head, *(run.model_dump_json(exclude_defaults=True) for run in kept.runs))
    text = "".join(f"{line}\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, gzip.compress(text.encode("utf-8"), mtime=0))
    return path


def read_runs(path: Path) -> KeptRuns:
    """`SetupError` where there are none; `StoreError` for a file that this version did not write."""
    if not path.is_file():
        part = path.name.removeprefix("runs_").partition(".")[0]
        raise SetupError(
            f"there is no {str(path)!r}, from which tables could be written again: "
            f"run part {part} with heldout bench improve_any_task --only {part}"
        )
    try:
        head, *runs = _lines(path)
        first = _Head.model_validate_json(head)
        return KeptRuns(first.plan, tuple(KeptRun.model_validate_json(line) for line in runs), first.rates)
    except (OSError, EOFError, ValueError) as cause:
        raise StoreError(f"{str(path)!r} is not what this version writes; remove it and run the study again") from cause


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
