"""The files of a run's candidates, and the differences between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from heldout.errors import StoreError
from heldout.records import Candidate, Edit, apply_edits
from heldout.report.diffs import FileDiff, diff_files
from heldout.store import RunFolder

__all__ = ["CandidateFiles"]


class CandidateFiles:
    """Files by digest, each folder read once; None for what is not there or was tampered with."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._read: dict[str, Mapping[str, str] | None] = {}

    def files(self, digest: str | None) -> Mapping[str, str] | None:
        """The folder of a candidate."""
        if digest is None:
            return None
        if digest not in self._read:
            try:
                self._read[digest] = self._run.load(digest).files
            except StoreError:
                self._read[digest] = None
        return self._read[digest]

    def diff(self, old: str | None, new: str | None, *, without: Collection[str] = ()) -> tuple[FileDiff, ...] | None:
        """What differs between two candidates, but for the files `without`."""
        before, after = self.files(old), self.files(new)
        if before is None or after is None:
            return None
        return tuple(one for one in diff_files(before, after) if one.path not in without)

    def edited(self, old: str, edits: Iterable[Edit]) -> tuple[FileDiff, ...] | None:
        """What edits would have made of a candidate."""
        before = self.files(old)
        return None if before is None else diff_files(before, apply_edits(Candidate(files=before), edits).files)
