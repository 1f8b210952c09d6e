"""Templates whose slots are filled from vocabularies, which may hold slots themselves."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

__all__ = ["expand"]

_SLOT = re.compile(r"\{(\w+)(?:\|(\w+))?\}")
_ARTICLE = re.compile(r"\b([Aa])(?= [aeiouAEIOU])")


def expand(template: str, vocabulary: Mapping[str, Sequence[str]], *, rng: random.Random) -> str:
    """One sentence: every `{list}` replaced by a draw, twice from one list never the same, "a" before a vowel mended.

    `{list|initials}` writes the capital letters of the draw and `{list|capital}` begins it with one.
    """
    return _ARTICLE.sub(r"\1n", _fill(template, vocabulary, rng=rng, used=set()))


def _fill(template: str, vocabulary: Mapping[str, Sequence[str]], *, rng: random.Random, used: set[str]) -> str:
    def draw(slot: re.Match[str]) -> str:
        name, form = slot.groups()
        words = [word for word in vocabulary[name] if word not in used or "{" in word]
        word = rng.choice(words)
        used.add(word)
        return _shaped(_fill(word, vocabulary, rng=rng, used=used), form)

    return _SLOT.sub(draw, template)


def _shaped(text: str, form: str | None) -> str:
    if form == "initials":
        return "".join(letter for letter in text if letter.isupper())
    return text[:1].upper() + text[1:] if form == "capital" else text
