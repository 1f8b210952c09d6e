"""Where tasks of the world begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from heldout.errors import TaskError, need
from heldout.records import Task
from heldout.sandbox import Scene
from heldout.worlds.tables.generator import ENCODED, job_of, read_id
from heldout.worlds.tables.job import DECOY_SHARE, SUMMARY_SHARE, Job

__all__ = ["TablesEnvironment"]

_VERSION = 1
_LIBRARY = "/tables"
"""Where a sandbox has the packages that programs use."""
_PACKAGES = ("openpyxl", "et_xmlfile")


@dataclass(frozen=True, slots=True)
class TablesEnvironment:
    """Work folders, made anew from the id of a task. It holds nothing but three numbers."""

    seed: int
    summary: float = SUMMARY_SHARE
    decoy: float = DECOY_SHARE
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        name = f"tables-{_VERSION}:{self.seed}:{self.summary:g}:{self.decoy:g}"
        object.__setattr__(self, "fingerprint", name)

    def scene(self, task: Task, *, seed: int) -> Scene:
        """The input and what lies beside it, with openpyxl and the toolbox; every run begins alike."""
        del seed
        files = dict(self._job(task).files)
        return Scene(files=files, encoded=ENCODED, mounts=_mounts(), env={"PYTHONPATH": _LIBRARY})

    def _job(self, task: Task) -> Job:
        job = job_of(read_id(task.id, seed=self.seed, summary=self.summary, decoy=self.decoy))
        if task.input != job.request:
            raise TaskError(f"task {task.id!r} has another text than the world of seed {self.seed} gives it")
        return job


@lru_cache(maxsize=1)
def _mounts() -> Mapping[str, str]:
    """The folders of openpyxl and of the toolbox. Of the world's own modules a sandbox shows no other: they can make
    every answer."""
    need("openpyxl", extra="tables")
    specs = {name: find_spec(name) for name in _PACKAGES}
    shown = {
        str(Path(spec.origin).parent): f"{_LIBRARY}/{name}" for name, spec in specs.items() if spec and spec.origin
    }
    toolbox = Path(__file__).parent / "toolbox"
    return {**shown, str(toolbox): f"{_LIBRARY}/heldout/worlds/tables/toolbox"}
