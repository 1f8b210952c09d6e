"""Whether two scores put the same things in the same order: pairs that agree, and Spearman's rank correlation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.stats.paired import EQUAL_WITHIN

__all__ = ["PairAgreement", "pair_agreement", "spearman"]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Pairs by whether both scores order them alike; `agree + disagree + ties` are all of them."""

    agree: int
    disagree: int
    ties: int
    """Equal in at least one of the scores."""
    tied_first: int
    tied_second: int

    @property
    def pairs(self) -> int:
        return self.agree + self.disagree + self.ties

    @property
    def share(self) -> float | None:
        """Of all pairs, those that agree: ties count against it. None without a pair."""
        return self.agree / self.pairs if self.pairs else None

    @property
    def tau_b(self) -> float | None:
        """Kendall's tau-b over these pairs; None where a score orders none of them."""
        ordered = (self.pairs - self.tied_first) * (self.pairs - self.tied_second)
        return (self.agree - self.disagree) / math.sqrt(ordered) if ordered else None


def pair_agreement(first: ArrayLike, second: ArrayLike, *, groups: Sequence[str] = ()) -> PairAgreement:
    """Compare every pair of things that both scores measured; NaN is *not measured*, and left out.

    With `groups` (one name of each thing) only pairs of the same group are compared: scores of two benchmarks have
    no common order.
    """
    a, b = _columns(first, second)
    if groups and len(groups) != len(a):
        raise ValueError(f"expected a group of each of {len(a)} things, got {len(groups)}")
    names = np.array(groups or ("",) * len(a))
    kept = ~np.isnan(a) & ~np.isnan(b)
    a, b, names = a[kept], b[kept], names[kept]
    left, right = np.triu_indices(len(a), k=1)
    same = names[left] == names[right]
    up_a, up_b = _signs(a[left[same]] - a[right[same]]), _signs(b[left[same]] - b[right[same]])
    return PairAgreement(
        agree=int((up_a * up_b > 0).sum()),
        disagree=int((up_a * up_b < 0).sum()),
        ties=int((up_a * up_b == 0).sum()),
        tied_first=int((up_a == 0).sum()),
        tied_second=int((up_b == 0).sum()),
    )


def spearman(first: ArrayLike, second: ArrayLike) -> float | None:
    """Spearman's rank correlation: Pearson's, of ranks in which ties share their mean rank.

    NaN is left out pairwise. None below two pairs, and where a score does not vary.
    """
    a, b = _columns(first, second)
    kept = ~np.isnan(a) & ~np.isnan(b)
    if kept.sum() < 2:
        return None
    ranks = [_ranks(column[kept]) for column in (a, b)]
    x, y = (rank - rank.mean() for rank in ranks)
    spread = math.sqrt(float(x @ x) * float(y @ y))
    return None if spread == 0.0 else max(-1.0, min(1.0, float(x @ y) / spread))


def _columns(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"expected two columns of the same things, got shapes {a.shape} and {b.shape}")
    return a, b


def _signs(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.abs(differences) <= EQUAL_WITHIN, 0.0, np.sign(differences))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: NDArray[np.float64] = (last - (counts - 1) / 2.0)[place]
    return shared
