"""What a program does, as data: calls of the toolbox whose options depend on which parts of the task are wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

from heldout.errors import need
from heldout.worlds.tables.parts import Part

__all__ = ["Call", "Choice", "perform", "settled", "verb"]

_MODULES = ("operations", "books")
_TOOLBOX = "heldout.worlds.tables.toolbox"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of two options, by whether a part is right; either may be a choice itself."""

    part: Part
    right: Any
    wrong: Any


@dataclass(frozen=True, slots=True)
class Call:
    """`gives = verb(*on, **options)`."""

    verb: str
    options: Mapping[str, Any] = field(default_factory=dict)
    on: tuple[str, ...] = ("rows",)
    gives: str = "rows"
    """Empty where it gives nothing."""
    when: Part | None = None
    """Made only where this part is wrong."""
    unless: Part | None = None
    """Made only where this part is right."""


def settled(calls: Iterable[Call], wrong: Collection[Part]) -> Iterator[Call]:
    """The calls that are made where these parts are wrong, without choices."""
    for call in calls:
        if (call.when is None or call.when in wrong) and call.unless not in wrong:
            options = {name: _chosen(value, wrong) for name, value in call.options.items()}
            yield Call(call.verb, options, call.on, call.gives)


def _chosen(value: Any, wrong: Collection[Part]) -> Any:
    while isinstance(value, Choice):
        value = value.wrong if value.part in wrong else value.right
    return value


@lru_cache(maxsize=64)
def verb(name: str) -> tuple[str, Callable[..., Any]]:
    """The module of the toolbox that has a verb, and its function."""
    for module in _MODULES:
        if module == "books":
            need("openpyxl", extra="tables")
        found = getattr(import_module(f"{_TOOLBOX}.{module}"), name, None)
        if found is not None:
            return f"{_TOOLBOX}.{module}", found
    raise LookupError(f"no verb {name!r} in the toolbox")


def perform(calls: Iterable[Call], state: dict[str, Any], *, reads: Callable[..., Any] | None = None) -> dict[str, Any]:
    """Make calls on named values, which are changed; `reads` is called in the place of the verb `read`."""
    for call in calls:
        function = reads if call.verb == "read" and reads is not None else verb(call.verb)[1]
        result = function(*(state[name] for name in call.on), **call.options)
        if call.gives:
            state[call.gives] = result
    return state
