"""Where published data files lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from heldout.errors import SetupError

__all__ = ["DATA_VARIABLE", "data_file", "data_folder"]

DATA_VARIABLE = "HELDOUT_DATA"
"""Environment variable: a folder with one folder per benchmark (`trec/`, `banking77/`, `gsm8k/`)."""


def data_folder(path: str | None, *, benchmark: str) -> Path:
    """`path`, else the benchmark's folder under `$HELDOUT_DATA`; `SetupError` where there is neither."""
    if path is not None:
        folder = Path(path)
    elif os.environ.get(DATA_VARIABLE):
        folder = Path(os.environ[DATA_VARIABLE]) / benchmark
    else:
        raise SetupError(
            f"{benchmark} reads files that you have: set tasks.path=FOLDER, "
            f"or {DATA_VARIABLE} to a folder that holds {benchmark}/"
        )
    if not folder.is_dir():
        raise SetupError(f"{benchmark}: no such folder {str(folder)!r} (tasks.path, or {DATA_VARIABLE}/{benchmark})")
    return folder


def data_file(folder: Path, names: Sequence[str], *, url: str) -> Path:
    """The first of `names` that is in `folder`; `SetupError` says where the file is published."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise SetupError(f"{str(folder)!r} has no {' or '.join(names)}; published at {url}")
