"""The simulated model: a seeded solver whose true skill is known for every prompt; for tests and the demo."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from pydantic import Field

from heldout.config import ModelConfig
from heldout.models.base import Message, Reply, Request
from heldout.models.simulated_prompt import PromptSkill, prompt_skill
from heldout.models.simulated_skill import ItemDraws, SkillLine, item_draws, probability_right, salted_draw
from heldout.options import read_options
from heldout.records import Record, digest_of

__all__ = ["SimulatedModel", "SimulatedOptions", "answer_key"]

_MAX_LABELS = 100
_SURE = 0.7
"""Probability that `choices` gives to the chosen label; the others share the rest."""
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


class Answered(Protocol):
    """Anything with an input and its right answer."""

    @property
    def input(self) -> str: ...
    @property
    def reference(self) -> str: ...


def answer_key(items: Iterable[Answered]) -> dict[str, str]:
    """Right answers by the hash of the input; no task's text is in it."""
    return {item_draws(item.input, seed=0).key: item.reference for item in items}


class SimulatedOptions(Record):
    """`model.options` of the simulated model."""

    base_skill: float = Field(default=0.45, gt=0.0, lt=1.0)
    """Expected accuracy of a prompt without examples, phrases or a skill line."""
    redraw: float = Field(default=0.3, ge=0.0, le=1.0)
    """Share of items whose luck a changed prompt redraws; the rest keep it, so that candidates are alike."""
    nondeterminism: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of answers drawn anew for each request's seed, as a busy server does even at temperature 0."""
    seed: int = Field(default=0, ge=0)
    """Another seed is another solver: other difficulties, other luck."""


@dataclass(frozen=True, slots=True)
class _Settings:
    """What a prompt's meaning depends on besides its text; hashable."""

    labels: tuple[str, ...]
    base: float
    redraw: float


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a prompt says to the simulation."""

    line: SkillLine | None
    skill: PromptSkill
    salt: str
    words: int


class SimulatedModel:
    """Answers rightly with a known probability per item and prompt; everything else follows from hashes.

    An instruction with a `[[simulated skill=…]]` line has that skill; otherwise the prompt is judged by
    `simulated_prompt`. A reply depends on the prompt and the item alone, and on the request's seed for a share
    `nondeterminism` of the items (at least the temperature). Token counts are word counts. Inputs that the key does
    not know get an arbitrary answer, and equal log-probabilities.
    """

    name = "simulated"
    can_choose = True
    simulated = True

    def __init__(self, config: ModelConfig, answer_key: Mapping[str, str] | None = None) -> None:
        self.options = read_options(SimulatedOptions, config.options, where="model 'simulated'")
        self._temperature = config.temperature
        self._key = dict(answer_key or {})
        self._settings = _Settings(_closed_set(self._key), self.options.base_skill, self.options.redraw)
        identity = {"options": self.options.model_dump(), "temperature": self._temperature, "key": self._key}
        self.fingerprint = f"simulated:{digest_of(identity)[:16]}"
        self.deterministic = self._volatility(None) == 0.0

    def complete(self, request: Request) -> Reply:
        """A right or wrong answer, at once."""
        *fixed, task = request.messages
        reading = self._read(fixed)
        item = item_draws(task.content, seed=self.options.seed)
        right = self._key.get(item.key)
        answer = self._answer(item, right, reading, request)
        tokens_in = reading.words + len(task.content.split())
        logprobs = None
        if request.choices:
            logprobs = _peaked(request.choices, answer if right is not None else None)
        return Reply.model_construct(
            text=answer, tokens_in=tokens_in, tokens_out=len(answer.split()), choice_logprobs=logprobs
        )

    def close(self) -> None:
        """Nothing was started."""

    def true_skill(self, fixed: Sequence[Message], inputs: Sequence[str]) -> float:
        """Exact expected accuracy on these inputs of the prompt whose messages before the task are `fixed`.

        The expectation is over the luck of prompts, at the given difficulties.
        """
        reading = self._read(fixed)
        items = [item_draws(text, seed=self.options.seed) for text in inputs]
        chances = [probability_right(_skill(reading, self._key[item.key]), item.difficulty) for item in items]
        return math.fsum(chances) / len(chances)

    def _read(self, fixed: Sequence[Message]) -> _Reading:
        return _reading(tuple([(message.role, message.content) for message in fixed]), self._settings)

    def _answer(self, item: ItemDraws, right: str | None, reading: _Reading, request: Request) -> str:
        if right is None:
            labels = self._settings.labels or ("unknown",)
            return labels[int(item.choice * len(labels))]
        chance = probability_right(_skill(reading, right), item.difficulty)
        if self._luck(item, reading, request) < chance:
            return right
        return _wrong(right, item.choice, labels=self._settings.labels, crowding=reading.skill.crowding)

    def _luck(self, item: ItemDraws, reading: _Reading, request: Request) -> float:
        """The latest of the item's uniforms: this request's, the newest redraw of the lineage, or the first."""
        seed, volatility = self.options.seed, self._volatility(request.temperature)
        draws = [(f"request {request.seed} {reading.salt}", volatility)] if volatility > 0.0 else []
        if reading.line is None:
            draws.append((reading.salt, self.options.redraw))
        else:
            draws += [(salt, reading.line.redraw) for salt in reading.line.salts[:0:-1]]
        for salt, redraw in draws:
            drawn = salted_draw(item.key, f"{seed} {salt}", redraw=redraw)
            if drawn is not None:
                return drawn
        return item.uniform

    def _volatility(self, temperature: float | None) -> float:
        asked = self._temperature if temperature is None else temperature
        return max(self.options.nondeterminism, min(1.0, asked))


def _skill(reading: _Reading, right: str) -> float:
    return reading.skill.for_label(right) if reading.line is None else reading.line.skill


@lru_cache(maxsize=512)
def _reading(turns: tuple[tuple[str, str], ...], settings: _Settings) -> _Reading:
    """Pure, remembered because every request of a candidate repeats its fixed messages."""
    fixed = [Message.model_validate({"role": role, "content": content}) for role, content in turns]
    salt = hashlib.blake2b(repr(turns).encode(), digest_size=8).hexdigest()
    return _Reading(
        line=SkillLine.find(" ".join(content for role, content in turns if role == "system")),
        skill=prompt_skill(fixed, settings.labels, base=settings.base),
        salt=salt,
        words=sum(len(content.split()) for _, content in turns),
    )


def _closed_set(key: Mapping[str, str]) -> tuple[str, ...]:
    """The labels, where the answers are a closed set: few, and each of them common."""
    values = sorted(set(key.values()))
    return tuple(values) if len(values) <= min(_MAX_LABELS, len(key) / 2) else ()


def _wrong(right: str, choice: float, *, labels: Sequence[str], crowding: str | None) -> str:
    """Another label (half of the time the crowding one), or a number or text that is not the right one."""
    if labels:
        others = [label for label in labels if label != right]
        if crowding is not None and crowding != right:
            if choice < 0.5:
                return crowding
            choice = 2 * choice - 1
        return others[int(choice * len(others))] if others else f"not {right}"
    numbers = _NUMBER.findall(right)
    if numbers:
        return f"{float(numbers[-1].replace(',', '')) + 1 + int(choice * 9):g}"
    return "unknown" if right != "unknown" else "other"


def _peaked(choices: Sequence[str], answer: str | None) -> dict[str, float]:
    """Log-probabilities that favour the answer; equal ones where nothing is known."""
    count = len(choices)
    if answer not in choices or count == 1:
        return dict.fromkeys(choices, -math.log(count))
    rest = math.log((1 - _SURE) / (count - 1))
    return {choice: math.log(_SURE) if choice == answer else rest for choice in choices}
