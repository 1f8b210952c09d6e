"""Harnesses: how a candidate folder and a model solve a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heldout import registry
from heldout.config import SolverConfig
from heldout.harness.base import Episode, Harness, Preparation
from heldout.harness.prompt import CONTENT_FREE, PromptHarness, fixed_messages
from heldout.harness.prompt_files import Demonstration, Prompt, check_candidate, read_prompt

__all__ = [
    "CONTENT_FREE",
    "HARNESSES",
    "Demonstration",
    "Episode",
    "Harness",
    "Preparation",
    "Prompt",
    "PromptHarness",
    "check_candidate",
    "fixed_messages",
    "make_harness",
    "read_prompt",
]

HARNESSES: Mapping[str, str] = {"prompt": "heldout.harness.prompt:PromptHarness"}
"""Short names of the built-in harnesses."""


def make_harness(config: SolverConfig, *, labels: Sequence[str]) -> Harness:
    """The harness that `solver.harness` names; a plug-in is made with the same keywords as the prompt harness."""
    found = registry.load(config.harness, among=HARNESSES, what="harness")
    made: Harness = found(answer=config.answer, labels=tuple(labels), max_tokens=config.model.max_tokens)
    return made
