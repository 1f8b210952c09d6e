"""Exact and near duplicates of texts, so that one text is never in two roles."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from heldout.tasks.base import Item

__all__ = ["NEAR", "DuplicatePair", "clusters", "find_duplicates", "normalise_text"]

NEAR = 0.8
"""Jaccard similarity of character 5-grams from which two texts are near-duplicates."""

_SHINGLE = 5
_NEEDED = 4  # shared rare shingles before two texts are compared in full: fewer comparisons, longer lists
_APOSTROPHES = re.compile(r"['’ʼ`]")
# Signs that carry meaning stay (C++, 3 * 2, $5); a point, colon or hyphen stays before a digit (3.5, 3 - 2).
_PUNCTUATION = re.compile(r"[^\w\s+=<>^$€£%#@&*/~|.:-]|[.:](?!\d)|-(?!\s*\d)|_")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class DuplicatePair:
    """Two items with the same or nearly the same text; `a` stands first in the source."""

    a: str
    b: str
    similarity: float
    """Jaccard similarity of the shingles; 1 for exact duplicates."""
    exact: bool
    """The normalised texts are equal."""


def normalise_text(text: str) -> str:
    """Unicode NFKC, casefold, no punctuation, no invisible signs, single spaces. Punctuation alone is kept."""
    folded = _SPACE.sub(" ", _visible(unicodedata.normalize("NFKC", text).casefold())).strip()
    bare = _PUNCTUATION.sub(_space_or_mark, _APOSTROPHES.sub("", folded))
    return _SPACE.sub(" ", bare).strip() or folded


def _visible(text: str) -> str:
    """Without soft hyphens, zero-width signs and the like, which hide that two texts are one."""
    return text if text.isascii() else "".join(sign for sign in text if unicodedata.category(sign) != "Cf")


def _space_or_mark(sign: re.Match[str]) -> str:
    """Vowel signs and accents are no word characters to `re`, and carry meaning all the same."""
    return sign[0] if unicodedata.category(sign[0][0]).startswith("M") else " "


def find_duplicates(items: Sequence[Item], *, threshold: float = NEAR) -> tuple[DuplicatePair, ...]:
    """Enough pairs to connect every cluster of duplicates, in the order of the source.

    Each copy is paired with the first item of the same normalised text; near pairs join those first
    items. Exact over all pairs (no sampling): prefix filtering, Bayardo, Ma and Srikant, WWW 2007.
    """
    first: dict[str, int] = {}
    pairs: list[tuple[int, int, float]] = []
    for index, item in enumerate(items):
        original = first.setdefault(normalise_text(item.input), index)
        if original != index:
            pairs.append((original, index, 1.0))
    exact = len(pairs)
    texts, origins = list(first), list(first.values())
    for x, y, similarity in _near_pairs([_shingles(text) for text in texts], threshold):
        a, b = sorted((origins[x], origins[y]))
        pairs.append((a, b, similarity))
    found = sorted((a, b, similarity, order < exact) for order, (a, b, similarity) in enumerate(pairs))
    return tuple(DuplicatePair(items[a].id, items[b].id, similarity, same) for a, b, similarity, same in found)


def clusters(pairs: Iterable[DuplicatePair]) -> tuple[tuple[str, ...], ...]:
    """The ids of each connected cluster of duplicates, in the order in which the pairs name them."""
    parent: dict[str, str] = {}

    def root(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for pair in pairs:
        a, b = root(pair.a), root(pair.b)
        parent[b] = a
    members: dict[str, list[str]] = {}
    for node in parent:
        members.setdefault(root(node), []).append(node)
    return tuple(tuple(cluster) for cluster in members.values())


def _shingles(text: str) -> frozenset[str]:
    return frozenset(text[start : start + _SHINGLE] for start in range(max(1, len(text) - _SHINGLE + 1)))


def _near_pairs(sets: Sequence[frozenset[str]], threshold: float) -> Iterator[tuple[int, int, float]]:
    """Pairs of sets with Jaccard similarity of at least `threshold`.

    With elements ordered from rare to common, two such sets share at least k among their first
    |x| − ⌈t |x|⌉ + k elements, for any k that does not exceed what they must share.
    """
    frequency = Counter(chain.from_iterable(sets))
    rank = {shingle: place for place, shingle in enumerate(sorted(frequency, key=lambda s: (frequency[s], s)))}
    ranked = [frozenset(map(rank.__getitem__, shingles)) for shingles in sets]
    smallest = [math.ceil(threshold * len(ranks) - 1e-9) for ranks in ranked]
    needed = [min(_NEEDED, least) for least in smallest]
    holders: dict[int, list[int]] = {}
    for x in sorted(range(len(ranked)), key=lambda index: (len(ranked[index]), index)):
        size = len(ranked[x])
        hits: list[int] = []
        for shingle in sorted(ranked[x])[: size - smallest[x] + needed[x]]:
            known = holders.setdefault(shingle, [])
            hits.extend(known)
            known.append(x)
        for y, count in sorted(Counter(hits).items()):
            if count < needed[y] or len(ranked[y]) < smallest[x]:
                continue
            shared = len(ranked[x] & ranked[y])
            similarity = shared / (size + len(ranked[y]) - shared)
            if similarity >= threshold - 1e-12:
                yield x, y, similarity
