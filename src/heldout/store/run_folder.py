"""A run on disk: which file is where, and how a person's name for a run is found."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from heldout.config import RunConfig, config_digest, load_config, read_toml
from heldout.errors import SetupError
from heldout.records import Candidate
from heldout.store.folders import load_candidate, save_candidate, write_atomic
from heldout.store.toml import toml_text

__all__ = ["RunFolder", "list_runs"]

RUNS = Path("runs")
"""Where runs lie, below the working folder, unless a person says otherwise."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of one run; also an `os.PathLike`."""

    path: Path

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> RunFolder:
        """Make a new run's folder; `SetupError` where something else is there already.

        What a run left that was stopped before its config was written is no obstacle.
        """
        folder = cls(Path(path))
        ours = {
            one.name for one in (folder.blobs, folder.logs, folder.traces, folder.lock, folder.weights, folder.work)
        }
        if folder.is_run:
            raise SetupError(f"{str(path)!r} holds a run already; continue it with --resume, or name another folder")
        if folder.path.exists() and not (
            folder.path.is_dir() and {entry.name for entry in folder.path.iterdir()} <= ours
        ):
            raise SetupError(f"{str(path)!r} exists and is not empty; name another folder")
        try:
            folder.blobs.mkdir(parents=True, exist_ok=True)
            folder.logs.mkdir(exist_ok=True)
        except OSError as cause:
            raise SetupError(f"cannot create {str(path)!r}: {cause.strerror}") from cause
        return folder

    @classmethod
    def find(cls, name: str | os.PathLike[str]) -> RunFolder:
        """The run at this path, or of this name in `runs/`; `SetupError` lists the runs that are there."""
        given = Path(name)
        for path in (given, RUNS / given):
            if cls(path).is_run:
                return cls(path)
        nearby = [*list_runs(given), *list_runs(given.parent), *list_runs(RUNS)]
        runs = ", ".join(sorted({str(run.path) for run in nearby}))
        what = "is not the folder of a run (no config.toml)" if given.exists() else "does not exist"
        raise SetupError(f"{str(name)!r} {what}; " + (f"there is {runs}" if runs else "there are no runs here"))

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def blobs(self) -> Path:
        return self.path / "blobs"

    @property
    def index(self) -> Path:
        return self.path / "index.sqlite"

    @property
    def traces(self) -> Path:
        return self.path / "traces"

    @property
    def weights(self) -> Path:
        return self.path / "weights"

    @property
    def work(self) -> Path:
        """Trainings in progress, and the checkpoints that a killed one goes on from."""
        return self.path / "training"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def lock(self) -> Path:
        return self.path / "writer.lock"

    @property
    def is_run(self) -> bool:
        """Whether a run was begun here."""
        return self.config.is_file() and self.blobs.is_dir()

    def save_config(self, config: RunConfig) -> None:
        """Write the resolved config, defaults included; `SetupError` where TOML cannot hold an option."""
        text = toml_text(config.model_dump(mode="json"))
        if config_digest(load_config([tomllib.loads(text)])) != config_digest(config):
            raise SetupError("an option is None, which config.toml cannot hold; leave it out, or give it a value")
        write_atomic(self.config, text)

    def load_config(self) -> RunConfig:
        """The config that the run was started with."""
        return load_config([read_toml(self.config)])

    def save(self, candidate: Candidate) -> Path:
        """Keep a candidate among the run's blobs."""
        return save_candidate(self.blobs, candidate)

    def load(self, digest: str) -> Candidate:
        """A candidate of this run, by its digest."""
        return load_candidate(self.blobs, digest)


def list_runs(folder: str | os.PathLike[str]) -> list[RunFolder]:
    """The runs that lie directly in a folder, by name; none where it does not exist."""
    path = Path(folder)
    if not path.is_dir():
        return []
    return [RunFolder(entry) for entry in sorted(path.iterdir()) if RunFolder(entry).is_run]
