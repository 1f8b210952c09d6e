"""Three vocabularies of file, sheet, column and output names; no name of one is a word of another.

Tasks of train and half of select draw from A, which is small, so that its names recur; the other half of select draws
from B; audit, reports and `ood` from C. The words are in `vocabularies.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

__all__ = ["VOCABULARIES", "Pair", "Theme", "names_of", "themes"]

VOCABULARIES = ("A", "B", "C")


@dataclass(frozen=True, slots=True)
class Pair:
    """A column and what it is called in a request, and the header of a column that is easily taken for it."""

    header: str
    phrase: str
    lookalike: str


@dataclass(frozen=True, slots=True)
class Theme:
    """What the rows of a table are about, and every name that a task about it may use."""

    things: str
    """Plural, in lower case."""
    files: tuple[str, str]
    """Stems of the input and of a decoy beside it."""
    sheets: tuple[tuple[str, str], ...]
    """Names of sheets with the same headers, and what each is about."""
    code: str
    """Header of the unique code."""
    prefix: str
    """What codes begin with."""
    key: Pair
    values: tuple[str, ...]
    """What stands in the columns of `key`; the last is in no list beside the table."""
    amount: Pair
    person: Pair
    people: tuple[str, ...]
    """Names of two or three words."""
    kind: str
    """Header of a column with few values."""
    kinds: tuple[str, ...]
    note: str
    """Header of a column that no task asks for."""
    notes: tuple[str, ...]
    stray: str
    """Header that a decoy has in the place of the one that is needed."""
    notes_sheet: str
    lookup: tuple[str, str, str]
    """Name of a second table (sheet or stem), and its two headers."""
    zones: tuple[str, ...]
    """What the second column of that table holds."""
    results: tuple[str, ...]
    """Names for a new sheet, and stems of a new file."""
    labels: tuple[str, ...]
    """Headers for new columns."""
    stacked: tuple[str, str]
    """Headers for what is said of a cell: its column, and its value."""
    summaries: tuple[str, ...]
    """File names."""
    summary_headers: tuple[str, str]


@lru_cache(maxsize=1)
def _all() -> Mapping[str, tuple[Theme, ...]]:
    text = files("heldout.worlds.tables").joinpath("vocabularies.toml").read_text(encoding="utf-8")
    return {name: tuple(map(_theme, entries)) for name, entries in tomllib.loads(text).items()}


def themes(vocabulary: str) -> tuple[Theme, ...]:
    """The themes of a vocabulary; `KeyError` for one that there is not."""
    return _all()[vocabulary]


def _theme(entry: Mapping[str, Any]) -> Theme:
    pairs = {name: Pair(*entry[name]) for name in ("key", "amount", "person")}
    sheets = tuple((name, about) for name, about in entry["sheets"])
    rest = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    return Theme(**(rest | pairs | {"sheets": sheets}))


def names_of(vocabulary: str) -> Iterator[str]:
    """Every file, sheet and column name of a vocabulary; files as stems."""
    for theme in themes(vocabulary):
        yield from (*theme.files, *(name for name, _ in theme.sheets), theme.notes_sheet, *theme.lookup)
        for pair in (theme.key, theme.amount, theme.person):
            yield from (pair.header, pair.lookalike)
        yield from (theme.code, theme.kind, *theme.kinds, theme.note, theme.stray, *theme.results, *theme.labels)
        yield from (*theme.stacked, *(name.partition(".")[0] for name in theme.summaries), *theme.summary_headers)
