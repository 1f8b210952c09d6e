"""The other half of `config.read_toml`: nested tables of plain values as TOML text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heldout.errors import SetupError

__all__ = ["toml_text"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(table: Mapping[str, Any]) -> str:
    """The table as TOML. Keys whose value is None are left out, which is TOML's way to say so.

    Values are str, bool, int, float, lists and tables; `SetupError` names the key of anything else.
    """
    return "\n".join(_lines(table, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], where: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if value is not None and not isinstance(value, Mapping)}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if where and (plain or not tables):
        yield f"\n[{'.'.join(map(_key, where))}]"
    for key, value in plain.items():
        yield f"{_key(key)} = {_value(value, (*where, key))}"
    for key, value in tables.items():
        yield from _lines(value, (*where, key))


def _value(value: Any, where: tuple[str, ...]) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case Mapping():
            pairs = [
                f"{_key(key)} = {_value(inner, (*where, key))}" for key, inner in value.items() if inner is not None
            ]
            return "{" + ", ".join(pairs) + "}"
        case Sequence():
            return "[" + ", ".join(_value(inner, where) for inner in value) + "]"
    raise SetupError(f"{'.'.join(where)} = {value!r} cannot be written as TOML")


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
