"""What the rules of IFEval measure of a text: words, sentences, capital words, its language. All in linear time."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources
from typing import Any

from heldout.errors import need

__all__ = ["capital_words", "language_of", "sentence_count", "word_count"]

_WORD = re.compile(r"\w+")
_MARKS = re.compile(r"[.?!]+")
_CLOSING = "\"')]}"
_FOLLOWS = frozenset(_CLOSING + ";*:@({[")
"""What may touch the marks that end a sentence, beside white space."""
_OPENING = "\"'“‘«([{*_-–—#>"
_ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "messrs", "dr", "prof", "gen", "col", "lt", "sen", "rep", "st", "jr", "sr", "vs", "co"),
        *("corp", "inc", "ltd", "bros", "u.s", "u.k", "u.n", "d.c", "n.y", "l.a", "a.m", "p.m", "ph.d", "b.c", "a.d"),
        *("jan", "feb", "aug", "sep", "sept", "oct", "nov", "dec", "ft", "ave", "va", "calif"),
    )
)
"""Without their last dot."""
_SPACED = re.compile(r"\.{2,}|[;@#$%&?!\[\](){}<>\"“”«»*]|--|[:,](?=\D|$)")
"""What stands as a word of its own, as the Penn Treebank has it (Marcus, Santorini and Marcinkiewicz, 1993)."""
_PARTS = re.compile(r"(?i)(?<=\w)(?=n't$)|(?<=[^'])(?=(?:'s|'m|'d|'ll|'re|'ve|')$)")
_LANGUAGE_CHARACTERS = 10000


def word_count(text: str) -> int:
    """Runs of letters, digits and underscores."""
    return sum(1 for _ in _WORD.finditer(text))


def sentence_count(text: str) -> int:
    """Sentences that end in a mark, and what stands after the last one. Line breaks do not end one.

    After Kiss and Strunk (Computational Linguistics 2006): a dot does not end a sentence after an abbreviation or an
    initial, nor, as dots or after a number, before a small letter. The published evaluation used that paper's trained
    model, which is a download of its own; this is close to it, and no more.
    """
    count, end = 0, 0
    for marks in _MARKS.finditer(text):
        following = text[marks.end() : marks.end() + 1]
        if (not following or following.isspace() or following in _FOLLOWS) and _ends(text, marks):
            count, end = count + 1, _past(text, marks.end(), _CLOSING)
    return count + bool(text[end:].strip())


def _ends(text: str, marks: re.Match[str]) -> bool:
    """Whether these marks end a sentence."""
    if set(marks[0]) != {"."}:
        return True
    near = text[max(0, marks.start() - 40) : marks.start()]
    before = near.split()
    word = before[-1].lstrip(_OPENING) if before and not near[-1].isspace() else ""
    following = text[marks.end() : marks.end() + 80].split(None, 1)
    first = following[0].lstrip(_OPENING)[:1] if following else ""
    if len(marks[0]) > 1 or word.isdecimal():
        return not first.islower()
    if word.casefold() in _ABBREVIATIONS:
        return False
    heads_line = near.rpartition("\n")[2].strip() == word and len(near) > len(word)
    is_initial = len(word) == 1 and word.isupper() and word != "I" and not heads_line
    return not (is_initial and first.isupper())


def _past(text: str, start: int, signs: str) -> int:
    while start < len(text) and text[start] in signs:
        start += 1
    return start


def capital_words(text: str) -> int:
    """Words in capitals alone, `A` and `I'M` (two) among them; words as the Penn Treebank divides them."""
    count = 0
    for rough in _SPACED.sub(" ", text).split():
        word = rough.rstrip(".") or rough
        count += sum(part.isupper() for part in _PARTS.split(word))
    return count


def language_of(text: str) -> str | None:
    """ISO 639-1 code (and `zh-cn`, `zh-tw`) of the likeliest language; None where there is nothing to tell by.

    By the library langdetect with a fixed seed and its languages in a fixed order, of the first 10,000 characters.
    """
    need("langdetect", extra="benchmarks")
    from langdetect.lang_detect_exception import LangDetectException

    detector = _languages().create()
    detector.append(text[:_LANGUAGE_CHARACTERS])
    try:
        return str(detector.detect())
    except LangDetectException:
        return None


@lru_cache(maxsize=1)
def _languages() -> Any:
    from langdetect.detector_factory import DetectorFactory

    profiles = resources.files("langdetect").joinpath("profiles")
    texts = {one.name: one.read_text(encoding="utf-8") for one in profiles.iterdir() if not one.name.startswith(".")}
    factory = DetectorFactory()
    factory.set_seed(0)
    factory.load_json_profile([texts[name] for name in sorted(texts) if isinstance(json.loads(texts[name]), dict)])
    return factory
