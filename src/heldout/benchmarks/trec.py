"""TREC question classification, by answer type (Li and Roth, COLING 2002): 5,452 + 500 questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from heldout.benchmarks.files import data_file, data_folder
from heldout.errors import SetupError
from heldout.tasks.base import Item

__all__ = ["COARSE", "FINE", "TrecSource", "trec6", "trec50"]

URL = "https://cogcomp.seas.upenn.edu/Data/QA/QC/"

COARSE: Mapping[str, str] = {
    "ABBR": "abbreviation",
    "ENTY": "entity",
    "DESC": "description",
    "HUM": "person",
    "LOC": "location",
    "NUM": "number",
}
"""Published code to the word that a solver says."""

FINE: Mapping[str, str] = {
    "ABBR:abb": "abbreviation",
    "ABBR:exp": "expansion",
    "DESC:def": "definition",
    "DESC:desc": "description",
    "DESC:manner": "manner",
    "DESC:reason": "reason",
    "ENTY:animal": "animal",
    "ENTY:body": "body part",
    "ENTY:color": "color",
    "ENTY:cremat": "creative work",
    "ENTY:currency": "currency",
    "ENTY:dismed": "disease or medicine",
    "ENTY:event": "event",
    "ENTY:food": "food",
    "ENTY:instru": "musical instrument",
    "ENTY:lang": "language",
    "ENTY:letter": "letter",
    "ENTY:other": "other",
    "ENTY:plant": "plant",
    "ENTY:product": "product",
    "ENTY:religion": "religion",
    "ENTY:sport": "sport",
    "ENTY:substance": "substance",
    "ENTY:symbol": "symbol",
    "ENTY:techmeth": "technique",
    "ENTY:termeq": "equivalent term",
    "ENTY:veh": "vehicle",
    "ENTY:word": "word",
    "HUM:desc": "description",
    "HUM:gr": "group",
    "HUM:ind": "individual",
    "HUM:title": "title",
    "LOC:city": "city",
    "LOC:country": "country",
    "LOC:mount": "mountain",
    "LOC:other": "other",
    "LOC:state": "state",
    "NUM:code": "code",
    "NUM:count": "count",
    "NUM:date": "date",
    "NUM:dist": "distance",
    "NUM:money": "money",
    "NUM:ord": "order",
    "NUM:other": "other",
    "NUM:perc": "percentage",
    "NUM:period": "duration",
    "NUM:speed": "speed",
    "NUM:temp": "temperature",
    "NUM:volsize": "size",
    "NUM:weight": "weight",
}
"""Published code to the second half of the label: `HUM:gr` is `person: group`."""


class TrecSource:
    """Questions of `train_5500.label` and `TREC_10.label`, merged; ids are `train-N` and `test-N`, N the line.

    `codes` keeps the published labels (`DESC`, `DESC:manner`) instead of words.
    """

    description: str
    instruction: str
    labels: tuple[str, ...]
    grader = "label"

    def __init__(self, *, path: str | None = None, classes: Literal[6, 50] = 6, codes: bool = False) -> None:
        self.folder = data_folder(path, benchmark="trec")
        self.names = _names(classes, codes=codes)
        self.labels = tuple(self.names.values())
        self.description = "Say what kind of answer a question asks for, not the answer itself."
        listed = f"{', '.join(self.labels[:-1])} or {self.labels[-1]}"
        self.instruction = f"Classify the question by the kind of answer it asks for, and reply with only {listed}."

    def items(self) -> Sequence[Item]:
        files = {"train": "train_5500.label", "test": "TREC_10.label"}
        return [
            item
            for part, name in files.items()
            for item in self._read(data_file(self.folder, [name], url=URL), part=part)
        ]

    def _read(self, path: Path, *, part: str) -> list[Item]:
        items = []
        for line, text in enumerate(_text(path).split("\n"), start=1):
            if not text.strip():
                continue
            code, space, question = text.strip().partition(" ")
            key = code if code in self.names else code.partition(":")[0]
            if code not in FINE or not space:
                raise SetupError(f"{str(path)!r}, line {line}: expected COARSE:fine question, got {text[:60]!r}")
            items.append(Item(id=f"{part}-{line}", input=question.strip(), reference=self.names[key], stratum=key))
        return items


def trec6(*, path: str | None = None, seed: int = 0, codes: bool = False) -> TrecSource:
    """TREC questions by answer type, 6 classes (tasks.path or $HELDOUT_DATA/trec)."""
    del seed  # Published data is not generated; every source takes a seed.
    return TrecSource(path=path, classes=6, codes=codes)


def trec50(*, path: str | None = None, seed: int = 0, codes: bool = False) -> TrecSource:
    """TREC questions by answer type, 50 classes (tasks.path or $HELDOUT_DATA/trec)."""
    del seed
    return TrecSource(path=path, classes=50, codes=codes)


def _names(classes: Literal[6, 50], *, codes: bool) -> dict[str, str]:
    """Published code to label."""
    words = dict(COARSE)
    if classes == 50:
        words = {code: f"{COARSE[code.partition(':')[0]]}: {name}" for code, name in FINE.items()}
    return {code: code for code in words} if codes else words


def _text(path: Path) -> str:
    """The published training file is latin-1 with one byte that is not ASCII; converted copies are UTF-8."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")
