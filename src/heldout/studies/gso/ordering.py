"""How often a measured order of arms is not the true one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.stats import EQUAL_WITHIN
from heldout.studies.gso.summaries import ArmRuns, exact_audit

__all__ = ["Missed", "misordered", "order_missed"]


@dataclass(frozen=True, slots=True)
class Missed:
    """Over seeds."""

    seeds: int
    missed: int
    """Seeds in which at least one pair of arms that truly differ is reversed or tied."""
    best_missed: int
    """Seeds in which another arm than a truly best one measures highest, or as high."""
    reversed: int
    """Pairs, over all seeds, that are reversed or tied."""
    pairs: int
    """Pairs, over all seeds, that truly differ."""

    @property
    def share(self) -> float:
        """Of the pairs."""
        return self.reversed / self.pairs if self.pairs else 0.0


def order_missed(arms: Mapping[str, ArmRuns], *, first: int | None) -> Missed:
    """Compare the exact audit rates with scores on the `first` audit tasks, or on all of them."""
    true = np.array([runs.values(exact_audit) for runs in arms.values()])
    seen = np.array([runs.values(lambda one: one.measured.mean("audit", first)) for runs in arms.values()])
    counts = [misordered(true[:, seed], seen[:, seed]) for seed in range(true.shape[1])]
    return Missed(
        seeds=len(counts),
        missed=sum(wrong > 0 for wrong, _ in counts),
        best_missed=sum(_best_missed(true[:, seed], seen[:, seed]) for seed in range(true.shape[1])),
        reversed=sum(wrong for wrong, _ in counts),
        pairs=sum(pairs for _, pairs in counts),
    )


def misordered(true: NDArray[np.float64], seen: NDArray[np.float64]) -> tuple[int, int]:
    """Pairs that are reversed or tied in `seen`, of the pairs that differ in `true`."""
    left, right = np.triu_indices(len(true), k=1)
    really, measured = true[left] - true[right], seen[left] - seen[right]
    differ = np.abs(really) > EQUAL_WITHIN
    wrong = differ & (np.sign(really) * measured <= EQUAL_WITHIN)
    return int(wrong.sum()), int(differ.sum())


def _best_missed(true: NDArray[np.float64], seen: NDArray[np.float64]) -> bool:
    best = true >= true.max() - EQUAL_WITHIN
    return bool(seen[~best].max(initial=-1.0) >= seen[best].max() - EQUAL_WITHIN)
