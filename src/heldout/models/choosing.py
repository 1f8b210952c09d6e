"""From the likely first tokens of a reply to one log-probability per choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

__all__ = ["ABSENT", "choice_logprobs", "log_sum"]

ABSENT = -100.0
"""Written for a choice that none of the reported tokens begins."""

_SPACES = " \t\n\u2581\u0120"
"""Leading spaces as text, and as SentencePiece and byte-level tokenizers spell them."""


def choice_logprobs(choices: Iterable[str], tokens: Mapping[str, float]) -> dict[str, float]:
    """Log of the summed probability of the tokens that begin each choice, `ABSENT` where there is none.

    Case and leading space are ignored. A single letter counts only where it is the whole choice: " a" is
    mostly an article and says little about "abbreviation". A token that begins several choices counts for each.
    """
    return {
        choice: log_sum(logprob for token, logprob in tokens.items() if _begins(token, choice)) for choice in choices
    }


def log_sum(logprobs: Iterable[float]) -> float:
    """log Σ exp of natural-log probabilities, at least `ABSENT` and at most 0."""
    values = list(logprobs)
    if not values:
        return ABSENT
    top = max(values)
    if top <= ABSENT:
        return ABSENT
    return min(0.0, top + math.log(sum(math.exp(value - top) for value in values)))


def _begins(token: str, choice: str) -> bool:
    start = token.lstrip(_SPACES).casefold()
    whole = choice.strip().casefold()
    if not start or (len(start) == 1 and start.isalpha() and start != whole):
        return False
    return whole.startswith(start)
