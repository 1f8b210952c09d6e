"""How sequences are laid out for a forward pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.training.token_tree import TokenBatch, row_batches, tree_batches

Sequences = list[list[int]]


def _arrays(sequences: Sequences) -> list[np.ndarray]:
    return [np.array(one, dtype=np.int64) for one in sequences]


def _everywhere(sequences: Sequences) -> list[np.ndarray]:
    return [np.arange(len(one)) for one in sequences]


def test_rollouts_of_one_prompt_share_it() -> None:
    sequences = [[1, 2, 3, 7], [1, 2, 3, 8, 9], [1, 2, 3, 7, 5]]
    (batch,) = tree_batches(_arrays(sequences), _everywhere(sequences), budget=100, token_cost=100)
    assert batch.ids.tolist() == [[1, 2, 3, 7, 5, 8, 9]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4, 3, 4]]
    seen = batch.mask()[0]
    assert np.flatnonzero(seen[4]).tolist() == [0, 1, 2, 3, 4]
    assert np.flatnonzero(seen[6]).tolist() == [0, 1, 2, 5, 6]


def test_what_shares_too_little_stands_apart_and_is_not_seen() -> None:
    sequences = [[1, 2, 3], [1, 5, 6]]
    (batch,) = tree_batches(_arrays(sequences), _everywhere(sequences), budget=100, token_cost=0.1)
    assert batch.ids.shape == (2, 3)
    packed = tree_batches(_arrays([[9, 8, 7, 6], [1, 2], [3, 4]]), _everywhere([[0] * 4, [0] * 2, [0] * 2]),
                          budget=100, token_cost=0.1)  # fmt: skip
    assert packed[0].ids.tolist() == [[9, 8, 7, 6], [1, 2, 3, 4]]
    assert not packed[0].mask()[1, 2:, :2].any()


def test_a_tree_grows_no_larger_than_the_budget() -> None:
    sequences = [[1, 2, 3, 4, 10 + n] for n in range(20)]
    batches = tree_batches(_arrays(sequences), _everywhere(sequences), budget=10, token_cost=1e9)
    assert all(batch.size <= 10 for batch in batches)
    assert sum(len(batch.wanted) for batch in batches) == 100


def test_rows_are_padded_on_the_right_among_their_like() -> None:
    sequences = [[1], [2, 3, 4, 5], [6, 7, 8], [9]]
    batches = row_batches(_arrays(sequences), _everywhere(sequences), budget=8)
    assert [batch.ids.tolist() for batch in batches] == [[[2, 3, 4, 5], [6, 7, 8, 0]], [[1], [9]]]


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), min_size=1, max_size=12),
    st.integers(1, 40),
    st.sampled_from([0.0, 1.0, 50.0]),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_each_wanted_prediction_sees_its_own_beginning_and_nothing_else(
    sequences: Sequences, budget: int, cost: float, trees: bool
) -> None:
    arrays, wanted = _arrays(sequences), _everywhere(sequences)
    batches = (
        tree_batches(arrays, wanted, budget=budget, token_cost=cost)
        if trees
        else row_batches(arrays, wanted, budget=budget)
    )
    expected = [tuple(one[: place + 1]) for one in sequences for place in range(len(one))]
    found = dict(pair for batch in batches for pair in _contexts(batch))
    assert found == dict(enumerate(expected))


def _contexts(batch: TokenBatch) -> list[tuple[int, tuple[int, ...]]]:
    """What each wanted prediction sees: the tokens, by their positions."""
    length, seen = batch.ids.shape[1], batch.mask()
    found = []
    for place, number in zip(batch.places, batch.wanted, strict=True):
        row, column = divmod(int(place), length)
        visible = np.flatnonzero(seen[row, column])
        assert batch.positions[row, visible].tolist() == list(range(len(visible)))
        found.append((int(number), tuple(batch.ids[row, visible].tolist())))
    return found


@pytest.mark.parametrize("trees", [True, False])
def test_padding_sees_itself_alone(trees: bool) -> None:
    sequences = [[1, 2, 3, 4, 5], [6, 7]]
    lay = (lambda *a: tree_batches(*a, budget=50, token_cost=1.0)) if trees else (lambda *a: row_batches(*a, budget=50))
    (batch,) = lay(_arrays(sequences), _everywhere(sequences))
    assert batch.mask()[1, 3].tolist() == [False, False, False, True, False]
