"""Task folders in the Harbor format, among them Terminal-Bench 2: reach a state of the work folder in a shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from heldout.benchmarks.harbor_folder import HarborReference, HarborTask, read_folder, task_folders
from heldout.benchmarks.harbor_grading import solution_text, solved_by
from heldout.benchmarks.scenes import Beginning
from heldout.errors import SetupError, TaskError
from heldout.options import read_options
from heldout.records import Record, Task, digest_of
from heldout.sandbox import Limits, Scene, make_sandboxes
from heldout.tasks.base import Item

__all__ = ["HarborEnvironment", "HarborOptions", "HarborSource"]

_SHOWN = 5


class HarborOptions(Record):
    """`tasks.options` of `harbor`."""

    only: Literal["all", "runnable", "base"] = "all"
    """`base` leaves out what needs a container image: other images than plain python, debian or ubuntu, RUN steps,
    files that are no text. `runnable` leaves out only what no sandbox here can run: several containers, tests that
    need the network."""
    image: str | None = None
    """Image of a task whose task.toml names none (environment.docker_image): `{id}` stands for the task's name. Build
    it from the task's environment/Dockerfile."""


class HarborSource:
    """Harbor task folders such as Terminal-Bench 2, graded by their own tests (tasks.path names a folder of them).

    A task is `task.toml`, `instruction.md`, `tests/` with test.sh or test_*.py, and may have `solution/solve.sh` and
    `environment/Dockerfile`. Where the Dockerfile only copies text into a plain python, debian or ubuntu image, the
    task runs in bubblewrap on this machine's base system; else in Docker. There is no network in either. Its work
    folder is called /work: where its texts name its own WORKDIR, they are read so.
    """

    description = "Do what a task asks in a shell; tests of the files that are left decide."
    instruction = (
        "You are in a shell in the folder /work. Do what the task asks by running commands. There is no network. When "
        "you are done, tests look at the files that you leave in /work."
    )
    labels: tuple[str, ...] = ()
    grader = "heldout.benchmarks.harbor_grading:grade_harbor"

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        if path is None:
            raise SetupError("the source 'harbor' reads a folder of task folders: set tasks.path to it")
        self.path = Path(path)
        if not self.path.is_dir():
            raise SetupError(f"the source 'harbor': no such folder {path!r} (tasks.path)")
        self.options = read_options(HarborOptions, options, where="task source 'harbor'")

    @property
    def environment(self) -> HarborEnvironment:
        """The work folder of every task that is kept."""
        found = [task.reference for task in self._tasks()]
        begun = [[task.id, dict(task.files), task.image, task.origin, task.memory_mb] for task in found]
        return HarborEnvironment(
            str(self.path),
            self.options.image,
            tuple(task.id for task in found),
            fingerprint=f"harbor:{digest_of(begun)[:16]}",
        )

    def items(self) -> Sequence[Item]:
        tasks = self._tasks()
        _refuse_what_cannot_run(tasks)
        return [
            Item(
                id=task.reference.id,
                input=task.instruction,
                reference=task.reference.model_dump_json(exclude_defaults=True),
                family=task.category,
                stratum=task.difficulty,
            )
            for task in tasks
        ]

    def solution(self, item: Item) -> str:
        """The answer that the task's own solve.sh makes, run in a sandbox; the empty one where there is none."""
        return solved_by(item.reference)

    def solution_text(self, item: Item) -> str:
        """The texts of `solution/`."""
        return solution_text(item.reference)

    def _tasks(self) -> list[HarborTask]:
        tasks = [read_folder(folder, image=self.options.image) for folder in task_folders(self.path)]
        kept = [task for task in tasks if self._keeps(task)]
        if not kept:
            raise SetupError(
                f"{str(self.path)!r}: tasks.options.only={self.options.only!r} leaves none of its {len(tasks)} tasks: "
                f"{_listed(tasks)}"
            )
        return kept

    def _keeps(self, task: HarborTask) -> bool:
        if self.options.only == "all":
            return True
        return not task.refused and not (self.options.only == "base" and task.needs)


@dataclass(frozen=True, slots=True)
class HarborEnvironment:
    """Reads a task's folder when it begins, so that it holds the content of none."""

    path: str
    image: str | None
    names: tuple[str, ...]
    fingerprint: str

    def scene(self, task: Task, *, seed: int) -> Scene:
        """See `Environment.scene`."""
        del seed  # These tasks begin in the same way in every run.
        if task.id not in self.names:
            raise TaskError(f"task {task.id!r} is not of the source 'harbor' at {self.path!r}")
        folder = next(folder for folder in task_folders(Path(self.path)) if folder.name == task.id)
        return _beginning(read_folder(folder, image=self.image).reference).scene()


def _beginning(task: HarborReference) -> Beginning:
    limits = Limits(wall_s=300.0, cpu_s=300.0, disk_mb=256, memory_mb=task.memory_mb)
    return Beginning(files=task.files, image=task.image, origin=task.origin, limits=limits)


def _refuse_what_cannot_run(tasks: Sequence[HarborTask]) -> None:
    """Before a run, and not as one failed evaluation after the other."""
    refused = [task for task in tasks if task.refused]
    if refused:
        raise SetupError(
            f"{len(refused)} of {len(tasks)} tasks cannot run in a sandbox without network: {_listed(refused)}. "
            'Set tasks.options.only="runnable" to leave them out'
        )
    needy = [task for task in tasks if task.needs]
    fault = make_sandboxes("docker").fault() if needy else None
    if fault is not None:
        raise SetupError(
            f"{len(needy)} of {len(tasks)} tasks need a container image, and Docker does not work here: {fault}. They "
            f'are {_listed(needy)}. Set tasks.options.only="base" to keep the {len(tasks) - len(needy)} that need none'
        )
    without = [task for task in needy if task.reference.image is None]
    if without:
        raise SetupError(
            f"{len(without)} of {len(tasks)} tasks need an image, and their task.toml names none "
            f"(environment.docker_image): {_listed(without)}. Build each from its environment/Dockerfile and set "
            'tasks.options.image to its name, with {id} for the task, or set tasks.options.only="base"'
        )


def _listed(tasks: Sequence[HarborTask]) -> str:
    shown = ", ".join(f"{task.reference.id} ({task.refused or task.needs})" for task in tasks[:_SHOWN])
    return shown + (f" and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else "")
