"""What a bug template makes: the two modules that matter, the fragments, the checks, and what a user would say."""

from __future__ import annotations

import random
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import Template
from typing import Any

__all__ = [
    "Case",
    "Domain",
    "Draft",
    "Draw",
    "Example",
    "Mechanism",
    "deep",
    "domains",
    "fill",
    "phrases",
    "shallow",
    "steady",
]

_ASSERTION = "AssertionError"


@dataclass(frozen=True, slots=True)
class Domain:
    """Vocabulary of what a package is about; `item`, `items` and `count` are Python names too."""

    name: str
    packages: tuple[str, ...]
    item: str
    items: str
    group: str
    groups: str
    count: str
    measure: str
    """What people call the count of an item."""
    tool: str
    people: tuple[str, ...]
    names: tuple[str, ...]
    """Of groups; some with letters beyond ASCII."""
    words: tuple[str, ...]
    """Of items, lower case, ASCII."""


@dataclass(frozen=True, slots=True)
class Case:
    """One check: an expression over names of the target, and what it must give."""

    label: str
    """What is checked, in words; unique in a draft."""
    got: str
    wanted: str
    setup: tuple[str, ...] = ()
    """Statements before the expression."""
    broken: str = ""
    """Class of the error that the check ends with while the bug is there; empty where it passes."""
    partial: str = ""
    """The same under the partial mend."""


@dataclass(frozen=True, slots=True)
class Example:
    """One failing case in a user's words."""

    given: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Draft:
    """One planted bug. `$spot` in the target is where the fragments stand."""

    stems: tuple[str, str]
    """Module names of target and look-alike."""
    names: tuple[str, ...]
    """What checks and tests import from the target."""
    target: str
    broken: str
    fixed: str
    partial: str
    lookalike: str
    lookalike_line: str
    lookalike_change: str
    search: str
    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]
    symptoms: tuple[str, ...]
    """Ways to say what goes wrong, each of one or two sentences."""
    example: Example
    remarks: tuple[str, ...]
    """Ways to hint at what a half-hearted mend would miss."""
    support: Mapping[str, str] | None = None
    """Further modules that the target needs: stem to source."""


@dataclass(frozen=True, slots=True)
class Draw:
    """The choices of one package: its vocabulary, its names and a source of random numbers."""

    rng: random.Random
    domain: Domain
    package: str

    def pick(self, *options: str) -> str:
        """One of the options."""
        return self.rng.choice(options)

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return self.rng.randint(low, high)

    def names(self, count: int) -> list[str]:
        """Different names of groups."""
        return self.rng.sample(self.domain.names, count)

    def accented(self) -> str:
        """The name of a group with a letter that has an accent of its own in Unicode."""
        return self.rng.choice([name for name in self.domain.names if not unicodedata.is_normalized("NFD", name)])

    def words(self, count: int) -> list[str]:
        """Different names of items."""
        return self.rng.sample(self.domain.words, count)

    def slots(self, **more: str) -> dict[str, str]:
        """What `fill` replaces in every template, and `more`."""
        domain = self.domain
        common = {"package": self.package, "item": domain.item, "items": domain.items}
        return common | {"group": domain.group, "groups": domain.groups, "count": domain.count} | more


def steady(label: str, got: str, wanted: object, *setup: str) -> Case:
    """A check that the bug does not touch."""
    return Case(label, got, repr(wanted), setup)


def shallow(label: str, got: str, wanted: object, *setup: str, error: str = _ASSERTION) -> Case:
    """A check that the bug breaks and the partial mend satisfies."""
    return Case(label, got, repr(wanted), setup, broken=error)


def deep(label: str, got: str, wanted: object, *setup: str, error: str = _ASSERTION, then: str = "") -> Case:
    """A check that only the whole mend satisfies. `then` is the error under the partial one, where it is another."""
    return Case(label, got, repr(wanted), setup, broken=error, partial=then or error)


Mechanism = Callable[[Draw], Draft]
"""A bug template: every call on the same draw plants the same bug in the same words."""


def fill(template: str, slots: Mapping[str, str]) -> str:
    """The template without its first line break, every `$slot` replaced; an unknown slot is a `KeyError`."""
    return Template(template.removeprefix("\n")).substitute(slots)


@lru_cache(maxsize=1)
def domains() -> tuple[Domain, ...]:
    """Every vocabulary, in the order of the file."""
    return tuple(_domain(name, entry) for name, entry in tomllib.loads(_read("domains.toml")).items())


def _domain(name: str, entry: Mapping[str, Any]) -> Domain:
    vocabulary: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }
    return Domain(name=name, **vocabulary)


@lru_cache(maxsize=1)
def phrases() -> Mapping[str, tuple[str, ...]]:
    """What people say around a bug, by place in the report."""
    return {name: tuple(listed) for name, listed in tomllib.loads(_read("phrases.toml")).items()}


def _read(name: str) -> str:
    return files("heldout.worlds.repair").joinpath(name).read_text(encoding="utf-8")
