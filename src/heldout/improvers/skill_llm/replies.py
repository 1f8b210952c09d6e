"""What a reply of a role holds, read with patience, or what is wrong with it in words for the model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from heldout.improvers.skill_roles import Attribution
from heldout.skills.modules import MODULES, Stage

__all__ = ["Reading", "Written", "attribution_schema", "read_attribution", "read_written"]

Value = TypeVar("Value")

_REASONING_END = "</think>"
_FENCE = re.compile(r"^[ ]{0,3}(`{3,})[ \t]*([\w-]*)[ \t]*$")
_NOTE = re.compile(r"^[ \t*_]*NOTE[ \t*_]*:[ \t*_]*(.+)$", re.MULTILINE | re.IGNORECASE)
_MODULE = re.compile(r"^[ \t*_]*MODULE[ \t*_]*:[ \t*_`]*(.+?)[ \t*_`]*$", re.MULTILINE | re.IGNORECASE)
_NOTHING = re.compile(r"\A[ \t*_]*NOTHING[ \t*_]*:[ \t*_]*(.+)\Z", re.IGNORECASE | re.DOTALL)
_BARE = ("---\n", "# ", "## ")
"""How a text begins that stands in a reply without a fence."""
_WORDS = 2_000
"""Characters of a field of an attribution that are kept."""
_NOTE_WORDS = 300
_FIELDS = ("step", "stage", "module", "mechanism", "evidence", "preserve", "learnable")


@dataclass(frozen=True, slots=True)
class Reading(Generic[Value]):
    """What was read. With a value and a fault, it is usable, and better mended."""

    value: Value | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A whole text that a model wrote."""

    text: str | None
    """None: it would rather change nothing."""
    note: str = ""
    module: str = ""
    """File that it named, where it was to name one."""


def attribution_schema() -> dict[str, Any]:
    """The form of an attribution. No field may be absent or null, which not every server's strict mode knows."""
    words = {"type": "string"}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(_FIELDS),
        "properties": {
            "step": {"type": "integer"},
            "stage": {"type": "string", "enum": [*(stage.value for stage in Stage), ""]},
            "module": {"type": "string", "enum": [*MODULES, ""]},
            "mechanism": words,
            "evidence": words,
            "preserve": words,
            "learnable": {"type": "boolean"},
        },
    }


def read_attribution(text: str, *, turns: int) -> Reading[Attribution]:
    """The first JSON object with an attribution's fields, fenced or not, with prose around it or not."""
    found = next((one for one in _objects(_answer(text)) if one.keys() & {"stage", "learnable"}), None)
    if found is None:
        return Reading(fault=f"It holds no JSON object with the fields {', '.join(_FIELDS)}.")
    lesson = Attribution(
        mechanism=_words(found.get("mechanism")),
        evidence=_words(found.get("evidence")),
        preserve=_words(found.get("preserve")),
    )
    stage, module, step = _words(found.get("stage")), _words(found.get("module")), _step(found.get("step"))
    learnable = found.get("learnable", bool(stage))
    if not isinstance(learnable, bool):
        return Reading(fault=f"learnable is true or false, and was {_short(learnable)}.")
    if not learnable:
        return Reading(lesson)
    known_stage, known_module = _stage(stage), _module(module)
    if known_stage is None:
        return Reading(fault=f"stage is one of {', '.join(Stage)}, and was {_short(stage)}.")
    if module and known_module is None:
        return Reading(fault=f"module is one of {', '.join(MODULES)}, and was {_short(module)}.")
    if isinstance(step, str) or (step is not None and step >= turns):
        return Reading(fault=f"step is a turn from 0 to {turns - 1}, or -1 for none, and was {_short(found['step'])}.")
    return Reading(lesson.model_copy(update={"step": step, "stage": known_stage.value, "module": known_module}))


def read_written(text: str, *, names_module: bool = False) -> Reading[Written]:
    """The one text in a reply, in a fence or bare, with its note. `names_module`: the reply also says which module."""
    answer = _answer(text).strip()
    nothing = _NOTHING.match(answer)
    if nothing is not None:
        return Reading(Written(None, note=_note(nothing[1])))
    before, bodies, fault = _fenced(answer)
    if not bodies:
        before, bodies = _bare(answer)
    module = next((file for said in _MODULE.findall(before) if (file := _module(said)) is not None), "")
    if names_module and not module:
        fault = f"It does not say MODULE: and one of {', '.join(MODULES)} before the text."
    elif len(bodies) > 1:
        fault = f"It holds {len(bodies)} fenced blocks; one is asked for, of four backticks."
    elif not fault and not "".join(bodies).strip():
        fault = "It holds no text in a fence."
    if fault:
        return Reading(fault=fault)
    note = _NOTE.search(before)
    return Reading(Written(f"{bodies[0].strip()}\n", note=_note(note[1] if note else ""), module=module))


def _answer(text: str) -> str:
    """Without the reasoning before it, and without what no file can hold (half of a character)."""
    return text.rpartition(_REASONING_END)[2].encode("utf-8", "replace").decode()


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
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


def _fenced(text: str) -> tuple[str, list[str], str]:
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


def _bare(text: str) -> tuple[str, list[str]]:
    """Note and text of a reply without a fence; no text where it does not begin as one."""
    lines = text.splitlines()
    start = 0
    while start < len(lines) and (not lines[start].strip() or _NOTE.match(lines[start]) or _MODULE.match(lines[start])):
        start += 1
    body = "\n".join(lines[start:])
    return "\n".join(lines[:start]), [body] if body.startswith(_BARE) else []


def _stage(word: str) -> Stage | None:
    plain = " ".join(re.split(r"[\s_-]+", word.casefold().strip()))
    return next((stage for stage in Stage if stage == plain), None)


def _module(word: str) -> str | None:
    """The file that a word means: its name, its title, or its number (`m2`, `2`)."""
    plain = word.casefold().strip().removesuffix(".md")
    for file, title in MODULES.items():
        stem = file.removesuffix(".md")
        if plain in (stem, title.casefold(), stem[:2], stem[1:2]):
            return file
    return None


def _step(value: Any) -> int | str | None:
    """A turn; None for none, and a text for what is no number."""
    if value is None or value == "" or isinstance(value, bool):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)
    return number if number >= 0 else None


def _words(value: Any) -> str:
    """A field as one text, whatever it was."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode().strip()[:_WORDS]


def _note(text: str) -> str:
    return " ".join(text.split())[:_NOTE_WORDS]


def _short(value: Any) -> str:
    return repr(value)[:80]
