"""An upper bound on what the model is sent in an episode of the tool loop."""

from __future__ import annotations

from heldout.harness.hook_surface import GROWTH_BYTES, GROWTH_MESSAGES, NOTE_BYTES
from heldout.harness.loop_settings import LoopSettings
from heldout.harness.observations import HEADER_BYTES, LINE_BYTES

__all__ = ["TOKENS_PER_MESSAGE", "most_tokens_in"]

TOKENS_PER_MESSAGE = 16
"""More than any chat template adds around one message."""


def most_tokens_in(settings: LoopSettings, hooks: frozenset[str], *, first: int, reply: int) -> int:
    """Of all requests of an episode: `first` in each, and every earlier turn, in full or as a line.

    A token is at least a byte; `hooks` are the names of those that are defined.
    """
    first += GROWTH_BYTES if "system_prompt" in hooks else 0
    first += GROWTH_BYTES + GROWTH_MESSAGES * TOKENS_PER_MESSAGE if "before_llm" in hooks else 0
    said = reply + 2 * TOKENS_PER_MESSAGE + (GROWTH_BYTES if "after_llm" in hooks else 0)
    full = said + HEADER_BYTES + settings.obs_cap + (NOTE_BYTES if "on_turn_end" in hooks else 0)
    total = 0
    for earlier in range(settings.max_turns):
        shown = min(earlier, settings.keep_full_turns)
        total += first + shown * full + (earlier - shown) * (said + LINE_BYTES)
    return total
