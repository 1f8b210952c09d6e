"""Options of the `skill_llm` improver."""

from __future__ import annotations

from pydantic import Field

from heldout.records import Record

__all__ = ["SkillLlmOptions"]


class SkillLlmOptions(Record):
    """`improver.options` of `skill_llm`. Lengths are in characters unless they say tokens."""

    reply_tokens: int = Field(default=8192, ge=64)
    """Longest reply; it has to hold a whole module, or a whole skill."""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """Sampling temperature, instead of the model's own setting."""
    trace_chars: int = Field(default=32_000, ge=2_000)
    """Longest account of episodes, or of tasks, in one question, all of them together; what is longer is cut, and the
    cut is named."""
    question_tokens: int = Field(default=120_000, ge=4_000)
    """Longest question. Counted as bytes, since no tokenizer makes more tokens than that; a longer one is not sent."""
    json_schema: bool = True
    """Send the form of an attribution along with the question. False for servers that refuse it; the form is then only
    said in words."""
