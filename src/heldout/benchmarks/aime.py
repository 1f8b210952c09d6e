"""AIME and AMC: answers that are whole numbers (Mathematical Association of America)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from heldout.benchmarks.files import data_file, data_folder
from heldout.benchmarks.math500 import MATH_INSTRUCTION
from heldout.errors import SetupError
from heldout.options import read_options
from heldout.records import Record
from heldout.tasks.base import Item
from heldout.tasks.rows import Row, read_jsonl

__all__ = ["AimeOptions", "AimeSource", "Amc23Source"]

URL = "https://github.com/QwenLM/Qwen2.5-Math/tree/main/evaluation/data"

Year = Literal[2024, 2025]


class AimeOptions(Record):
    """`tasks.options` of `aime`."""

    years: tuple[Year, ...] = (2024, 2025)
    """30 problems each."""


class AimeSource:
    """AIME problems of 2024 and 2025, answers from 0 to 999 (tasks.path or $HELDOUT_DATA/aime).

    Files are `aime2024.jsonl` and `aime2025.jsonl` with id, problem and answer. Ids are `2024-N`, N the row; families
    and strata are the years. The reference is the answer without leading zeros.
    """

    description = "Solve a problem of the American Invitational Mathematics Examination; the answer is one number."
    instruction = MATH_INSTRUCTION
    labels: tuple[str, ...] = ()
    grader = "math"

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        self.options = read_options(AimeOptions, options, where="task source 'aime'")
        folder = data_folder(path, benchmark="aime")
        self.files = {year: data_file(folder, [f"aime{year}.jsonl"], url=URL) for year in self.options.years}

    def items(self) -> Sequence[Item]:
        return [_item(row, path, prefix=f"{year}-") for year, path in self.files.items() for row in read_jsonl(path)]


class Amc23Source:
    """AMC 12 problems of 2023 with whole numbers for answers (tasks.path or $HELDOUT_DATA/amc23).

    Ids are `2023-N`, N the row. The reference is the answer.
    """

    description = "Solve a problem of the American Mathematics Competitions; the answer is one number."
    instruction = MATH_INSTRUCTION
    labels: tuple[str, ...] = ()
    grader = "math"

    def __init__(self, *, path: str | None = None, seed: int = 0) -> None:
        del seed  # Published data is not generated; every source takes a seed.
        self.file = data_file(data_folder(path, benchmark="amc23"), ["test.jsonl", "amc23.jsonl"], url=URL)

    def items(self) -> Sequence[Item]:
        return [_item(row, self.file, prefix="2023-") for row in read_jsonl(self.file)]


def _item(row: Row, file: Path, *, prefix: str) -> Item:
    problem, answer = row.fields.get("problem"), row.fields.get("answer")
    number = _whole(answer)
    if not isinstance(problem, str) or number is None:
        raise SetupError(f"{str(file)!r}, {row.where}: expected a problem, and a whole number for answer: {answer!r}")
    year = prefix.rstrip("-")
    return Item(id=f"{prefix}{row.number}", input=problem.strip(), reference=str(number), family=year, stratum=year)


def _whole(answer: object) -> int | None:
    """The number that `"025"`, `27` or `27.0` is; None for anything else."""
    if isinstance(answer, str):
        bare = answer.strip()
        return int(bare) if bare.removeprefix("-").isdecimal() else None
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        return None
    return int(answer) if answer == int(answer) else None
