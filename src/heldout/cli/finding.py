"""From a person's name for a run to what it says, and to the candidate that it ended with."""

from __future__ import annotations

from pathlib import Path

from heldout.errors import SetupError
from heldout.records import Candidate
from heldout.report import RUNNING, RunSummary, summary
from heldout.store import Index, RunFolder, read_events

__all__ = ["checked_summary", "final_of"]


def checked_summary(folder: RunFolder) -> RunSummary:
    """What the index says, once every checksum of the journal behind it was looked at: an index outlives damage."""
    for _ in read_events(folder.events):
        pass
    with Index.open(folder.path) as index:
        return summary(index.connection)


def final_of(run: str) -> tuple[RunFolder, Candidate]:
    """The run, and the candidate that it ended with; `SetupError` for a run that has not finished."""
    folder = RunFolder.find(Path(run))
    found = checked_summary(folder)
    if found.status == RUNNING:
        raise SetupError(f"{run!r} has not finished; resume it first: heldout run --resume --out {folder.path}")
    return folder, folder.load(found.final.digest)
