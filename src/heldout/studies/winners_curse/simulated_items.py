"""How the simulated loop's items are answered, vectorised; the arithmetic of `heldout.models.simulated_skill`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "answers", "chance_right", "difficulties", "mean_right", "theta_of"]

SPREAD = 4.0
"""How strongly difficulty acts."""

Floats = NDArray[np.float64]


def answers(skill: Floats | float, difficulty: Floats, luck: Floats) -> Floats:
    """1 where the item is answered rightly; skills of shape (K,) give (K, n)."""
    return (luck < chance_right(skill, difficulty)).astype(np.float64)


def chance_right(skill: Floats | float, difficulty: Floats) -> Floats:
    """logistic(θ + 4 z); skills of shape (K,) give (K, n)."""
    theta = np.asarray(theta_of(np.asarray(skill, dtype=np.float64)))
    chance: Floats = 1.0 / (1.0 + np.exp(-(theta[..., None] + SPREAD * difficulty)))
    return chance


def theta_of(skill: Floats) -> Floats:
    """θ with mean right = skill, from a fine table by linear interpolation; the error in skill is below 1e-5."""
    thetas, skills = _theta_table()
    return np.interp(skill, skills, thetas)


def mean_right(theta: Floats) -> Floats:
    """E logistic(θ + 4 Z), Z ~ N(0, 1), by the trapezoidal rule."""
    z, weight = difficulties()
    result: Floats = (1.0 / (1.0 + np.exp(-(np.asarray(theta)[..., None] + SPREAD * z)))) @ weight
    return result


@lru_cache(maxsize=1)
def _theta_table() -> tuple[Floats, Floats]:
    thetas = np.linspace(-25.0, 25.0, 4001)
    return thetas, mean_right(thetas)


@lru_cache(maxsize=1)
def difficulties() -> tuple[Floats, Floats]:
    """Difficulties on a fine grid, and the weight of each under N(0, 1)."""
    z = np.linspace(-9.0, 9.0, 721)
    density = np.exp(-(z**2) / 2.0)
    return z, density / density.sum()
