"""What trusted code keeps of select and sealed tasks in order to find them in training data, without their bodies.

Three ways in which a training text can hold such a task: it is the same text after `normalise_text`; it is nearly the
same (Jaccard similarity of character 5-grams of at least 0.8, as `duplicates` has it); or the two share 13 words in a
row (Brown et al. 2020, arXiv 2005.14165, appendix C). A task of 8 to 12 words is one gram of its own length, and is
found inside longer texts; a shorter one is found only as a whole. Inputs alone are kept: answers are often labels that
every task shares.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heldout.config import TasksConfig
from heldout.errors import TaskError
from heldout.tasks.duplicates import NEAR, normalise_text
from heldout.tasks.roles import text_digest
from heldout.tasks.sources import load_source, read_items

__all__ = ["GRAM", "SHORTEST", "Overlap", "OverlapIndex", "overlap_index", "overlap_of"]

Overlap = Literal["id", "text", "near", "13-gram"]
"""How a training text meets a task, in the order in which it is looked for."""

GRAM = 13
"""Words that two texts may not share in a row."""

SHORTEST = 8
"""Words of the shortest task that is looked for inside longer texts."""

Hashes = NDArray[np.uint64]

_SHINGLE = 5
_NEEDED = 4  # shared rare shingles before two sets are compared in full, as in `duplicates`
_ALONE = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # scripts that put no spaces between words
_WORD = re.compile(rf"[{_ALONE}]|[^\s{_ALONE}]+")
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_SPACE = ord(" ")


@dataclass(frozen=True, slots=True, eq=False)
class OverlapIndex:
    """Hashes of tasks that may not be trained on; no body, answer or id can be read from it.

    It is no vault: who has a text can ask whether it is in here. So it stays with the code that checks data.
    """

    tasks: int
    """How many tasks it knows."""
    ids: frozenset[int]
    texts: frozenset[int]
    """Of each whole text, normalised."""
    grams: Mapping[int, frozenset[int]]
    """Length in words to the grams of that length."""
    near: _NearIndex

    def hits(self, text: str, *, id: str = "") -> Overlap | None:
        """How this text, or the task id that it claims to come from, meets a task; None where it does not.

        A blank text meets nothing.
        """
        if id and _hash(id) in self.ids:
            return "id"
        normal = normalise_text(text)
        if not normal:
            return None
        if _hash(normal) in self.texts:
            return "text"
        if self.near.holds(_shingles(normal)):
            return "near"
        found = _Grams(normal)
        shared = any(not known.isdisjoint(found.of(length)) for length, known in self.grams.items())
        return "13-gram" if shared else None


def overlap_index(
    config: TasksConfig, plan: Mapping[str, Sequence[tuple[str, str]]], *, wording: Iterable[str] = ()
) -> OverlapIndex:
    """The index of every planned task that is not in train: select, spare, audit and the report roles.

    `plan` is `TaskSet.plan`. The source is read again; `TaskError` where it changed since the division.
    """
    items = {item.id: item for item in read_items(load_source(config), name=config.source)}
    planned = [entry for role, entries in plan.items() if role != "train" for entry in entries]
    changed = [task for task, digest in planned if task not in items or text_digest(items[task]) != digest]
    if changed:
        raise TaskError(
            f"the source {config.source!r} changed since the division into roles: {len(changed)} of "
            f"{len(planned)} tasks differ, the first is {changed[0]!r}; restore it before anything is trained"
        )
    return overlap_of(((task, items[task].input) for task, _ in planned), wording=wording)


def overlap_of(tasks: Iterable[tuple[str, str]], *, wording: Iterable[str] = ()) -> OverlapIndex:
    """The index of some (id, text).

    13-grams of the texts of `wording` are left out, for tasks that all begin with one instruction; none by default.
    """
    pairs = [(id, normalise_text(text)) for id, text in tasks]
    texts = [text for _, text in pairs if text]
    grams: dict[int, set[int]] = {}
    for one in map(_Grams, texts):
        length = min(GRAM, one.words)
        if length >= SHORTEST:
            grams.setdefault(length, set()).update(one.of(length))
    for text in wording:
        grams.get(GRAM, set()).difference_update(_Grams(normalise_text(text)).of(GRAM))
    return OverlapIndex(
        tasks=len(pairs),
        ids=frozenset(_hash(id) for id, _ in pairs),
        texts=frozenset(map(_hash, texts)),
        grams={length: frozenset(known) for length, known in sorted(grams.items()) if known},
        near=_near_index([_shingles(text) for text in texts]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _NearIndex:
    """Which sets of shingles hold which shingle: lists end to end, `starts[k]` to `starts[k + 1]` the k-th."""

    keys: Hashes
    """Every shingle once, in order."""
    holders: NDArray[np.int64]
    """Sets that hold each key."""
    holder_starts: NDArray[np.int64]
    members: NDArray[np.int64]
    """Places in `keys` of each set's shingles, in order."""
    member_starts: NDArray[np.int64]

    def holds(self, shingles: Hashes) -> bool:
        """Whether a set of the index has a Jaccard similarity of at least `NEAR` with this one.

        A set that near shares at least ⌈t |x|⌉ of these shingles, so at least k of any |x| − ⌈t |x|⌉ + k of them: the
        rarest are looked up (prefix filtering, Bayardo, Ma and Srikant, WWW 2007). Shingles that no set has are rarest.
        """
        if not len(self.keys):
            return False
        size, least = len(shingles), math.ceil(NEAR * len(shingles) - 1e-9)
        places = np.minimum(np.searchsorted(self.keys, shingles), len(self.keys) - 1)
        known = places[self.keys[places] == shingles]
        if len(known) < least:
            return False
        needed = min(_NEEDED, least)
        begin, end = self.holder_starts[known], self.holder_starts[known + 1]
        rare = np.argsort(end - begin, kind="stable")[: len(known) - least + needed].tolist()
        votes = np.bincount(np.concatenate([self.holders[begin[k] : end[k]] for k in rare]))
        is_shared = np.zeros(len(self.keys), bool)
        is_shared[known] = True
        for one in np.flatnonzero(votes >= needed).tolist():
            own = self.members[self.member_starts[one] : self.member_starts[one + 1]]
            shared = int(np.count_nonzero(is_shared[own]))
            if shared >= (NEAR - 1e-12) * (size + len(own) - shared):
                return True
        return False


def _near_index(sets: Sequence[Hashes]) -> _NearIndex:
    everything = np.concatenate(sets) if sets else np.empty(0, np.uint64)
    keys, members = np.unique(everything, return_inverse=True)
    sizes = [len(one) for one in sets]
    owner = np.repeat(np.arange(len(sets), dtype=np.int64), sizes)
    return _NearIndex(
        keys=keys,
        holders=owner[np.argsort(members, kind="stable")],
        holder_starts=np.concatenate([[0], np.cumsum(np.bincount(members, minlength=len(keys)))]).astype(np.int64),
        members=members.astype(np.int64),
        member_starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


class _Grams:
    """Hashes of the runs of words of one text, of any length in words.

    Polynomial in an odd base modulo 2^64 over prefixes of the text: hash(l, r) = (P_r − P_l) · base^(−l).
    """

    __slots__ = ("_begins", "_ends", "_inverse", "_prefix", "words")

    def __init__(self, normal: str) -> None:
        codes = _codes(" ".join(_WORD.findall(normal)))
        spaces = np.flatnonzero(codes == _SPACE)
        self._begins = np.concatenate([[0], spaces + 1])
        self._ends = np.concatenate([spaces, [len(codes)]])
        self.words = len(self._begins) if len(codes) else 0
        powers = np.cumprod(np.full(len(codes), _BASE, np.uint64))
        self._prefix = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix(codes) * powers)])
        self._inverse = np.cumprod(np.concatenate([np.ones(1, np.uint64), np.full(len(codes), _INVERSE, np.uint64)]))

    def of(self, length: int) -> list[int]:
        """The hash of each run of `length` words."""
        if self.words < length:
            return []
        begins, ends = self._begins[: self.words - length + 1], self._ends[length - 1 :]
        hashes: list[int] = _mix((self._prefix[ends] - self._prefix[begins]) * self._inverse[begins]).tolist()
        return hashes


def _codes(text: str) -> Hashes:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.uint64)


def _shingles(normal: str) -> Hashes:
    """Hashes of the character 5-grams of a normalised text, each once and in order; of a shorter one the whole."""
    codes = _codes(normal)
    padded = np.concatenate([codes, np.zeros(max(0, _SHINGLE - len(codes)), np.uint64)])
    last = len(padded) - _SHINGLE + 1
    mixed = _mix(padded)
    total = mixed[:last].copy()
    for place in range(1, _SHINGLE):
        total = total * np.uint64(_BASE) + mixed[place : place + last]
    return np.unique(_mix(total))


def _mix(values: Hashes) -> Hashes:
    """The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), for each value."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
