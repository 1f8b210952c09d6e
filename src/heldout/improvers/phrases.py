"""Sentences that may join or leave an instruction. Some help, some do nothing, some harm: which is not said."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["PHRASES", "bank"]

PHRASES = (
    "Answer with one of these words: {labels}.",
    "Decide what a correct answer would look like before you name its type.",
    "Pay attention to the question word and to the noun that follows it.",
    "Ignore names and places that only set the scene.",
    "You are an expert.",
    "This is very important.",
    "Take a deep breath.",
    "Please be precise.",
    "Answer in a full sentence.",
    "Choose the most unusual type that could fit.",
    "Judge by the last word alone.",
)
"""The order carries no meaning. `{labels}` becomes the list of labels; without labels the sentence is left out."""


def bank(phrases: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The sentences as they stand in an instruction."""
    listed = ", ".join(labels)
    return [phrase.replace("{labels}", listed) for phrase in phrases if listed or "{labels}" not in phrase]
