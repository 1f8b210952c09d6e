"""The object walk finds a secret wherever Python can hide one, and stops at the process's own things."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from heldout.records import Candidate, Task
from heldout.testing.object_graph import reachable_strings, reached

GLOBAL = "a global of this module"


@dataclass(frozen=True, slots=True)
class Slotted:
    text: object


class Plain:
    def __init__(self, text: object) -> None:
        self.text = text

    def method(self) -> None: ...


def closure(secret: str) -> Callable[[], str]:
    return lambda: secret


def default(secret: str) -> Callable[..., str]:
    def function(*, text: str = secret) -> str:
        return text

    return function


def generator(secret: str) -> Iterator[str]:
    yield "first"
    yield secret


def started(secret: str) -> Iterator[str]:
    iterator = generator(secret)
    next(iterator)
    return iterator


def cached(secret: str) -> Callable[[int], str]:
    @functools.cache
    def function(_number: int) -> str:
        return str(secret)

    function(1)
    return function


def loop(secret: str) -> list[Any]:
    items: list[Any] = [secret]
    items.append(items)
    return items


HOLDERS: dict[str, Callable[[str], object]] = {
    "itself": lambda s: s,
    "bytes": lambda s: s.encode(),
    "list": lambda s: [[(s,)]],
    "dict key": lambda s: {s: 1},
    "dict value": lambda s: {1: {2: s}},
    "set": lambda s: frozenset({s}),
    "deque": lambda s: deque([s]),
    "slots": Slotted,
    "attribute": Plain,
    "bound method": lambda s: Plain(s).method,
    "bound builtin": lambda s: [s].append,
    "partial": lambda s: functools.partial(print, s),
    "closure": closure,
    "keyword default": default,
    "running generator": started,
    "iterator": lambda s: itertools.chain([s]),
    "cache": cached,
    "object array": lambda s: np.array([s, None], dtype=object),
    "text array": lambda s: np.array([s])[:1],
    "record": lambda s: Task(id="a", input=s),
    "record's mapping": lambda s: Candidate(files={"instruction.md": s}),
    "exception": ValueError,
    "a loop": loop,
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_secret_is_found(kind: str) -> None:
    secret = f"secret in {kind}!"
    assert reached(HOLDERS[kind](secret), [secret]) == {secret}
    assert reached(HOLDERS[kind]("harmless"), [secret]) == set()


def test_a_secret_is_found_inside_a_longer_text() -> None:
    assert reached([f"prompt: {'needle'} and more"], ["needle", "absent"]) == {"needle"}


def test_globals_and_modules_do_not_count() -> None:
    def uses_global() -> str:
        return GLOBAL

    assert GLOBAL not in reachable_strings((uses_global, Plain, np, Plain("x")))
