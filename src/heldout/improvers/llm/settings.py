"""Options of the `llm` improver."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from heldout.records import Record

__all__ = ["LlmOptions"]


class LlmOptions(Record):
    """`improver.options` of `llm`. Lengths are in characters unless they say tokens."""

    protocol: Literal["tools", "text"] = "tools"
    """`text` writes each tool call as a JSON block in the reply, for servers that know no tools."""
    max_turns: int = Field(default=60, ge=1, le=60)
    """Replies that a proposal may take."""
    repair_turns: int = Field(default=12, ge=1, le=60)
    """Replies that mending a faulty proposal may take."""
    meta_turns: int = Field(default=30, ge=1, le=30)
    """Replies that an edit of the improver's own method may take."""
    meta_calls: int = Field(default=30, ge=1, le=30)
    """Tool calls that an edit of the method may take."""
    reply_tokens: int = Field(default=8192, ge=64)
    """Longest reply; it has to hold whole files."""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """Sampling temperature, instead of the model's own setting."""
    context_chars: int = Field(default=240_000, ge=16_000)
    """Longest conversation that is sent; older results of tools are left out beyond it."""
    result_chars: int = Field(default=12_000, ge=500)
    """Longest result of one tool call."""
    episode_tokens: int = Field(default=2_000_000, ge=16_000)
    """Input tokens of one episode, all its turns together; it ends before a turn that might pass this."""
    sandbox: str | None = "bubblewrap"
    """Kind of sandbox for analyses and for the hooks of the method; None offers neither."""
