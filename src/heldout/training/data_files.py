"""Data sets on disk: `examples.jsonl` with a digest, and an export for verl that keeps the provenance."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from heldout.errors import SetupError, StoreError, boundary, need
from heldout.store.folders import write_atomic
from heldout.training.examples import Example, examples_digest

__all__ = ["EXAMPLES_FILE", "export_verl", "load_examples", "read_examples", "save_examples", "write_examples"]

EXAMPLES_FILE = "examples.jsonl"
"""Name of a data set in its blob."""


def write_examples(examples: Iterable[Example]) -> str:
    """A data set as text: one example a line, as JSON. The same examples give the same text."""
    return "".join(example.model_dump_json() + "\n" for example in examples)


def read_examples(text: str, *, where: str = EXAMPLES_FILE, digest: str | None = None) -> tuple[Example, ...]:
    """The examples of such a text, which `where` names in messages.

    `SetupError` names the line that is no example; `StoreError` says that they are not those of `digest`.
    """
    examples = tuple(
        _example(line, f"{where!r}, line {number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()
    )
    if digest is not None and examples_digest(examples) != digest:
        raise StoreError(
            f"the data set {where!r} was changed: its digest is now {examples_digest(examples)[:12]}, "
            f"and {digest[:12]} is on record"
        )
    return examples


def save_examples(examples: Sequence[Example], path: Path) -> str:
    """Write a data set to a file, whole or not at all; returns its digest."""
    write_atomic(path, write_examples(examples))
    return examples_digest(examples)


def load_examples(path: Path, *, digest: str | None = None) -> tuple[Example, ...]:
    """Read a file of `save_examples`; errors as of `read_examples`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise SetupError(f"cannot read the data set {str(path)!r}: {cause}") from cause
    return read_examples(text, where=str(path), digest=digest)


def export_verl(examples: Sequence[Example], path: Path, *, source: str = "heldout") -> Path:
    """Write examples for verl's supervised trainer (`data.messages_key = messages`); returns the file.

    `SetupError` for examples with turns between prompt and completion: that trainer takes loss on every turn of the
    assistant, and would learn those that were only read.

    Columns: `data_source`, `messages`, `extra_info` as verl's data sets have them, and a column for each part of the
    provenance. Parquet where pyarrow is installed, else JSON lines in a file of that name with the ending `.jsonl`.
    """
    if not examples:
        raise SetupError("there are no examples to export; admit some first")
    if long := sum(bool(example.turns) for example in examples):
        raise SetupError(
            f"{long} of {len(examples)} examples are turns of longer episodes, of which verl would learn every turn of "
            "the assistant; save_examples keeps them as they are"
        )
    rows = [_row(example, number, source) for number, example in enumerate(examples)]
    if importlib.util.find_spec("pyarrow") is None:
        target = path.with_suffix(".jsonl")
        write_atomic(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return target
    arrow, parquet = need("pyarrow", extra="train"), need("pyarrow.parquet", extra="train")
    target = path.with_suffix(".parquet")
    with boundary(StoreError, f"cannot write {str(target)!r}"):
        parquet.write_table(arrow.Table.from_pylist(rows), str(target))
    return target


def _example(line: str, where: str) -> Example:
    try:
        return Example.model_validate_json(line)
    except ValidationError as cause:
        fault = cause.errors()[0]
        place = ".".join(map(str, fault["loc"])) or "the line"
        raise SetupError(f"{where}: {place}: {fault['msg']}") from cause


def _row(example: Example, number: int, source: str) -> dict[str, Any]:
    origin = example.provenance
    return {
        "data_source": source,
        "messages": example.conversation,
        "extra_info": {"index": number, "split": "train", "digest": example.digest},
        "task": origin.task,
        "role": origin.role,
        "episode": origin.episode,
        "model": origin.model,
        "harness": json.dumps(dict(origin.harness), sort_keys=True),
        "builder": origin.builder,
        "verifier": origin.verifier,
        "status": origin.status.value,
        "score": origin.score,
    }
