"""The final answer of a worked solution, and what can be said of two of them without any algebra."""

from __future__ import annotations

import re
from decimal import Decimal

from heldout.tasks.graders import last_number

__all__ = ["final_answer", "plain_number", "plain_text", "simplified"]

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"\\boxed\s+([^\s${}\\]+)")
_HASHES = re.compile(r"####[ \t]*(\S[^\n]*)")
_TOLD = re.compile(r"\banswer(?:\s+is\b|\s*[:=])[ \t]*:?[ \t*]*", re.IGNORECASE)
_MATHS = re.compile(r"\$([^$]+)\$|\\\((.+?)\\\)")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_AROUND = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_SPACING = re.compile(r"\\[,!;: ]|\\quad|\\qquad|~|\s+")
_SIZES = re.compile(r"\\(?:left|right|bigl?|bigr?|Bigl?|Bigr?)(?![A-Za-z])\.?")
_FRACTION = re.compile(r"\\[dt]frac(?![A-Za-z])")
_TEXT = re.compile(r"\\(?:text|textbf|textrm|mbox|mathrm|mathbf)\s*\{([^{}]*)\}")
_NUMBER_IN = re.compile(r"-?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?")
_NUMBER = re.compile(
    r"([-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]*)?)"
    r"(?:[eE]([-+]?[0-9]{1,4})|\\(?:times|cdot)10\^\{?([-+]?[0-9]{1,4})\}?)?"
)
_LONGEST, _LINE = 120, 1000
"""Characters of a text that is nothing but its answer, and of a sentence that tells it."""


def final_answer(text: str) -> str:
    """What a solution answers in the end; empty where it answers nothing.

    In this order: the last box that is closed (the inner one of two), what follows the last `####`, what follows the
    last "answer is", the whole text where it is one short line without words or nothing but a word, the last number.
    """
    return _boxed(text) or _after(_HASHES, text) or _told(text) or _short(text) or _number(text)


def _boxed(text: str) -> str:
    """In one pass, whatever the nesting. An escaped brace is no brace."""
    opened: list[int | None] = []
    last = (-1, "")
    for found in _BOX.finditer(text):
        if found[0] == "}":
            begin = opened.pop() if opened else None
            if begin is not None and begin > last[0]:
                last = begin, text[begin : found.start()]
        elif found[0] == "{":
            opened.append(None)
        elif found[0].endswith("{") and len(found[0]) > 2:
            opened.append(found.end())
    return last[1].strip() or _after(_BARE_BOX, text)


def _after(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.findall(text)
    return found[-1].strip() if found else ""


def _told(text: str) -> str:
    """The mathematics of the sentence; else its first number where it is more than a word; else all of it."""
    begin = max((found.end() for found in _TOLD.finditer(text)), default=len(text))
    said = text[begin : begin + _LINE].partition("\n")[0].strip("* ")
    if not said:
        return ""
    maths = _MATHS.search(said)
    if maths is not None:
        return (maths[1] or maths[2]).strip()
    sentence = _SENTENCE_END.split(said, maxsplit=1)[0].strip("* ")
    number = _NUMBER_IN.search(sentence) if _WORD.search(sentence) else None
    return number[0] if number is not None else sentence


def _short(text: str) -> str:
    bare = text.strip()
    if "\n" in bare or len(bare) > _LONGEST:
        return ""
    return bare if _WORD.search(bare) is None or bare.strip(".*").isalpha() else ""


def _number(text: str) -> str:
    found = last_number(text)
    return "" if found is None else f"{found:f}"


def simplified(answer: str) -> str:
    """The answer without what changes only its looks: dollar signs around it, spaces, sizes of brackets, `\\text`."""
    bare = answer.strip().rstrip(".").strip()
    for begin, end in _AROUND:
        if len(bare) >= len(begin) + len(end) and bare.startswith(begin) and bare.endswith(end):
            bare = bare[len(begin) : -len(end)].strip()
    bare = _FRACTION.sub(r"\\frac", _SIZES.sub("", bare))
    return _SPACING.sub("", _TEXT.sub(r"\1", bare)).replace(r"\$", "").rstrip(".")


def plain_number(simple: str) -> Decimal | None:
    """The value of a simplified answer that is one decimal number: `-1,234.5`, `4.5e33`, `4.5\\times10^{33}`."""
    found = _NUMBER.fullmatch(simple.replace("−", "-"))
    if found is None or not any(sign.isdecimal() for sign in found[1]):
        return None
    return Decimal(f"{found[1].replace(',', '')}e{found[2] or found[3] or 0}")


def plain_text(answer: str) -> str | None:
    """The words of an answer that is nothing but words, marked as text; None for all others."""
    found = _TEXT.fullmatch(answer.strip().strip("$").strip())
    words = found[1] if found is not None else ""
    return " ".join(words.casefold().split()) if _WORD.search(words) and not re.search(r"[0-9]", words) else None
