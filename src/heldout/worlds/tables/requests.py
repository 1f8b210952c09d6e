"""What the requests of the world say."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files

from heldout.worlds.tables.draft import Draft
from heldout.worlds.tables.job import Origin
from heldout.worlds.tables.parts import Part
from heldout.worlds.tables.vocabulary import VOCABULARIES

__all__ = ["request_text"]

_WORDINGS = 5
"""Ways to ask for each operation."""


@lru_cache(maxsize=1)
def _phrases() -> Mapping[str, Sequence[str]]:
    """Lists of sentences by name; of operations by family."""
    folder = files("heldout.worlds.tables")
    texts = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("phrases.toml", "wordings.toml"))
    phrases, wordings = map(tomllib.loads, texts)
    return {**phrases, **{f"operation {name}": said for name, said in wordings.items()}}


def request_text(draft: Draft, origin: Origin) -> str:
    """Opening, which sheet, what to do, where it goes, what stays, the summary, and a closing word."""
    slots = _slots(draft)
    sentences = [sentence.format(**slots) for sentence in _sentences(draft, origin)]
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences if sentence)


def _sentences(draft: Draft, origin: Origin) -> Iterator[str]:
    """Each from its list, by the number and vocabulary of the task. The lists turn at different speeds: tasks of a
    family that share one sentence differ in others."""
    turn = origin.number * len(VOCABULARIES) + VOCABULARIES.index(origin.vocabulary) + origin.seed
    shape, lap, phrases = draft.shape, turn // _WORDINGS, _phrases()

    def said(name: str, speed: int = 0) -> str:
        texts = phrases[name]
        return texts[(turn + speed * lap) % len(texts)]

    yield said("openings")
    if shape.sheets:
        yield said("sheets", 2)
    yield said(f"operation {origin.family}")
    yield said(_place(draft), 1)
    if Part.PRESERVE in draft.parts:
        yield said("preserve", 3)
    if shape.summary:
        yield said("summary", 4)
    yield said("closings")


def _place(draft: Draft) -> str:
    """Name of the list of sentences that say where the result goes."""
    shape = draft.shape
    if shape.place == "same":
        return "same" if _header(draft) is None else "same_into"
    return shape.place if shape.label is None else f"{shape.place}_layout"


def _header(draft: Draft) -> str | None:
    """What stands over the column that the request names."""
    return draft.shape.label or draft.operation.plain_header


def _slots(draft: Draft) -> Mapping[str, str]:
    theme, shape, operation = draft.theme, draft.shape, draft.operation
    about = dict(theme.sheets).get(draft.sheet or "", "")
    return {
        **operation.slots,
        "things": theme.things,
        "kind": "workbook" if shape.workbook else "CSV file",
        "role": operation.role.phrase,
        "about": about,
        "result": draft.result,
        "output": draft.output or "",
        "page": f" (sheet “{draft.result}”)" if shape.workbook else "",
        "label": _header(draft) or "",
        "where": operation.where,
        "end": operation.end,
        "cell": shape.cell or "A1",
        "summary": draft.summary,
        "first": theme.summary_headers[0],
        "second": theme.summary_headers[1],
    }


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
