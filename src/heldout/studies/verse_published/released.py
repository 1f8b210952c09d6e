"""The released outcome files: nine settings on two test sets, three repeats of each task."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from heldout.audit import OutcomeFile, read_outcomes
from heldout.benchmarks.files import DATA_VARIABLE
from heldout.errors import SetupError
from heldout.records import Record
from heldout.stats import mean_interval

__all__ = ["HOSTS", "SETTINGS", "START", "TEST_SETS", "Released", "find_folder", "read_released"]

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "blank": "start",
        "meta_harness": "Meta-Harness",
        "verse_mh": "Meta-Harness + VERSE",
        "ahe": "AHE",
        "verse_ahe": "AHE + VERSE",
        "self_harness": "Self-Harness",
        "verse_sh": "Self-Harness + VERSE",
        "harnessx": "HarnessX",
        "verse_hx": "HarnessX + VERSE",
    }
)
"""Folder of the release to the name on our page."""

START = "blank"

HOSTS: Mapping[str, str] = MappingProxyType(
    {"meta_harness": "verse_mh", "ahe": "verse_ahe", "self_harness": "verse_sh", "harnessx": "verse_hx"}
)
"""Host to the same host with VERSE."""

TEST_SETS: Mapping[str, str] = MappingProxyType({"id": "test_in_distribution.json", "ood": "test_ood.json"})
"""Part of the study to the file name of the release."""

URL = "https://github.com/wzekai/VERSE/tree/main/results"
_NAME = "verse_outcomes"
_ROUNDED = 0.006
"""Figures of the release have two decimals."""

_BESIDE = Path("..") / "shared" / "data" / _NAME


class _File(Record):
    """One file of the release."""

    setting: str
    config: str | None
    selected_round: int | None
    test_set: str
    n_tasks: int
    excluded_tasks: tuple[str, ...]
    repeats: int
    solved_per_repeat: tuple[int, ...]
    accuracy_per_repeat: tuple[float, ...]
    accuracy_mean: float
    accuracy_sem: float
    language: Mapping[str, str] = {}
    outcomes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Released:
    """One setting on one test set: the outcomes, and what the release says of them."""

    name: str
    """Key of `SETTINGS`."""
    selected_round: int | None
    """The round whose harness was tested; None for the start itself, 0 where a run ended with what it began with."""
    excluded: int
    """Tasks of the set that could not be graded."""
    mean: float
    """Percent, as stated."""
    sem: float
    """Standard error of the mean of the repeats, as stated."""
    outcomes: OutcomeFile
    sha256: str
    """Of the file."""

    @property
    def title(self) -> str:
        return SETTINGS[self.name]

    @property
    def scores(self) -> NDArray[np.float64]:
        """Shape (tasks, repeats), in the order of the task names."""
        known = self.outcomes.scores
        rows = [[np.nan if score is None else score for score in known[task]] for task in sorted(known)]
        return np.array(rows, dtype=np.float64)


def find_folder() -> Path:
    """`$HELDOUT_DATA/verse_outcomes`, else the public data folder beside the project; `SetupError` without either."""
    given = os.environ.get(DATA_VARIABLE)
    folder = Path(given) / _NAME if given else _BESIDE
    if not folder.is_dir():
        raise SetupError(
            f"the study verse_published reads the released outcomes of VERSE, and there is no folder {str(folder)!r}: "
            f"take results/ from {URL} and set {DATA_VARIABLE} to the folder that holds it under the name {_NAME}/"
        )
    return folder


def read_released(folder: Path, test_set: str) -> dict[str, Released]:
    """All nine settings on one test set, in the order of `SETTINGS`; `SetupError` names the file at fault."""
    found = {name: _read(_path(folder, name, test_set), name) for name in SETTINGS}
    tasks = {name: one.outcomes.scores.keys() for name, one in found.items()}
    odd = next((name for name in tasks if tasks[name] != tasks[START]), None)
    if odd is not None:
        differing = sorted(tasks[odd] ^ tasks[START])
        raise SetupError(
            f"{found[odd].outcomes.source!r} and {found[START].outcomes.source!r} are not of the same tasks; "
            f"{len(differing)} differ, the first is {differing[0]!r}"
        )
    return found


def _path(folder: Path, name: str, test_set: str) -> Path:
    """As in the release (`verse_mh/test_ood.json`), or flat (`verse_mh_ood.json`)."""
    tried = (folder / name / TEST_SETS[test_set], folder / f"{name}_{test_set}.json")
    for path in tried:
        if path.is_file():
            return path
    raise SetupError(f"neither {str(tried[0])!r} nor {str(tried[1])!r} is there; the release is at {URL}")


def _read(path: Path, name: str) -> Released:
    outcomes = read_outcomes(path, format="json")
    try:
        said = _File.model_validate_json(path.read_text(encoding="utf-8-sig"))
    except ValidationError as cause:
        faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in cause.errors()[:3])
        raise SetupError(f"{str(path)!r} is not a file of the release: {faults}") from cause
    _check(path, said)
    return Released(
        name=name,
        selected_round=said.selected_round,
        excluded=len(said.excluded_tasks),
        mean=said.accuracy_mean,
        sem=said.accuracy_sem,
        outcomes=outcomes,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _check(path: Path, said: _File) -> None:
    """What a file states of itself must follow from its outcomes."""
    rows = list(said.outcomes.values())
    if said.n_tasks != len(rows) or any(len(row) != said.repeats for row in rows):
        raise SetupError(f"{str(path)!r}: expected {said.n_tasks} tasks (n_tasks) of {said.repeats} repeats each")
    solved = tuple(map(sum, zip(*rows, strict=True)))
    accuracy = mean_interval(np.array(solved, dtype=np.float64) / said.n_tasks)
    mean, sem = (100.0 * (value or 0.0) for value in (accuracy.mean, accuracy.standard_error))
    near = abs(mean - said.accuracy_mean) <= _ROUNDED and abs(sem - said.accuracy_sem) <= _ROUNDED
    if solved != said.solved_per_repeat or not near:
        raise SetupError(
            f"{str(path)!r}: its outcomes give {solved} solved and {mean:.2f} ± {sem:.2f} %, and it states "
            f"{said.solved_per_repeat} and {said.accuracy_mean:.2f} ± {said.accuracy_sem:.2f} %"
        )
