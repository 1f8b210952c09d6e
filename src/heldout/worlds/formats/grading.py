"""The grader of the world: rules that say which of the things that a task asks for an answer got wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from heldout.tasks.graders import CUT
from heldout.worlds.formats.job import Fault, Job

__all__ = ["LONGEST", "FormatsGrader", "faults_in", "grade"]

LONGEST = 4096
"""Characters of an answer that are read: ten times those of any right answer, so that no text takes long."""

_PLAIN = re.compile(r"(?P<words>[^;:<>{}\[\]\"\n]*)(?:;(?P<sum>[^;:<>{}\[\]\"\n]*))?")
_TAGS = re.compile(r"<words>(?P<words>[^<>]*)</words>\s*(?:<sum>(?P<sum>[^<>]*)</sum>)?")
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"[0-9]{1,9}")
_KEYS = frozenset({"words", "sum"})


@dataclass(frozen=True, slots=True)
class _Reading:
    """Words and sum of an answer, and whether it had the form that was asked for."""

    words: Sequence[str]
    total: str | None
    formed: bool = True


@dataclass(frozen=True, slots=True)
class FormatsGrader:
    """1 for an answer without a fault, else 0.

    An answer that ends with `CUT` did not stop, and the rest is judged by its first line. White space between the
    parts of an answer is free; everything else is as asked: a JSON object with the keys `words` (and `sum`, where a
    sum is asked for), the two tags and nothing around them, or one line of words between commas (`; sum` at its end).
    Behind a wrong form the other faults are told by the words and the last number that can be found. A plain skill
    (copy, reverse, sort) has one fault, `list`, and is judged by its first line whether or not the answer stopped.
    """

    def __call__(self, answer: str | None, reference: str) -> float:
        """Score of an answer."""
        return float(answer is not None and not self.faults(answer, reference))

    def faults(self, answer: str, reference: str) -> tuple[Fault, ...]:
        """What is wrong, in the order of `Fault`."""
        return faults_in(answer, _job(reference))

    def explain(self, answer: str, reference: str) -> str:
        """A sentence for each fault; empty for an answer that is right."""
        return " ".join(sentence for _, sentence in _findings(answer, _job(reference)))


def faults_in(answer: str, job: Job) -> tuple[Fault, ...]:
    """What is wrong with an answer to this job, in the order of `Fault`."""
    return tuple(fault for fault, _ in _findings(answer, job))


@lru_cache(maxsize=16384)
def _job(reference: str) -> Job:
    return Job.model_validate_json(reference)


def _findings(answer: str, job: Job) -> Iterator[tuple[Fault, str]]:
    stopped = not answer.endswith(CUT)
    text = answer.strip() if stopped else answer[: -len(CUT)].strip()
    if job.skill != "list":
        yield from _plain_skill(text.split("\n", 1)[0], job)
        return
    if not stopped:
        yield Fault.STOP, "The answer did not end by itself."
        text = text.split("\n", 1)[0]
    reading = _read(text, job)
    if not reading.formed:
        yield Fault.WRAPPER, f"The answer is not {_FORMS[job.wrapper]}."
    yield from _wrong_words(reading.words, job)
    if job.addends is not None and reading.total != str(sum(job.addends)):
        found = "is missing" if reading.total is None else f"is given as {reading.total[:20]}"
        yield Fault.CARRY, f"The sum of {job.addends[0]} and {job.addends[1]} is {sum(job.addends)}; it {found}."


_FORMS = {
    "plain": "one line of words between commas",
    "json": "a JSON object with exactly the keys that were asked for",
    "tags": "words in tags and nothing else",
}


def _plain_skill(line: str, job: Job) -> Iterator[tuple[Fault, str]]:
    given = tuple(word.strip() for word in line.split(","))
    if given != job.chosen():
        yield Fault.LIST, f"Expected {job.ideal!r}, found {line[:80]!r}."


def _wrong_words(given: Sequence[str], job: Job) -> Iterator[tuple[Fault, str]]:
    words = [word.lower() for word in given]
    if fault := _wrong_list(words, job):
        yield Fault.LIST, fault
    if job.count is not None and len(words) != job.count:
        yield Fault.COUNT, f"Expected exactly {job.count} words, found {len(words)}."
    if any(word != (word.upper() if job.upper else word.lower()) for word in given):
        yield Fault.CASE, f"The words must be in {'upper' if job.upper else 'lower'} case."
    if job.exclude is not None and job.exclude in words:
        yield Fault.WORD, f"{job.exclude!r} must be left out."
    if job.include is not None and job.include not in words:
        yield Fault.WORD, f"{job.include!r} must be there."


def _wrong_list(words: Sequence[str], job: Job) -> str:
    """Whether the included or excluded word is there is not asked here; that is the fault `word`."""
    foreign = next((word for word in words if word not in job.words), None)
    if foreign is not None:
        return f"{foreign[:20]!r} is not in the list."
    twice = next((word for place, word in enumerate(words) if word in words[:place]), None)
    if twice is not None:
        return f"{twice!r} is there twice."
    missing = [word for word in job.words if word not in words and word not in (job.exclude, job.include)]
    return f"{missing[0]!r} is missing." if missing and job.count is None else ""


def _read(text: str, job: Job) -> _Reading:
    reading = None
    if len(text) <= LONGEST:
        reading = _read_json(text) if job.wrapper == "json" else _read_line(text, tags=job.wrapper == "tags")
    if reading is None:
        return _salvaged(text[:LONGEST])
    if job.addends is None and reading.total is not None:
        return _Reading(reading.words, reading.total, formed=False)
    return reading


def _read_line(text: str, *, tags: bool) -> _Reading | None:
    found = (_TAGS if tags else _PLAIN).fullmatch(text)
    if found is None:
        return None
    words = [word.strip() for word in found["words"].split(",")] if found["words"].strip() else []
    return _Reading(words, None if found["sum"] is None else found["sum"].strip())


def _read_json(text: str) -> _Reading | None:
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not {"words"} <= value.keys() <= _KEYS:
        return None
    words, total = value["words"], value.get("sum")
    is_words = isinstance(words, list) and all(isinstance(word, str) for word in words)
    # bool is a kind of int, and null a missing sum that was written down.
    if not is_words or ("sum" in value and type(total) is not int):
        return None
    return _Reading(words, None if total is None else str(total))


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _salvaged(text: str) -> _Reading:
    """What can be found in a text that has not the form."""
    numbers = _NUMBER.findall(text)
    words = [word for word in _WORD.findall(text) if word.lower() not in _KEYS]
    return _Reading(words, numbers[-1] if numbers else None, formed=False)


grade = FormatsGrader()
"""The grader `formats`."""
