"""Answers with chosen faults: real texts, in which the grader finds exactly these."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import compress, product
from types import MappingProxyType

from heldout.worlds.formats.job import Fault, Job

__all__ = ["can_fail", "faulty_answer"]

Pick = Callable[[str, int], int]
"""(what is chosen, among how many) -> a number from 0."""

_ASKED = (Fault.WRAPPER, Fault.COUNT, Fault.CASE, Fault.WORD, Fault.CARRY)
_CAN_FAIL = MappingProxyType(
    {
        asked: tuple(fault for fault in Fault if fault is Fault.LIST or fault in compress(_ASKED, asked))
        for asked in product((False, True), repeat=len(_ASKED))
    }
)
"""By which of `_ASKED` a task gives cause for; looked up for every answer."""


def can_fail(job: Job) -> tuple[Fault, ...]:
    """What an answer to this task may get wrong besides stopping, in the order of `Fault`."""
    if job.skill != "list":
        return (Fault.LIST,)
    return _CAN_FAIL[
        job.wrapper != "plain",
        job.count is not None,
        job.upper,
        job.exclude is not None or job.include is not None,
        job.addends is not None,
    ]


def faulty_answer(job: Job, faults: Collection[Fault], pick: Pick) -> str:
    """One line with these faults and no others; `stop` is not in the text's power. Without faults, the ideal answer."""
    if job.skill != "list":
        return ", ".join(_swapped(job.chosen(), pick) if Fault.LIST in faults else job.chosen())
    words = _words(job, faults, pick)
    total = None if job.addends is None else sum(job.addends)
    if total is not None and job.addends is not None and Fault.CARRY in faults:
        total = _wrong_sum(*job.addends, pick)
    right = job.wrapped(words, total)
    return _unwrapped(job, words, total, pick) if Fault.WRAPPER in faults else right


def _words(job: Job, faults: Collection[Fault], pick: Pick) -> tuple[str, ...]:
    pool = _pool(job, wrong=Fault.WORD in faults)
    number = len(pool) if job.count is None else job.count
    if Fault.COUNT in faults:
        # Never down to one word, which may be the special one, while another fault needs a word of its own.
        number = number + 1 if number < len(pool) and (number <= 2 or pick("count", 2)) else number - 1
    words = list(pool[:number])
    if Fault.LIST in faults and words:
        words[-1] = _misspelled(words[-1], job, pick)
    is_upper = job.upper != (Fault.CASE in faults)
    return tuple(word.upper() if is_upper else word for word in words)


def _pool(job: Job, *, wrong: bool) -> tuple[str, ...]:
    """The words to take the first of: without the one to include, or with the one to leave out in front, if wrong."""
    special = job.include or job.exclude
    others = tuple(word for word in job.words if word != special)
    in_front = special is not None and (job.include is not None) != wrong
    return (special, *others) if special is not None and in_front else others


def _misspelled(word: str, job: Job, pick: Pick) -> str:
    """With one letter twice, or with its first and last letters changed places."""
    at = pick("letter", len(word))
    tries = (word[: at + 1] + word[at:], word[-1] + word[1:-1] + word[0], word + word)
    return next(text for text in tries if text not in job.words)


def _swapped(words: tuple[str, ...], pick: Pick) -> tuple[str, ...]:
    """With two neighbours in each other's place."""
    if len(words) < 2:
        return (*words, *words)
    at = pick("swap", len(words) - 1)
    return (*words[:at], words[at + 1], words[at], *words[at + 2 :])


def _wrong_sum(a: int, b: int, pick: Pick) -> int | None:
    """The carry forgotten, one too much, or none at all."""
    forgotten = a + b - 10 if a % 10 + b % 10 >= 10 else a + b + 10
    return (forgotten, forgotten, a + b + 1, None)[pick("sum", 4)]


def _unwrapped(job: Job, words: tuple[str, ...], total: int | None, pick: Pick) -> str:
    """Without the wrapper, or with one that is not closed."""
    right = job.wrapped(words, total)
    broken = right[:-1] if job.wrapper == "json" else right.replace("</words>", "", 1)
    plain = job.model_copy(update={"wrapper": "plain"}).wrapped(words, total)
    return (plain, broken)[pick("wrapper", 2)]
