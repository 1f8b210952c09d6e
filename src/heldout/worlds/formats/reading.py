"""From a task's text back to its record: what a simulated solver or trainer knows of a task is what its text says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from heldout.worlds.formats.job import Job, Skill, Wrapper
from heldout.worlds.formats.wording import WORDING

__all__ = ["read_job"]

_LONGEST = 1000
"""Characters; the longest task of the world has about 160."""
_SKILLS: tuple[Skill, ...] = ("copy", "reverse", "sort")
_PLACES: Mapping[str, str] = {
    "words": r"(?P<words>[a-z]+(?:, [a-z]+)*)",
    "count": r"(?P<count>[0-9]{1,2})",
    "a": r"(?P<a>[0-9]{1,2})",
    "b": r"(?P<b>[0-9]{1,2})",
}


def _pattern(said: str, word: str = "") -> str:
    """The regular expression of one sentence; `word` names the group of its `{word}`."""
    places = {**_PLACES, "word": rf"(?P<{word}>[a-z]+)"}
    parts = re.split(r"\{(\w+)\}", said)
    return "".join(places[part] if place % 2 else re.escape(part) for place, part in enumerate(parts))


def _task_pattern(said: Mapping[str, str]) -> re.Pattern[str]:
    """The sentences of a task in the order of `Job.text`, each but the first of them optional."""
    asked = [
        _pattern(said["count"]),
        _pattern(said["exclude"], "exclude"),
        _pattern(said["include"], "include"),
        f"(?P<upper>{_pattern(said['upper'])})",
        _pattern(said["carry"]),
        f"(?P<json>{_pattern(said['json'])})",
        f"(?P<tags>{_pattern(said['tags'])})",
    ]
    return re.compile(_pattern(said["list"]) + "".join(f"(?: {sentence})?" for sentence in asked))


_TASKS = tuple(_task_pattern(said) for said in WORDING)
_PLAIN: tuple[tuple[int, Skill, re.Pattern[str]], ...] = tuple(
    (wording, skill, re.compile(_pattern(said[skill]))) for wording, said in enumerate(WORDING) for skill in _SKILLS
)


@lru_cache(maxsize=65536)
def read_job(text: str) -> Job | None:
    """The job whose `text` this is, or None where it is no task of this world."""
    if len(text) > _LONGEST:
        return None
    for wording, pattern in enumerate(_TASKS):
        if found := pattern.fullmatch(text):
            return _job(found, wording)
    for wording, skill, pattern in _PLAIN:
        if found := pattern.fullmatch(text):
            return Job(words=tuple(found["words"].split(", ")), skill=skill, wording=wording)
    return None


def _job(found: re.Match[str], wording: int) -> Job | None:
    wrapper: Wrapper = "json" if found["json"] else "tags" if found["tags"] else "plain"
    if found["json"] and found["tags"]:
        return None
    words = tuple(found["words"].split(", "))
    special = {found["exclude"], found["include"]} - {None}
    if not special <= set(words) or len(special) > 1 or len(set(words)) < len(words):
        return None
    return Job(
        words=words,
        count=int(found["count"]) if found["count"] else None,
        exclude=found["exclude"],
        include=found["include"],
        upper=found["upper"] is not None,
        addends=(int(found["a"]), int(found["b"])) if found["a"] else None,
        wrapper=wrapper,
        wording=wording,
    )
