"""Reading the `options` table of any plug-in, with one kind of message for what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from heldout.errors import SetupError
from heldout.records import Record

__all__ = ["fields_at", "read_options"]

Options = TypeVar("Options", bound=Record)


def read_options(model: type[Options], options: Mapping[str, Any], *, where: str) -> Options:
    """The checked options, or `SetupError` with every fault and what is allowed; `where` says whose they are."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as cause:
        raise SetupError(f"options of {where}: {_faults(cause, model)}") from cause


def _faults(cause: ValidationError, model: type[Record]) -> str:
    """Every fault with its place, and what is allowed: in the whole table, or in the inner one that has a wrong key."""
    told, allowed = [], {}
    for fault in cause.errors():
        place = tuple(map(str, fault["loc"]))
        told.append(f"{'.'.join(place)}: {fault['msg']}")
        inner = place[:-1] if fault["type"] in ("extra_forbidden", "missing") else ()
        within = f"allowed in {'.'.join(inner)}" if inner else "allowed"
        allowed[inner] = f"{within} are {', '.join(fields_at(model, inner))}"
    return "; ".join((*told, *allowed.values()))


def fields_at(model: type[Record], place: Iterable[int | str]) -> Collection[str]:
    """What the table at this place of a record may hold."""
    for name in place:
        field = model.model_fields.get(str(name))
        inner = None if field is None else field.annotation
        model = inner if isinstance(inner, type) and issubclass(inner, Record) else model
    return model.model_fields.keys()
