"""Generation tables by hand: each candidate is a string of `+` win, `-` loss, `=` tie, `?` not measured."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from heldout.gates import GenerationTable

MOVES = {"+": 1.0, "-": 0.0, "=": 0.5, "?": math.nan}

MakeTable = Callable[..., GenerationTable]


def _table(*rows: str, edit_sizes: tuple[int, ...] | None = None, seed: int = 0) -> GenerationTable:
    """The incumbent scores 1/2 everywhere; candidates score 1/2 more, less or the same."""
    candidates = np.array([[MOVES[mark] for mark in row] for row in rows])[:, :, None]
    sizes = edit_sizes if edit_sizes is not None else (10,) * len(rows)
    return GenerationTable(np.full((len(rows[0]), 1), 0.5), candidates, np.array(sizes), seed=seed)


def _counts(wins: int, losses: int, *, n: int = 16, seed: int = 0) -> GenerationTable:
    """One candidate with scores of 0 and 1."""
    incumbent, candidate = np.ones((n, 1)), np.ones((1, n, 1))
    incumbent[:wins] = 0.0
    candidate[0, wins : wins + losses] = 0.0
    return GenerationTable(incumbent, candidate, np.array([10]), seed=seed)


@pytest.fixture
def table() -> MakeTable:
    return _table


@pytest.fixture
def counts() -> MakeTable:
    return _counts
