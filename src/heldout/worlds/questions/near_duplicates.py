"""Dropping questions that are too alike, so that no role of a run can hold a copy of another's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

__all__ = ["distinct"]

_WIDTH = 5


def distinct(texts: Sequence[str], *, similarity: float) -> list[int]:
    """Indices of texts to keep, in order: none has a Jaccard similarity above `similarity` with an earlier kept one.

    Similarity is over sets of character 5-grams of the case-folded text. Two sets that are so alike share one of
    their rarest grams (the prefix filter of Chaudhuri et al. 2006), so that few pairs are compared.
    """
    grams = [_grams(text) for text in texts]
    counts = Counter(gram for one in grams for gram in one)
    kept_with: dict[str, list[int]] = {}
    keep: list[int] = []
    for index, own in enumerate(grams):
        prefix = sorted(own, key=lambda gram: (counts[gram], gram))[: len(own) - math.ceil(similarity * len(own)) + 1]
        rivals = {rival for gram in prefix for rival in kept_with.get(gram, ())}
        if any(_jaccard(own, grams[rival]) > similarity for rival in rivals):
            continue
        keep.append(index)
        for gram in prefix:
            kept_with.setdefault(gram, []).append(index)
    return keep


def _grams(text: str) -> frozenset[str]:
    folded = text.casefold()
    return frozenset(folded[start : start + _WIDTH] for start in range(max(1, len(folded) - _WIDTH + 1)))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)
