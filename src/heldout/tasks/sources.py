"""Task sources by name, and the ones that read a file of the user's."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from heldout.config import TasksConfig
from heldout.errors import SetupError, TaskError, boundary
from heldout.options import read_options
from heldout.records import Record
from heldout.registry import load
from heldout.tasks.base import Item, TaskSource
from heldout.tasks.environment import Environment
from heldout.tasks.rows import Row, read_csv, read_jsonl

__all__ = [
    "SOURCES",
    "CsvSource",
    "FileOptions",
    "FileSource",
    "JsonlSource",
    "environment_of",
    "has_solutions",
    "load_source",
    "read_items",
    "solution_of",
    "solution_text_of",
]

SOURCES: Mapping[str, str] = {
    "questions": "heldout.worlds.questions:QuestionsSource",
    "formats": "heldout.worlds.formats.source:FormatsSource",
    "repair": "heldout.worlds.repair:RepairSource",
    "tables": "heldout.worlds.tables:TablesSource",
    "trec:6": "heldout.benchmarks.trec:trec6",
    "trec:50": "heldout.benchmarks.trec:trec50",
    "banking77": "heldout.benchmarks.banking77:Banking77Source",
    "gsm8k": "heldout.benchmarks.gsm8k:Gsm8kSource",
    "math500": "heldout.benchmarks.math500:Math500Source",
    "aime": "heldout.benchmarks.aime:AimeSource",
    "amc23": "heldout.benchmarks.aime:Amc23Source",
    "minerva_math": "heldout.benchmarks.minerva_math:MinervaMathSource",
    "ifeval": "heldout.benchmarks.ifeval:IfevalSource",
    "humaneval": "heldout.benchmarks.humaneval:HumanevalSource",
    "swe": "heldout.benchmarks.swe:SweSource",
    "harbor": "heldout.benchmarks.harbor:HarborSource",
    "spreadsheetbench": "heldout.benchmarks.spreadsheetbench:SpreadsheetBenchSource",
    "jsonl": "heldout.tasks.sources:JsonlSource",
    "csv": "heldout.tasks.sources:CsvSource",
}
"""Short name to dotted path. A source is called with the keywords `path`, `seed` and its own options."""


class FileOptions(Record):
    """`tasks.options` of `jsonl` and `csv`: which field holds what, and what a file cannot say of itself."""

    id: str = "id"
    """Field of the unique id. Where no row has it, ids are `row-1`, `row-2`, … in the order of the file."""
    input: str = "input"
    """Field of the text that the solver reads."""
    reference: str = "reference"
    """Field of the right answer."""
    stratum: str = "stratum"
    """Field that stratified division balances; where it is absent, the reference if there are `labels`."""
    group: str = "group"
    """Field whose equal values stay in one role under `split_by = "group"`."""
    family: str = "family"
    """Field of a public grouping for reports; never the answer."""
    pool: str = "pool"
    """Field that sends a row to the report role of that name (for example `ood`)."""
    instruction: str = "Answer the question."
    """The start instruction where the config names none."""
    description: str = "Answer each input as its reference does."
    """What the solver is asked to do, for improvers and reports."""
    labels: tuple[str, ...] | Literal["references"] = ()
    """The closed set of answers. `references` takes every reference of the file, held-out rows too, and
    shows them to improvers: right for class names, wrong for free answers."""
    grader: str | None = None
    """None is `label` where there are labels, else `exact`."""


class FileSource(ABC):
    """Rows of a file as tasks; use `JsonlSource` or `CsvSource`."""

    kind: ClassVar[str]
    description: str
    instruction: str
    labels: tuple[str, ...]
    grader: str

    def __init__(self, *, path: str | None = None, seed: int = 0, **options: Any) -> None:
        del seed  # A file is not generated; every source takes a seed.
        if path is None:
            raise SetupError(f"the source {self.kind!r} reads a file: set tasks.path to it")
        self.path = Path(path)
        self.options = read_options(FileOptions, options, where=f"task source {self.kind!r}")
        self.description = self.options.description
        self.instruction = self.options.instruction
        wanted = self.options.labels
        self.labels = () if wanted == "references" else wanted
        if wanted == "references":
            self.labels = tuple(sorted({item.reference for item in self.items()}))
        self.grader = self.options.grader or ("label" if wanted else "exact")

    @staticmethod
    @abstractmethod
    def read(path: Path) -> list[Row]:
        """Every row of the file."""

    def items(self) -> Sequence[Item]:
        rows = self.read(self.path)
        named = "id" in self.options.model_fields_set or any(_present(row, self.options.id) for row in rows)
        items: list[Item] = []
        seen: dict[str, Row] = {}
        for row in rows:
            item = self._item(row, self._required(row, "id") if named else f"row-{row.number}")
            if item.id in seen:
                raise SetupError(
                    f"{str(self.path)!r}: {seen[item.id].where} and {row.where} have the same id {item.id!r}"
                )
            seen[item.id] = row
            items.append(item)
        return items

    def _item(self, row: Row, identity: str) -> Item:
        reference = self._required(row, "reference")
        if self.labels and reference not in self.labels:
            raise self._fault(row, f"the reference {reference!r} is not among the labels {', '.join(self.labels)}")
        return Item(
            id=identity,
            input=self._required(row, "input"),
            reference=reference,
            family=self._optional(row, "family"),
            stratum=self._optional(row, "stratum") or (reference if self.options.labels else ""),
            group=self._optional(row, "group"),
            pool=self._optional(row, "pool"),
        )

    def _required(self, row: Row, role: str) -> str:
        field: str = getattr(self.options, role)
        if not _present(row, field):
            raise self._fault(
                row,
                f"no field {field!r} for the {role}; it has {', '.join(map(repr, row.fields)) or 'nothing'} "
                f"(name another with tasks.options.{role})",
            )
        text = self._text(row, field)
        if not text.strip():
            raise self._fault(row, f"the field {field!r} is empty")
        return text

    def _optional(self, row: Row, role: str) -> str:
        if role in self.options.model_fields_set:
            return self._required(row, role) if role != "pool" else self._text(row, self.options.pool)
        field: str = getattr(self.options, role)
        return self._text(row, field) if _present(row, field) else ""

    def _text(self, row: Row, field: str) -> str:
        value = row.fields.get(field)
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        if value is None:
            return ""
        raise self._fault(row, f"the field {field!r} must be text or a number, got {value!r}")

    def _fault(self, row: Row, what: str) -> SetupError:
        return SetupError(f"{str(self.path)!r}, {row.where}: {what}")


class JsonlSource(FileSource):
    """Your own tasks, one JSON object a line (tasks.path names the file)."""

    kind = "jsonl"

    @staticmethod
    def read(path: Path) -> list[Row]:
        return read_jsonl(path)


class CsvSource(FileSource):
    """Your own tasks, comma-separated with a header (tasks.path names the file)."""

    kind = "csv"

    @staticmethod
    def read(path: Path) -> list[Row]:
        return read_csv(path)


def load_source(config: TasksConfig) -> TaskSource:
    """The source that `config` names, with its path, seed and options; unknown options are refused."""
    what = f"the task source {config.source!r}"
    factory = load(config.source, among=SOURCES, what="task source")
    arguments = {"path": config.path, "seed": config.seed}
    taken = sorted(arguments.keys() & config.options.keys())
    if taken:
        raise SetupError(f"tasks.options may not hold {', '.join(taken)}: set tasks.{taken[0]} instead")
    arguments.update(config.options)
    try:
        inspect.signature(factory).bind(**arguments)
    except TypeError as cause:
        names = [name for name in inspect.signature(factory).parameters if name not in ("path", "seed")]
        raise SetupError(f"{what}: {cause}; its options are {', '.join(names) or 'none'}") from cause
    with boundary(TaskError, what):
        source: TaskSource = factory(**arguments)
    return source


def environment_of(source: TaskSource) -> Environment | None:
    """Where the tasks of an agent begin; None for tasks that are only text, and for sources that predate agents."""
    found: Environment | None = getattr(source, "environment", None)
    return found


def solution_of(source: TaskSource, item: Item) -> str:
    """The right answer as a solver would give it: what the source says (`solution(item)`), else the reference."""
    told = getattr(source, "solution", None)
    return item.reference if told is None else str(told(item))


def has_solutions(source: TaskSource) -> bool:
    """Whether right answers are known; of a source whose references are rules alone they are not."""
    return bool(getattr(source, "has_solutions", True))


def solution_text_of(source: TaskSource, item: Item) -> str:
    """What a reader would call the solution (a patch, a script), where the source can say so without running it
    (`solution_text(item)`); else the right answer."""
    told = getattr(source, "solution_text", None)
    return solution_of(source, item) if told is None else str(told(item))


def read_items(source: TaskSource, *, name: str) -> tuple[Item, ...]:
    """The items of any source, checked: some, with unique ids and with texts."""
    with boundary(TaskError, f"the task source {name!r}"):
        items = tuple(source.items())
    if not items:
        raise SetupError(f"the task source {name!r} has no tasks")
    seen: set[str] = set()
    for item in items:
        if not isinstance(item, Item):
            raise TaskError(f"the task source {name!r} returned {item!r}, which is not a heldout.tasks.Item")
        if not item.input.strip():
            raise TaskError(f"the task source {name!r}: task {item.id!r} has no text")
        if not _is_unicode(item):
            raise TaskError(f"the task source {name!r}: task {item.id!r} holds half a character (a lone surrogate)")
        if item.id in seen:
            raise TaskError(f"the task source {name!r}: two tasks have the id {item.id!r}")
        seen.add(item.id)
    return items


def _is_unicode(item: Item) -> bool:
    """Whether its texts can be written as UTF-8; JSON lets half of a surrogate pair through."""
    try:
        "".join((item.id, item.input, item.reference, item.family, item.stratum, item.group, item.pool)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _present(row: Row, field: str) -> bool:
    return row.fields.get(field) is not None
