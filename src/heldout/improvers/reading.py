"""What a model's reply holds: JSON objects and fenced texts, read with patience."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["Reading", "as_words", "fenced", "json_objects", "without_reasoning"]

Value = TypeVar("Value")

_REASONING_END = "</think>"
_FENCE = re.compile(r"^[ ]{0,3}(`{3,})[ \t]*([\w-]*)[ \t]*$")
_WORDS = 2_000


@dataclass(frozen=True, slots=True)
class Reading(Generic[Value]):
    """What was read. With a value and a fault, it is usable, and better mended."""

    value: Value | None = None
    fault: str = ""


def without_reasoning(text: str) -> str:
    """The reply without the reasoning before it, and without what no file can hold (half of a character)."""
    return text.rpartition(_REASONING_END)[2].encode("utf-8", "replace").decode()


def json_objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Every JSON object in a text that stands in no other one."""
    decoder = json.JSONDecoder(strict=False)
    at = text.find("{")
    while at >= 0:
        end = at + 1
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            yield found
        at = text.find("{", end)


def fenced(text: str) -> tuple[str, list[str], str]:
    """What stands before the first fence, the fenced texts, and what is wrong with the last fence.

    A fence ends at a line of at least as many backticks and nothing else. Inside it, a fence with a word after its
    backticks, or with fewer of them, is a part of the text, up to its own end.
    """
    before: list[str] = []
    blocks: list[list[str]] = []
    outer = inner = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if not outer:
            if mark is not None:
                outer = mark[1]
                blocks.append([])
            elif not blocks:
                before.append(line)
            continue
        if mark is not None:
            bare = not mark[2]
            if inner:
                inner = "" if bare and len(mark[1]) >= len(inner) else inner
            elif bare and len(mark[1]) >= len(outer):
                outer = ""
                continue
            else:
                inner = mark[1]
        blocks[-1].append(line)
    fault = "Its fence is never closed." if outer else ""
    return "\n".join(before), ["\n".join(block) for block in blocks], fault


def as_words(value: Any) -> str:
    """A field as one text of at most 2,000 characters, whatever it was."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode().strip()[:_WORDS]
