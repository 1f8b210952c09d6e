"""The words of the world: what lists are made of, and the ways in which a task says what it asks for."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["WORDING", "WORDS"]

_LISTED = (
    "amber apple autumn basket blossom bronze candle carpet cedar circle cloud copper cotton crystal desert "
    "dragon eagle engine feather finger forest garden glacier hammer harvest honey ivory jasmine kettle ladder "
    "lantern lemon magnet marble melon monkey needle oasis olive oyster palace paper pepper planet prairie quartz "
    "raven river"
)
WORDS: tuple[str, ...] = tuple(_LISTED.split())
"""Content words, in lower case."""

WORDING: tuple[Mapping[str, str], ...] = (
    {
        "list": "List these words: {words}.",
        "count": "Give exactly {count} words.",
        "exclude": "Leave out {word}.",
        "include": "Include {word}.",
        "upper": "Use upper case.",
        "carry": "Add {a} and {b}.",
        "json": "Answer as JSON.",
        "tags": "Answer in tags.",
        "copy": "Copy: {words}.",
        "reverse": "Reverse: {words}.",
        "sort": "Sort: {words}.",
    },
    {
        "list": "Write down these words: {words}.",
        "count": "Exactly {count} of them.",
        "exclude": "Not {word}.",
        "include": "{word} must be there.",
        "upper": "All in upper case.",
        "carry": "Also {a} plus {b}.",
        "json": "Write JSON.",
        "tags": "Write tags.",
        "copy": "Repeat these: {words}.",
        "reverse": "Write backwards: {words}.",
        "sort": "In order of the alphabet: {words}.",
    },
    {
        "list": "Here are words: {words}. Name them.",
        "count": "I want {count} words.",
        "exclude": "Avoid {word}.",
        "include": "Do not forget {word}.",
        "upper": "In capital letters.",
        "carry": "And what is {a} + {b}?",
        "json": "JSON, please.",
        "tags": "Tags, please.",
        "copy": "Say again: {words}.",
        "reverse": "Last one first: {words}.",
        "sort": "Sorted, please: {words}.",
    },
)
"""Ways of asking. A task keeps to one of them."""
