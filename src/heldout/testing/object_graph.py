"""What an object can reach: the tool behind every test that a secret is out of reach."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    ModuleType,
)
from typing import Any

import numpy as np

__all__ = ["reachable_strings", "reached"]

_OPAQUE = (type, ModuleType, CodeType, int, float, complex, range, slice)


def reachable_strings(root: Any) -> set[str]:
    """Every string (and decodable bytes) that can be reached from `root` by following references.

    Follows attributes, slots, containers, closures, defaults, bound methods, partials, caches, frames'
    locals and numpy object arrays. Stops at types, modules and the globals of functions, which belong
    to the process and not to the object.
    """
    found: set[str] = set()
    seen: dict[int, Any] = {}  # keeps each object alive, so that an id is never used twice
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, bytes | bytearray):
            found.add(bytes(value).decode(errors="ignore"))
        elif not isinstance(value, _OPAQUE) and id(value) not in seen:
            seen[id(value)] = value
            waiting.extend(_referents(value))
    return found


def reached(root: Any, texts: Iterable[str]) -> set[str]:
    """Those of `texts` that stand inside a string that `root` can reach."""
    haystack = "\0".join(reachable_strings(root))
    return {text for text in texts if text in haystack}


def _referents(value: Any) -> Iterator[Any]:
    if isinstance(value, FunctionType):
        yield from (value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__)
    elif isinstance(value, BuiltinFunctionType):
        yield value.__self__
    elif isinstance(value, FrameType):
        yield value.f_locals
    elif isinstance(value, np.ndarray):
        yield from (value.tolist() if value.dtype.kind in "OUS" else (), value.base)
    else:
        if isinstance(value, dict):
            yield from value  # the collector passes over keys that are strings
        yield from gc.get_referents(value)
