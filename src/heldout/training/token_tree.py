"""How token sequences are laid out for a forward pass: sequences with a common beginning share it.

The rollouts of a group have one prompt. Laid out as a tree it is run once: nodes in depth-first order, each token sees
its ancestors alone, and its position is its depth. The log-probabilities and gradients are those of separate rows
(tree attention: arXiv 2305.09781; a shared prompt in GRPO: arXiv 2506.05433).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["TokenBatch", "row_batches", "tree_batches"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """One forward pass, shape (rows, length), and where in it the wanted predictions are made.

    Token i of a row is seen by the tokens j of that row with i ≤ j < `ends[i]`. Padding sees itself alone.
    """

    ids: Ints
    positions: Ints
    ends: Ints
    places: Ints
    """Of each wanted prediction: index in the flattened (rows · length) of the token that makes it."""
    wanted: Ints
    """Number of each wanted prediction, in the order in which the caller gave them."""
    tree: bool
    """Needs `positions` and the mask of `ends`; otherwise rows are single sequences, padded on the right."""

    @property
    def size(self) -> int:
        """Tokens that the pass computes, padding included."""
        return self.ids.size

    def mask(self) -> NDArray[np.bool_]:
        """Shape (rows, length, length): may token j (second axis) see token i (third axis)?"""
        index = np.arange(self.ids.shape[1])
        return np.asarray((index <= index[:, None]) & (index[:, None] < self.ends[:, None, :]))


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    ids: Ints
    positions: Ints
    ends: Ints
    places: Ints
    wanted: Ints


def tree_batches(
    sequences: Sequence[Ints], wanted: Sequence[Ints], *, budget: int, token_cost: float
) -> tuple[TokenBatch, ...]:
    """Batches of about `budget` tokens, in which sequences share what they begin with where that is cheaper.

    `wanted[s]` are the places in sequence s whose next-token prediction is asked for; predictions are numbered through
    all sequences in order. `token_cost` is what a token costs apart from attention, in looks of one token at another:
    a sequence joins a tree while the tokens it shares save more than the looks that its own tokens waste.
    """
    first = np.concatenate([[0], np.cumsum([len(one) for one in wanted])])
    trees = [
        _grow([sequences[s] for s in group], [wanted[s] for s in group], [int(first[s]) for s in group])
        for group in _groups(sequences, budget, token_cost)
    ]
    return tuple(_joined(shelf) for shelf in _shelves(trees, budget))


def row_batches(sequences: Sequence[Ints], wanted: Sequence[Ints], *, budget: int) -> tuple[TokenBatch, ...]:
    """Batches of about `budget` tokens with a sequence in each row, of similar lengths, padded on the right."""
    first = np.concatenate([[0], np.cumsum([len(one) for one in wanted])])
    batches = []
    for group in _by_length([len(one) for one in sequences], budget):
        length = max(len(sequences[s]) for s in group)
        ids = np.zeros((len(group), length), dtype=np.int64)
        ends = np.tile(np.arange(1, length + 1), (len(group), 1))
        for row, s in enumerate(group):
            ids[row, : len(sequences[s])] = sequences[s]
            ends[row, : len(sequences[s])] = len(sequences[s])
        positions = np.tile(np.arange(length), (len(group), 1))
        places = np.concatenate([row * length + wanted[s] for row, s in enumerate(group)])
        numbers = np.concatenate([first[s] + np.arange(len(wanted[s])) for s in group])
        batches.append(TokenBatch(ids, positions, ends, places, numbers, tree=False))
    return tuple(batches)


def _groups(sequences: Sequence[Ints], budget: int, token_cost: float) -> Iterator[list[int]]:
    """Sequences that share a tree, in the order in which their nodes are laid out."""
    order = sorted(range(len(sequences)), key=lambda s: tuple(sequences[s]))
    group: list[int] = []
    size = 0
    for s in order:
        shared = _common(sequences[group[-1]], sequences[s]) if group else 0
        new = len(sequences[s]) - shared
        if group and (shared * token_cost <= new * size or size + new > budget):
            yield group
            group, size, new = [], 0, len(sequences[s])
        group.append(s)
        size += new
    if group:
        yield group


def _common(a: Ints, b: Ints) -> int:
    """Length of the longest common beginning."""
    n = min(len(a), len(b))
    different = np.flatnonzero(a[:n] != b[:n])
    return int(different[0]) if different.size else n


def _grow(sequences: list[Ints], wanted: list[Ints], first: list[int]) -> _Tree:
    """The tree of sequences in lexicographic order, which makes depth-first order the order of appearance."""
    ids, positions, paths = [], [], []
    path = before = np.zeros(0, dtype=np.int64)
    size = 0
    for sequence in sequences:
        shared = _common(before, sequence)
        new = np.arange(size, size + len(sequence) - shared)
        path, before = np.concatenate([path[:shared], new]), sequence
        size += len(new)
        ids.append(sequence[shared:])
        positions.append(np.arange(shared, len(sequence)))
        paths.append(path)
    end = np.zeros(size, dtype=np.int64)
    reached = np.cumsum([len(part) for part in ids])
    for path, last in zip(paths, reached, strict=True):
        end[path] = last
    return _Tree(
        ids=np.concatenate(ids),
        positions=np.concatenate(positions),
        ends=end,
        places=np.concatenate([path[one] for path, one in zip(paths, wanted, strict=True)]),
        wanted=np.concatenate([start + np.arange(len(one)) for start, one in zip(first, wanted, strict=True)]),
    )


def _shelves(trees: list[_Tree], budget: int) -> Iterator[list[list[_Tree]]]:
    """Trees packed into the rows of batches: longest first, each into the first row with room for it."""
    rows: list[list[_Tree]] = []
    free: list[int] = []
    length = 0
    for tree in sorted(trees, key=lambda one: -len(one.ids)):
        size = len(tree.ids)
        place = next((row for row, room in enumerate(free) if room >= size), None)
        if place is None and rows and (len(rows) + 1) * length > budget:
            yield rows
            rows, free = [], []
        if place is None:
            length = length if rows else size
            rows.append([tree])
            free.append(length - size)
        else:
            rows[place].append(tree)
            free[place] -= size
    if rows:
        yield rows


def _joined(rows: list[list[_Tree]]) -> TokenBatch:
    length = max(sum(len(tree.ids) for tree in row) for row in rows)
    ids = np.zeros((len(rows), length), dtype=np.int64)
    positions = np.zeros_like(ids)
    ends = np.tile(np.arange(1, length + 1), (len(rows), 1))
    places, wanted = [], []
    for number, row in enumerate(rows):
        start = 0
        for tree in row:
            span = slice(start, start + len(tree.ids))
            ids[number, span], positions[number, span] = tree.ids, tree.positions
            ends[number, span] = tree.ends + start
            places.append(tree.places + number * length + start)
            wanted.append(tree.wanted)
            start = span.stop
    return TokenBatch(ids, positions, ends, np.concatenate(places), np.concatenate(wanted), tree=True)


def _by_length(lengths: list[int], budget: int) -> Iterator[list[int]]:
    """Rows of a batch, longest first, while their number times the longest stays within the budget."""
    group: list[int] = []
    for s in sorted(range(len(lengths)), key=lambda one: -lengths[one]):
        if group and (len(group) + 1) * lengths[group[0]] > budget:
            yield group
            group = []
        group.append(s)
    if group:
        yield group
