"""Reading `improver.options` of any improver, with one kind of message for what is wrong."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.records import Record

__all__ = ["read_options"]

Options = TypeVar("Options", bound=Record)


def read_options(config: ImproverConfig, model: type[Options]) -> Options:
    """The checked options, or `SetupError` with every fault and what is allowed."""
    try:
        return model.model_validate(dict(config.options))
    except ValidationError as cause:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in cause.errors())
        allowed = ", ".join(model.model_fields)
        raise SetupError(f"improver.options of {config.kind!r}: {faults}; allowed are {allowed}") from cause
