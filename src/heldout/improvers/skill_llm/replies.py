"""What a reply of a role holds, read with patience, or what is wrong with it in words for the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from heldout.improvers.reading import Reading, as_words, fenced, json_objects, without_reasoning
from heldout.improvers.skill_roles import Attribution
from heldout.skills.modules import MODULES, Stage

__all__ = ["Written", "attribution_schema", "read_attribution", "read_written"]

_NOTE = re.compile(r"^[ \t*_]*NOTE[ \t*_]*:[ \t*_]*(.+)$", re.MULTILINE | re.IGNORECASE)
_MODULE = re.compile(r"^[ \t*_]*MODULE[ \t*_]*:[ \t*_`]*(.+?)[ \t*_`]*$", re.MULTILINE | re.IGNORECASE)
_NOTHING = re.compile(r"\A[ \t*_]*NOTHING[ \t*_]*:[ \t*_]*(.+)\Z", re.IGNORECASE | re.DOTALL)
_BARE = ("---\n", "# ", "## ")
"""How a text begins that stands in a reply without a fence."""
_NOTE_WORDS = 300
_FIELDS = ("step", "stage", "module", "mechanism", "evidence", "preserve", "learnable")


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
    found = next((one for one in json_objects(without_reasoning(text)) if one.keys() & {"stage", "learnable"}), None)
    if found is None:
        return Reading(fault=f"It holds no JSON object with the fields {', '.join(_FIELDS)}.")
    lesson = Attribution(
        mechanism=as_words(found.get("mechanism")),
        evidence=as_words(found.get("evidence")),
        preserve=as_words(found.get("preserve")),
    )
    stage, module, step = as_words(found.get("stage")), as_words(found.get("module")), _step(found.get("step"))
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
    answer = without_reasoning(text).strip()
    nothing = _NOTHING.match(answer)
    if nothing is not None:
        return Reading(Written(None, note=_note(nothing[1])))
    before, bodies, fault = fenced(answer)
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


def _note(text: str) -> str:
    return " ".join(text.split())[:_NOTE_WORDS]


def _short(value: Any) -> str:
    return repr(value)[:80]
