"""Rules that read tasks one by one or guard a reused set: PACE's betting process and the Ladder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heldout.stats.paired import mean_interval

__all__ = ["PaceDecision", "ladder_accepts", "pace_decision", "pace_wealth"]

_BET = 0.5
"""Share of the wealth that each task stakes: ×1.5 for a win, ×0.5 for a loss (arXiv 2606.08106)."""

_STRICTLY = 1.0 + 1e-9
"""Binary tables can tie exactly (1–0 and 3–1 have gain = SE), which rounding must not turn into a win."""


@dataclass(frozen=True, slots=True)
class PaceDecision:
    """Whether the wealth ever reached 1/α, with the evidence."""

    accepts: bool
    peak: float
    """Highest wealth; 1 / peak is a p-value that is valid at any stopping time (Ville's inequality)."""
    final: float


def pace_wealth(differences: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    """Wealth after each task of `order`, from 1: W_t = W_{t−1} (1 + d_t / 2), d in [−1, 1].

    Scores of 0 and 1 give ×1.5 per win and ×0.5 per loss. While E d ≤ 0, W is a supermartingale,
    so it ever reaches 1/α with probability at most α. A task that was not measured leaves it unchanged.
    """
    stakes = 1.0 + _BET * np.nan_to_num(differences[order], nan=0.0)
    return np.cumprod(stakes, dtype=np.float64)


def pace_decision(differences: NDArray[np.float64], order: NDArray[np.intp], *, alpha: float = 0.05) -> PaceDecision:
    """Accept once the wealth reaches 1/α; `order` is drawn before the differences are seen."""
    path = pace_wealth(differences, order)
    peak = max(1.0, float(path.max())) if len(path) else 1.0
    return PaceDecision(accepts=peak * alpha >= 1.0, peak=peak, final=float(path[-1]) if len(path) else 1.0)


def ladder_accepts(differences: NDArray[np.float64]) -> bool:
    """Whether the mean gain is above its own standard error over tasks; False below two measured tasks.

    The step size of the parameter-free Ladder (Blum & Hardt 2015, arXiv 1502.04585), used as a gate.
    """
    summary = mean_interval(differences)
    if summary.mean is None or summary.standard_error is None:
        return False
    return summary.mean > summary.standard_error * _STRICTLY
