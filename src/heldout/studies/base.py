"""The seam to studies, and the studies by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from heldout.errors import SetupError
from heldout.registry import load

__all__ = ["REWRITERS", "STUDIES", "Rewriter", "Study", "load_rewriter", "load_study"]

STUDIES: Mapping[str, str] = MappingProxyType(
    {
        "winners_curse": "heldout.studies.winners_curse.study:study",
        "verse": "heldout.studies.verse.study:study",
        "verse_published": "heldout.studies.verse_published.study:study",
        "gso": "heldout.studies.gso.study:study",
        "improve_any_task": "heldout.studies.improve_any_task.study:study",
        "smollm2_sft": "heldout.studies.smollm2_sft.study:study",
    }
)
"""Short names of `heldout bench`."""

REWRITERS: Mapping[str, str] = MappingProxyType({"improve_any_task": "heldout.studies.improve_any_task.study:tables"})
"""Those that keep their runs: `heldout bench --tables`."""


class Study(Protocol):
    """A published result, run again."""

    def __call__(self, target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
        """Write tables, plots and a page into `target`, and return what was written.

        `quick` is a CI-sized version; `only` runs one part, and None every part that can run on this machine. What
        an earlier call left of other parts is kept. `command` goes into the provenance. Equal arguments give equal
        bytes, but for run times. `SetupError` for a part that there is not, or that cannot run here.
        """


class Rewriter(Protocol):
    """Writes a study's tables again without running anything."""

    def __call__(self, target: Path, *, only: str | None) -> list[Path]:
        """From the runs that `Study` kept in `target`: tables, plots, claims and the page.

        Provenance stays, but for the digest of what is written. `only` is one part, and None every part that is kept.
        `SetupError` without runs.
        """


def load_rewriter(name: str) -> Rewriter:
    """Of the study of this name; `SetupError` where it keeps no runs."""
    load_study(name)
    if name not in REWRITERS:
        raise SetupError(
            f"the study {name!r} keeps no runs to write tables from; {', '.join(sorted(REWRITERS))} does: leave out "
            "--tables"
        )
    rewriter: Rewriter = load(name, among=REWRITERS, what="study")
    return rewriter


def load_study(name: str) -> Study:
    """The study of this name, or `package.module:function`; `SetupError` lists what there is."""
    study: Study = load(name, among=STUDIES, what="study")
    return study
