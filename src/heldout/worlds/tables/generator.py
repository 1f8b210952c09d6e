"""The tasks of the world: `make_job`, and which task an id stands for."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module

from heldout.errors import TaskError, need
from heldout.worlds.tables.draft import Draft, draft_of, result_of
from heldout.worlds.tables.families import FAMILIES, OOD_FAMILIES
from heldout.worlds.tables.job import DECOY_SHARE, SUMMARY_SHARE, Job, Origin
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.requests import request_text
from heldout.worlds.tables.toolbox.table import Table

__all__ = ["ENCODED", "LIMIT", "OOD_LIMIT", "job_of", "make_job", "origin_of", "read_id"]

ENCODED = (".xlsx",)
"""Suffixes of files that are bytes."""

_IDS, _ORDINARY = 10000, 8000
_TURNS = ("A", "B", "C", "C")
"""Vocabularies of a family's tasks in turn: as many of A as of B, and as many of C as of both."""

LIMIT = _ORDINARY // len(FAMILIES) // len(_TURNS) * len(FAMILIES) * len(_TURNS)
"""Ordinary tasks that a world may have."""
OOD_LIMIT = _IDS - _ORDINARY
"""Tasks of the two further families, which have the vocabulary C."""

_ID = re.compile(r"tables-([0-9]{4})")


def make_job(
    *,
    seed: int,
    family: str,
    number: int,
    vocabulary: str,
    summary: float = SUMMARY_SHARE,
    decoy: float = DECOY_SHARE,
) -> Job:
    """The task `number` of a family and vocabulary, in a world with these shares of summaries and decoys."""
    origin = Origin(seed=seed, family=family, number=number, vocabulary=vocabulary, summary=summary, decoy=decoy)
    return job_of(origin)


@lru_cache(maxsize=4096)
def job_of(origin: Origin) -> Job:
    """The task of an origin."""
    draft = draft_of(origin)
    return Job(
        id=_id(origin),
        family=origin.family,
        request=request_text(draft, origin),
        files=_WorkFolder(origin),
        parts=draft.parts,
        steps=draft.operation.steps,
        names=_names(draft),
        literals=tuple(dict.fromkeys(_literals(draft))),
        summary=draft.summary if draft.shape.summary else None,
        decoy=draft.shape.decoy,
        origin=origin,
    )


def origin_of(turn: int, *, seed: int, ood: bool, summary: float, decoy: float) -> Origin:
    """The origin of the task that is dealt in this turn, from 0: families in turn, the vocabularies of each in turn."""
    names = list(OOD_FAMILIES if ood else FAMILIES)
    lap, place = divmod(turn, len(names))
    vocabulary, number = "C", lap
    if not ood:
        vocabulary = _TURNS[lap % len(_TURNS)]
        number = lap // len(_TURNS) * _TURNS.count(vocabulary) + _TURNS[: lap % len(_TURNS)].count(vocabulary)
    return Origin(seed=seed, family=names[place], number=number, vocabulary=vocabulary, summary=summary, decoy=decoy)


def read_id(text: str, *, seed: int, summary: float, decoy: float) -> Origin:
    """The origin of the task with this id; `TaskError` for an id that no task of the world has."""
    found = _ID.fullmatch(text)
    turn = None if found is None else _places(seed)[int(found[1])]
    if turn is None or LIMIT <= turn < _ORDINARY:
        raise TaskError(f"task {text!r} is not of the world 'tables'; its ids are like 'tables-0417'")
    ood = turn >= _ORDINARY
    return origin_of(turn - _ORDINARY if ood else turn, seed=seed, ood=ood, summary=summary, decoy=decoy)


def _id(origin: Origin) -> str:
    """Ids are dealt without order, so that they tell nothing."""
    return f"tables-{_ids(origin.seed)[_turn(origin)]:04d}"


def _turn(origin: Origin) -> int:
    """In which turn a task is dealt; those of `ood` families come behind all others."""
    ood = origin.family in OOD_FAMILIES
    names = list(OOD_FAMILIES if ood else FAMILIES)
    laps = ("C",) if ood else _TURNS
    of = [place for place, name in enumerate(laps) if name == origin.vocabulary]
    limit = (OOD_LIMIT if ood else LIMIT) // len(names) // len(laps) * len(of)
    if origin.family not in names or not 0 <= origin.number < limit:
        raise ValueError(f"no task {origin.words!r}; families are {', '.join((*FAMILIES, *OOD_FAMILIES))}")
    lap = origin.number // len(of) * len(laps) + of[origin.number % len(of)]
    return lap * len(names) + names.index(origin.family) + (_ORDINARY if ood else 0)


@lru_cache(maxsize=8)
def _ids(seed: int) -> tuple[int, ...]:
    """Turn to id."""
    order = list(range(_IDS))
    random.Random(f"tables ids {seed}").shuffle(order)
    return tuple(order)


@lru_cache(maxsize=8)
def _places(seed: int) -> Mapping[int, int]:
    """Id to turn."""
    return {number: turn for turn, number in enumerate(_ids(seed))}


def _names(draft: Draft) -> dict[Part, str]:
    told = {
        Part.FILE: draft.main,
        Part.SHEET: draft.sheet,
        Part.COLUMNS: draft.operation.role.header,
        Part.LAYOUT: draft.shape.label,
    }
    return {part: name for part, name in told.items() if part in draft.parts and name is not None}


def _literals(draft: Draft) -> Iterator[str]:
    """Every name of a file, sheet or column, files with and without their suffix."""
    made = [name for name in (draft.output, draft.summary if draft.shape.summary else None) if name]
    for name in (*draft.books, *made):
        yield from (name, name.rpartition(".")[0])
    for pages in draft.books.values():
        for sheet, table in pages.items():
            yield from (*([sheet] if sheet else []), *table.headers)
    yield from result_of(draft).headers
    if draft.shape.place != "same" and draft.shape.workbook:
        yield draft.result
    if draft.shape.label is not None:
        yield draft.shape.label
    if draft.shape.summary:
        yield from draft.theme.summary_headers


class _WorkFolder(Mapping[str, str]):
    """The files of a task, written out when somebody asks for one: a worker that only plays needs none."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._files: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._files:
            self._files[name] = _text(draft_of(self._origin).books[name])
        return self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(draft_of(self._origin).books)

    def __len__(self) -> int:
        return len(draft_of(self._origin).books)


def _text(pages: Mapping[str | None, Table]) -> str:
    need("openpyxl", extra="tables")
    books = import_module("heldout.worlds.tables.toolbox.books")
    if None in pages:
        data: bytes = books.csv_data(pages[None].lines())
        return data.decode()
    data = books.new_workbook({name: list(page.lines()) for name, page in pages.items()})
    return base64.b64encode(data).decode()
