"""The stated weaknesses of the simulated solver: what a prompt does to its skill, in full.

A prompt without a skill line is worth, for the items of one label,

    base + coverage + phrases − 0.12 [another label crowds the examples]

* coverage: 0 without any example; with examples, +0.26 (1 − 0.5^k) for a label that k of them show, −0.08 for one that
  none shows;
* crowding: one label holds more than 40 % of at least four examples; its own items gain 0.05, and half of the wrong
  answers to all others become that label;
* phrases: each sentence of `PHRASE_EFFECTS` that the instruction holds adds its effect, once.

The result is kept between 0.02 and 0.98.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heldout.models.base import Message

__all__ = ["PHRASE_EFFECTS", "PromptSkill", "prompt_skill"]

PHRASE_EFFECTS: Mapping[str, float] = {
    "Answer with one of these words:": 0.06,
    "Decide what a correct answer would look like before you name its type.": 0.04,
    "Pay attention to the question word and to the noun that follows it.": 0.05,
    "Ignore names and places that only set the scene.": 0.03,
    "You are an expert.": 0.0,
    "This is very important.": 0.0,
    "Take a deep breath.": 0.0,
    "Please be precise.": 0.0,
    "Answer in a full sentence.": -0.05,
    "Choose the most unusual type that could fit.": -0.08,
    "Judge by the last word alone.": -0.10,
}
"""What a sentence adds to the skill. The improvers' phrase bank has the same sentences without their effects."""


@dataclass(frozen=True, slots=True)
class PromptSkill:
    """Skill by label, and the label that wrong answers lean to."""

    by_label: Mapping[str, float]
    other: float
    """For answers that are none of the labels (numbers, free text)."""
    crowding: str | None

    def for_label(self, label: str) -> float:
        return self.by_label.get(label, self.other)


def prompt_skill(fixed: Sequence[Message], labels: Sequence[str], *, base: float) -> PromptSkill:
    """The skill of a prompt: `fixed` is every message before the task's own."""
    instruction = " ".join(message.content for message in fixed if message.role == "system")
    shown = Counter(message.content for message in fixed if message.role == "assistant")
    level = base + sum(effect for phrase, effect in PHRASE_EFFECTS.items() if phrase in instruction)
    most, k = next(iter(shown.most_common(1)), ("", 0))
    crowding = most if shown.total() >= 4 and k > 0.4 * shown.total() else None

    def skill(label: str) -> float:
        coverage = 0.0 if not shown else 0.26 * (1 - 0.5 ** shown[label]) if shown[label] else -0.08
        crowded = 0.0 if crowding is None else 0.05 if label == crowding else -0.12
        return min(0.98, max(0.02, level + coverage + crowded))

    free = 0.0 if not shown else 0.26 * (1 - 0.5 ** shown.total())
    return PromptSkill({label: skill(label) for label in labels}, min(0.98, max(0.02, level + free)), crowding)
