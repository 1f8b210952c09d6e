"""A task before it is written out: its tables, what its request says, and the calls that do it rightly or wrongly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from itertools import chain, combinations
from typing import Literal

from heldout.worlds.tables.families import FAMILIES, OOD_FAMILIES, Draw, Operation
from heldout.worlds.tables.job import Origin
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.plan import Call, Choice, perform, settled
from heldout.worlds.tables.toolbox.table import Cell, Table
from heldout.worlds.tables.vocabulary import Theme, themes

__all__ = ["Draft", "Shape", "draft_of", "result_of"]

_ROWS = (7, 13)
_CSV, _SHEETS, _UNTIDY, _LABELLED, _NOTES = 0.2, 0.5, 0.55, 0.5, 0.4
"""Shares: of CSV tasks, and of workbooks with two sheets of one kind; of untidy values; of named headers; of a further
sheet with notes."""
_IN_PLACE, _NEW_FILE = 0.45, 0.3
_CELLS = ("B2", "B3", "C3", "C4", "B5", "D2")
_PLAIN = "Result"
"""Header of a new column that nobody named."""
_TRIES = 200

Place = Literal["same", "sheet", "file"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a task has to do with, besides its operation."""

    workbook: bool
    place: Place
    summary: bool
    decoy: bool
    sheets: bool
    """Whether two sheets have the same headers."""
    notes: bool
    untidy: bool
    label: str | None
    """A header that the request names."""
    cell: str | None
    """Where the result begins on a new sheet, where the request says so."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that is known about a task."""

    theme: Theme
    shape: Shape
    operation: Operation
    books: Mapping[str, Mapping[str | None, Table]]
    """File to sheet to table; a CSV file has the sheet None."""
    main: str
    sheet: str | None
    """The sheet that is meant."""
    output: str | None
    """The file that the result goes into, where it is not the input."""
    result: str
    """The sheet that the result goes on, where it is a new one."""
    summary: str
    """The summary file that is asked for, or that nobody asked for."""
    calls: tuple[Call, ...]
    parts: tuple[Part, ...]


@lru_cache(maxsize=4096)
def draft_of(origin: Origin) -> Draft:
    """The task of an origin: the first draw in which no set of wrong decisions gives the right result."""
    rng = random.Random(f"tables {origin.words}")
    theme = _theme(origin)
    family = {**FAMILIES, **OOD_FAMILIES}[origin.family]
    any_of_it = family(Draw(random.Random(0), theme, untidy=False, padded=False))
    shape = _shape(origin, any_of_it, theme, rng)
    for turn in range(_TRIES):
        again = random.Random(f"tables {origin.words} {turn}")
        draw = Draw(again, theme, untidy=shape.untidy, padded=not shape.workbook)
        draft = _draft(draw, family(draw), shape)
        if _is_sound(draft):
            return draft
    raise RuntimeError(f"no sound task for {origin!r} in {_TRIES} tries")


def _theme(origin: Origin) -> Theme:
    """The themes of a vocabulary, each once before any comes again, in an order that changes with every lap."""
    known = list(themes(origin.vocabulary))
    lap, place = divmod(origin.number, len(known))
    random.Random(f"tables theme {origin.seed} {origin.family} {origin.vocabulary} {lap}").shuffle(known)
    return known[place]


def _uniform(origin: Origin, what: str) -> float:
    """Uniform in [0, 1), the same for every number of a family and vocabulary."""
    words = f"tables {origin.seed} {origin.family} {origin.vocabulary} {what}"
    return int.from_bytes(sha256(words.encode()).digest()[:6], "big") / 2**48


def _takes_turn(origin: Origin, share: float, what: str) -> bool:
    """Whether this number is among a share of all numbers, which are spread evenly."""
    start = _uniform(origin, what)
    return int((origin.number + 1) * share + start) > int(origin.number * share + start)


def _shape(origin: Origin, operation: Operation, theme: Theme, rng: random.Random) -> Shape:
    """Of an operation it reads what is the same for every draw of the family."""
    workbook = operation.workbook or rng.random() >= _CSV
    place: Place = "same"
    if operation.place == "new" or (operation.place == "any" and rng.random() >= _IN_PLACE):
        place = "file" if not workbook or rng.random() < _NEW_FILE else "sheet"
    nameable = place != "same" or operation.into != "never"
    labelled = operation.into == "always" or (nameable and rng.random() < _LABELLED)
    sheets = workbook and rng.random() < _SHEETS
    return Shape(
        workbook=workbook,
        place=place,
        summary=_takes_turn(origin, origin.summary, "summary"),
        decoy=_takes_turn(origin, origin.decoy, "decoy"),
        sheets=sheets,
        notes=workbook and not (sheets and operation.second) and rng.random() < _NOTES,
        untidy=operation.untidy and rng.random() < _UNTIDY,
        label=rng.choice(theme.labels) if labelled else None,
        cell=rng.choice(_CELLS) if labelled and place == "sheet" else None,
    )


def _draft(draw: Draw, operation: Operation, shape: Shape) -> Draft:
    theme, rng, kind = draw.theme, draw.rng, ".xlsx" if shape.workbook else ".csv"
    main, spare = (f"{stem}{kind}" for stem in theme.files)
    order: list[str] = []
    meant = _table(draw, operation, order)
    names = [name for name, _ in theme.sheets]
    rng.shuffle(names)
    sheet = names[0] if shape.workbook else None
    pages: dict[str | None, Table] = {names[1]: _table(draw, operation, order)} if shape.sheets else {}
    pages[sheet] = meant
    books = {main: pages}
    if operation.second is not None:
        if shape.workbook:
            pages[theme.lookup[0]] = operation.second(meant)
        else:
            books[f"{theme.lookup[0].lower()}.csv"] = {None: operation.second(meant)}
    if shape.notes:
        pages[theme.notes_sheet] = _notes(draw)
    if shape.decoy:
        books[spare] = _decoy(draw, operation, order, pages, sheet=sheet)
    result = rng.choice(theme.results)
    draft = Draft(
        theme=theme,
        shape=shape,
        operation=operation,
        books=books,
        main=main,
        sheet=sheet,
        output=f"{result.lower()}{kind}" if shape.place == "file" else None,
        result=result,
        summary=rng.choice(theme.summaries),
        calls=(),
        parts=_parts(shape),
    )
    return replace(draft, calls=tuple(_calls(draft, rng)))


def _table(draw: Draw, operation: Operation, order: list[str]) -> Table:
    """A table of the task; the first one decides on the order of columns."""
    theme, count = draw.theme, draw.number(*_ROWS)
    columns = operation.columns(count)
    columns = {
        theme.code: draw.codes(count),
        **columns,
        theme.note: draw.words(count, theme.notes),
    }
    if not order:
        between = [header for header in columns if header not in (theme.code, theme.note)]
        draw.rng.shuffle(between)
        order.extend((theme.code, *between, theme.note))
    return Table(tuple(order), tuple(zip(*(columns[header] for header in order), strict=True)))


def _notes(draw: Draw) -> Table:
    theme = draw.theme
    rows: tuple[tuple[Cell, ...], ...] = tuple((note, draw.number(1, 9)) for note in theme.notes[:3])
    return Table((theme.note, theme.stray), rows)


def _decoy(
    draw: Draw, operation: Operation, order: list[str], pages: Mapping[str | None, Table], *, sheet: str | None
) -> dict[str | None, Table]:
    """Sheets like those of the input, without the one header that the request needs."""
    decoy = {}
    for name, page in pages.items():
        if name == sheet or page.headers == pages[sheet].headers:
            table = _table(draw, operation, order)
            headers = tuple(draw.theme.stray if header == operation.role.header else header for header in table.headers)
            decoy[name] = Table(headers, table.rows)
    return decoy


def _parts(shape: Shape) -> tuple[Part, ...]:
    has = {
        Part.FILE: shape.decoy,
        Part.SHEET: shape.sheets,
        Part.VALUES: shape.untidy,
        Part.PRESERVE: shape.place != "file",
        Part.LAYOUT: shape.label is not None,
    }
    return tuple(part for part in Part if has.get(part, True))


def _calls(draft: Draft, rng: random.Random) -> list[Call]:
    """The whole program: read, work, slip, write, count."""
    operation, shape, pages = draft.operation, draft.shape, draft.books[draft.main]
    role = operation.role
    header = Choice(
        Part.FILE,
        Choice(Part.COLUMNS, role.header, role.lookalike),
        Choice(Part.COLUMNS, draft.theme.stray, role.lookalike),
    )
    source = {"file": _file(draft), "sheet": Choice(Part.SHEET, draft.sheet, next(iter(pages)))}
    named = shape.label is not None and shape.place == "same"
    into = Choice(Part.LAYOUT, shape.label, _PLAIN) if named else operation.plain_header
    calls = [Call("read", source, on=("work",), gives="rows")]
    if operation.second is not None:
        calls.append(Call("read", _second(draft), on=("work",), gives="other"))
    calls.append(operation.call(header, None if operation.into == "never" else into))
    if shape.label is not None and shape.place != "same":
        column = 0 if operation.end == "first" else -1
        calls.append(Call("rename", {"column": column, "to": shape.label}, ("result",), "result", unless=Part.LAYOUT))
    if operation.slips:
        calls.append(_slip(rng))
    calls.extend(_writes(draft, source))
    about = {"file": draft.summary, "headers": draft.theme.summary_headers}
    unless, when = (Part.OUTPUTS, None) if shape.summary else (None, Part.OUTPUTS)
    calls.append(Call("write_summary", about, ("work", "result"), "", when=when, unless=unless))
    calls.append(Call("tell", {}, ("work", "result"), ""))
    return calls


def _file(draft: Draft) -> Choice:
    """The decoy is the last file."""
    return Choice(Part.FILE, draft.main, list(draft.books)[-1] if draft.shape.decoy else draft.main)


def _second(draft: Draft) -> dict[str, str | None]:
    name = draft.theme.lookup[0]
    return (
        {"file": draft.main, "sheet": name} if draft.shape.workbook else {"file": f"{name.lower()}.csv", "sheet": None}
    )


def _slip(rng: random.Random) -> Call:
    row = rng.randrange(12)
    if rng.random() < 0.5:
        return Call("lose_row", {"row": row}, ("result",), "result", when=Part.STEPS)
    return Call("misread_cell", {"row": row, "column": -1}, ("result",), "result", when=Part.STEPS)


def _writes(draft: Draft, source: Mapping[str, object]) -> list[Call]:
    """Where the result goes, and what is lost where a file is written anew with the columns that are used alone."""
    shape, on = draft.shape, ("work", "result")
    if shape.place == "file":
        sheet = draft.result if shape.workbook else None
        return [Call("write_anew", {"file": draft.output, "sheet": sheet}, on, "")]
    if shape.place == "sheet":
        cell = Choice(Part.LAYOUT, shape.cell, "A1") if shape.cell else "A1"
        options = {"file": source["file"], "sheet": draft.result}
        return [
            Call("add_sheet", {**options, "cell": cell}, on, "", unless=Part.PRESERVE),
            Call("write_anew", options, on, "", when=Part.PRESERVE),
        ]
    return [
        Call("write_back", source, on, "", unless=Part.PRESERVE),
        Call("write_anew", {**source, "but": draft.theme.note}, on, "", when=Part.PRESERVE),
    ]


def _is_sound(draft: Draft) -> bool:
    """Whether every set of wrong decisions about values gives another result than the right ones.

    The other parts need no look: a missing or further file, a result in another file, on another sheet or under another
    header, and a lost sheet or column are there to be seen, whatever the values are. FILE and SHEET are looked at where
    a result does not say by its place which table it was made from.
    """
    watched = {Part.COLUMNS, Part.VALUES, Part.OPERATION, Part.STEPS}
    if draft.shape.place != "same":
        watched |= {Part.SHEET}
    if draft.shape.place == "file":
        watched |= {Part.FILE}
    parts = [part for part in draft.parts if part in watched]
    right = result_of(draft)
    if not right.rows or right == draft.books[draft.main][draft.sheet]:
        return False
    every = chain.from_iterable(combinations(parts, size) for size in range(1, len(parts) + 1))
    return all(result_of(draft, frozenset(wrong)) != right for wrong in every)


def result_of(draft: Draft, wrong: frozenset[Part] = frozenset()) -> Table:
    """The table that the calls make, without writing anything."""
    made = [call for call in settled(draft.calls, wrong) if call.gives]
    state = perform(made, {"work": draft.books}, reads=_look)
    result: Table = state["result"]
    return result


def _look(books: Mapping[str, Mapping[str | None, Table]], *, file: str, sheet: str | None) -> Table:
    return books[file][sheet]
