"""Reading the `options` table of any plug-in, with one kind of message for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from heldout.errors import SetupError
from heldout.records import Record

__all__ = ["read_options"]

Options = TypeVar("Options", bound=Record)


def read_options(model: type[Options], options: Mapping[str, Any], *, where: str) -> Options:
    """The checked options, or `SetupError` with every fault and what is allowed; `where` says whose they are."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as cause:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in cause.errors())
        raise SetupError(f"options of {where}: {faults}; allowed are {', '.join(model.model_fields)}") from cause
