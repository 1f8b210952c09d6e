"""The arithmetic of the simulated solver: item difficulty, skill, and draws that are pure functions of texts.

Specification: `systems/winners_curse.md`, section 7(b). Item j has difficulty z_j ~ N(0, 1) and is answered rightly
with probability logistic(theta + 4 z_j), where theta is solved so that the mean over z is the skill.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

__all__ = ["ItemDraws", "SkillLine", "item_draws", "probability_right", "salted_draw", "theta_for"]

SPREAD = 4.0
"""How strongly difficulty acts: most items are nearly always right or nearly always wrong."""

_NORMAL = NormalDist()
_LINE = re.compile(r"\[\[simulated skill=([0-9.]+) salts=([\w,-]+) redraw=([0-9.]+)\]\]")


@dataclass(frozen=True, slots=True)
class SkillLine:
    """A line in an instruction that states the skill of a simulated candidate, visible in every diff.

    `salts` is the lineage, oldest first: at each later step an item's outcome is drawn anew with probability `redraw`.
    """

    skill: float
    salts: tuple[str, ...]
    redraw: float = 1.0

    def text(self) -> str:
        return f"[[simulated skill={self.skill:.6f} salts={','.join(self.salts)} redraw={self.redraw:.6f}]]"

    @classmethod
    def find(cls, text: str) -> SkillLine | None:
        """The first such line of a text, or None."""
        found = _LINE.search(text)
        return None if found is None else cls(float(found[1]), tuple(found[2].split(",")), float(found[3]))

    def replaced_in(self, text: str) -> str:
        """`text` with this line in the place of its own."""
        return _LINE.sub(self.text(), text, count=1)


@dataclass(frozen=True, slots=True)
class ItemDraws:
    """What is fixed about an item, from the hash of its text."""

    key: str
    """Under which the answer key knows the item; it tells nothing of the text."""
    difficulty: float
    """z, standard normal."""
    uniform: float
    choice: float
    """Uniform; picks among the wrong answers."""


def item_draws(text: str, *, seed: int) -> ItemDraws:
    """The item's key, difficulty and draws. The key does not depend on the seed."""
    key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    drawn = hashlib.blake2b(text.encode(), digest_size=24, person=b"item", salt=seed.to_bytes(16, "big")).digest()
    return ItemDraws(key, _NORMAL.inv_cdf(_uniform(drawn[:8])), _uniform(drawn[8:16]), _uniform(drawn[16:]))


def salted_draw(key: str, salt: str, *, redraw: float) -> float | None:
    """A new uniform for the item with probability `redraw`, else None: the older one is inherited."""
    drawn = hashlib.blake2b(f"{key}\0{salt}".encode(), digest_size=16, person=b"salt").digest()
    return _uniform(drawn[8:]) if _uniform(drawn[:8]) < redraw else None


def probability_right(skill: float, difficulty: float) -> float:
    """logistic(theta + 4 z)."""
    return 1.0 / (1.0 + math.exp(-(theta_for(skill) + SPREAD * difficulty)))


@lru_cache(maxsize=65536)
def theta_for(skill: float) -> float:
    """theta with E logistic(theta + 4 Z) = skill, Z ~ N(0, 1), by bisection; |error in skill| < 1e-9."""
    if not 0.0 < skill < 1.0:
        raise ValueError(f"a skill lies between 0 and 1, got {skill!r}")
    low, high = -40.0, 40.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if _mean_right(middle) < skill else (low, middle)
    return (low + high) / 2


def _mean_right(theta: float) -> float:
    """The trapezoid rule on a wide grid, which converges geometrically for this integrand."""
    z = np.linspace(-9.0, 9.0, 721)
    density = np.exp(-(z**2) / 2)
    return float(density @ (1.0 / (1.0 + np.exp(-(theta + SPREAD * z)))) / density.sum())


def _uniform(drawn: bytes) -> float:
    """Strictly between 0 and 1, from 52 of 64 bits."""
    return ((int.from_bytes(drawn, "big") >> 12) + 0.5) / 2.0**52
