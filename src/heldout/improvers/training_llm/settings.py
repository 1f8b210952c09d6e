"""Options of the `training_llm` improver."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from heldout.records import Record

__all__ = ["ChoiceRule", "TrainingLlmOptions"]

ChoiceRule = Literal["expected_gain_per_hour", "expected_gain", "model"]


class TrainingLlmOptions(Record):
    """`improver.options` of `training_llm`. Lengths are in characters unless they say tokens."""

    reply_tokens: int = Field(default=8192, ge=64)
    """Longest reply; it has to hold a whole table of strategies, or a whole data builder."""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """Sampling temperature, instead of the model's own setting."""
    trace_chars: int = Field(default=32_000, ge=2_000)
    """Longest account of failures in one question, all of them together; what is longer is cut, and the cut is
    named."""
    question_tokens: int = Field(default=120_000, ge=4_000)
    """Longest question. Counted as bytes, since no tokenizer makes more tokens than that; a longer one is not sent."""
    json_schema: bool = True
    """Send the form of a diagnosis and of a table along with the question. False for servers that refuse it; the form
    is then only said in words."""
    failures: int = Field(default=16, ge=5, le=200)
    """Failures that are shown in one question, of every cluster in turn."""
    library: str = ""
    """Library of strategies that the model is shown: `formats`, `generic`, or the path of a .toml file of your own.
    Empty takes the one whose fault codes are those of the failures."""
    rule: ChoiceRule = "expected_gain_per_hour"
    """Who chooses: the largest fits · reported gain · P(reproduces) of the model's own table, per hour or not, or
    `model` for the strategy that it names."""
    scripts: bool = True
    """Whether it may write a data builder, which then runs in the sandbox."""
