"""Reads a library of strategies and checks every entry before anything is spent on it."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from heldout.config import merge, read_toml
from heldout.errors import ImproverError, SetupError
from heldout.improvers.training_roles import Recipe
from heldout.options import fields_at
from heldout.records import Record
from heldout.training import TrainConfig
from heldout.training.builders import load_builder

__all__ = ["ANY_FAULT", "LIBRARIES", "Library", "Strategy", "library_for", "load_library"]

LIBRARIES: Mapping[str, str] = MappingProxyType({"formats": "formats.toml", "generic": "generic.toml"})
"""Short names of the built-in libraries, and their files beside this one."""

ANY_FAULT = "*"
"""Key of `Strategy.fits` for every fault that has none of its own."""


class Strategy(Record):
    """One way of training, as its source describes it."""

    id: str = Field(pattern=r"^[\w-]+$")
    source: str
    """Where it was found, and whether its figures are a report, an estimate, or invented for a world."""
    mechanism: str
    reported_gain: float
    """Points, as the source reports."""
    reported_on: str
    """Model and data of that report."""
    fits: Mapping[str, float]
    """Fault code to 0 … 1: how well it fits a problem of that kind; `*` for every other code, else 0."""
    reproduces: float = Field(gt=0.0, lt=1.0)
    """Chance that the reported gain shows here, before anything was tried here."""
    data: str
    """What data it needs."""
    cost_s: float = Field(gt=0.0)
    """Seconds that its training takes on one core of the machine of the library's author."""
    implementation: Literal["low", "medium", "high"]
    """Effort of building it; see `improvers.training_research.OVERHEAD`."""
    risk: str = ""
    recipe: Recipe

    @field_validator("fits")
    @classmethod
    def _is_a_share(cls, fits: Mapping[str, float]) -> Mapping[str, float]:
        odd = {code: value for code, value in fits.items() if not 0.0 <= value <= 1.0}
        if odd:
            raise ValueError(f"expected numbers from 0 to 1, got {odd}")
        return fits

    @model_validator(mode="after")
    def _can_be_run(self) -> Strategy:
        """Faults of a recipe that would otherwise show only after it was chosen."""
        if not self.recipe.builder and not self.recipe.script:
            raise ValueError("the recipe names neither a builder nor a script")
        TrainConfig.model_validate(merge(TrainConfig().model_dump(), self.recipe.train))
        return self

    def fit(self, code: str) -> float:
        """How well it fits a problem with this code, 0 to 1."""
        return self.fits.get(code, self.fits.get(ANY_FAULT, 0.0))


class Library(Record):
    """A set of strategies and the fault codes that it was written for."""

    name: str
    covers: tuple[str, ...] = ()
    """Fault codes; empty: any."""
    strategies: tuple[Strategy, ...]

    @model_validator(mode="after")
    def _ids_differ(self) -> Library:
        ids = [strategy.id for strategy in self.strategies]
        twice = sorted({one for one in ids if ids.count(one) > 1})
        if twice:
            raise ValueError(f"two strategies have the id {', '.join(map(repr, twice))}")
        return self

    def get(self, strategy: str) -> Strategy | None:
        """The strategy with this id."""
        return next((one for one in self.strategies if one.id == strategy), None)

    def narrowed(self, *, only: Collection[str] = (), without: Collection[str] = ()) -> Library:
        """Without what was not asked for; `SetupError` for an id that it does not have."""
        known = [one.id for one in self.strategies]
        odd = sorted({*only, *without} - set(known))
        if odd:
            raise SetupError(
                f"the library {self.name!r} has no strategy {', '.join(map(repr, odd))}; it has {', '.join(known)} "
                "(improver.options.only and without)"
            )
        kept = [one for one in self.strategies if (not only or one.id in only) and one.id not in without]
        return self.model_copy(update={"strategies": tuple(kept)})

    def scaled(self, *, examples: float = 1.0, steps: float = 1.0, seconds: float = 1.0) -> Library:
        """Every recipe with this share of its examples and of its own number of steps, which its cost follows; a step
        takes `seconds` times as long."""
        resized = tuple(_scaled(one, examples=examples, steps=steps, seconds=seconds) for one in self.strategies)
        return self.model_copy(update={"strategies": resized})


def _scaled(strategy: Strategy, *, examples: float, steps: float, seconds: float) -> Strategy:
    recipe = strategy.recipe
    train = dict(recipe.train)
    if "steps" in train:
        train["steps"] = max(1, round(train["steps"] * steps))
    resized = recipe.model_copy(update={"count": max(1, round(recipe.count * examples)), "train": train})
    return strategy.model_copy(update={"recipe": resized, "cost_s": strategy.cost_s * steps * seconds})


def load_library(name: str) -> Library:
    """A built-in library, or the user's TOML file; `SetupError` names the entry that is wrong."""
    if name in LIBRARIES:
        return _built_in(name)
    if not name.endswith(".toml"):
        raise SetupError(
            f"no library of strategies {name!r}; there is {', '.join(sorted(LIBRARIES))}, or the path of a .toml file "
            "of your own (improver.options.library)"
        )
    where = f"the library {name!r}"
    library = _checked(read_toml(Path(name), what="library of strategies"), where=where)
    _check_builders(library, where)
    return library


def library_for(codes: Collection[str]) -> str:
    """Name of the built-in library that was written for these fault codes; `generic` where none was.

    One that covers codes fits where most of them are among these.
    """
    for name in sorted(LIBRARIES):
        covers = load_library(name).covers
        if covers and 2 * len(set(codes) & set(covers)) > len(set(codes)):
            return name
    return "generic"


@lru_cache(maxsize=len(LIBRARIES))
def _built_in(name: str) -> Library:
    """Remembered: it is frozen, and asked for in every round."""
    text = resources.files("heldout.improvers.strategies").joinpath(LIBRARIES[name]).read_text(encoding="utf-8")
    return _checked(tomllib.loads(text), where=f"the built-in library {name!r}")


def _checked(content: Mapping[str, Any], *, where: str) -> Library:
    entries = content.get("strategy")
    if not isinstance(entries, list) or not entries:
        raise SetupError(f"{where} holds no [[strategy]]; each has {', '.join(Strategy.model_fields)}")
    odd = sorted(content.keys() - {"name", "covers", "strategy"})
    if odd:
        raise SetupError(f"{where}: unknown key {', '.join(map(repr, odd))}; allowed are name, covers and [[strategy]]")
    strategies = tuple(_strategy(entry, number, where) for number, entry in enumerate(entries, start=1))
    try:
        return Library(name=content.get("name", where), covers=content.get("covers", ()), strategies=strategies)
    except ValidationError as cause:
        raise SetupError(f"{where}: {_faults(cause, Library)}") from cause


def _strategy(entry: Any, number: int, where: str) -> Strategy:
    name = entry.get("id", "?") if isinstance(entry, Mapping) else "?"
    place = f"{where}, strategy {number} ({name!r})"
    recipe = entry.get("recipe") if isinstance(entry, Mapping) else None
    train = recipe.get("train") if isinstance(recipe, Mapping) else None
    try:
        if isinstance(train, Mapping):
            TrainConfig.model_validate(merge(TrainConfig().model_dump(), train))
    except ValidationError as cause:
        raise SetupError(f"{place}: {_faults(cause, TrainConfig, under=('recipe', 'train'))}") from cause
    try:
        return Strategy.model_validate(entry)
    except ValidationError as cause:
        raise SetupError(f"{place}: {_faults(cause, Strategy)}") from cause


def _check_builders(library: Library, where: str) -> None:
    """`SetupError` for data builders that cannot be loaded, which would show only in the round that chose one."""
    faults = []
    for strategy in library.strategies:
        if not strategy.recipe.builder:
            continue
        try:
            load_builder(strategy.recipe.builder)
        except ImproverError as fault:
            faults.append(f"strategy {strategy.id!r}: {fault}")
    if faults:
        raise SetupError(f"{where} names data builders that cannot be loaded. {'; '.join(faults)}")


def _faults(cause: ValidationError, model: type[Record], *, under: tuple[str, ...] = ()) -> str:
    """Every fault with its whole place, and the keys of the tables in which one is unknown or missing."""
    told, tables = [], {}
    for fault in cause.errors():
        place = ".".join((*under, *map(str, fault["loc"])))
        told.append(f"{place}: {fault['msg'].removeprefix('Value error, ')}".removeprefix(": "))
        if fault["type"] in ("extra_forbidden", "missing"):
            table = ".".join(("strategy", *under, *map(str, fault["loc"][:-1])))
            tables[table] = f"the keys of [{table}] are {', '.join(fields_at(model, fault['loc'][:-1]))}"
    return "; ".join((*told, *tables.values()))
