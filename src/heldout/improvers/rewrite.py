"""The improver with a model: it reads the instruction and a few failures, and writes one new instruction."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import Field

from heldout.config import ImproverConfig
from heldout.errors import SetupError
from heldout.harness import read_prompt
from heldout.harness.prompt_files import INSTRUCTION_FILE
from heldout.improvers.base import Failure, View
from heldout.models.base import Message, Model, Request
from heldout.options import read_options
from heldout.records import Proposal, Record, Spend, TrainTask

__all__ = ["RewriteImprover", "RewriteOptions"]

SYSTEM = "You improve the instruction that another language model follows. You reply with the new instruction only."

_SHOWN_CHARACTERS = 400
_LEAK_WORDS = 8
"""A train task of at least this many words, word for word in a rewrite, is a leak and no improvement."""
_FENCE = re.compile(r"\A```[\w-]*\n(.*?)\n?```\Z", re.DOTALL)
_PREAMBLE = re.compile(
    r"\A(?:(?:sure|certainly|of course|okay|here)\b[^\n]{0,120}:\s*\n+|"
    r"(?:here(?: is|'s)|(?:the )?(?:new|improved|revised|rewritten|updated)(?: \w+)? instruction)\b[^\n:]{0,80}:\s*|"
    r"instruction\s*:\s*)",
    re.IGNORECASE,
)
_QUOTES = (('"', '"'), ("'", "'"), ("“", "”"), ("`", "`"), ("**", "**"))


class RewriteOptions(Record):
    """`improver.options` of `rewrite`. The length of a reply is the model's own `max_tokens`."""

    temperature: float = Field(default=0.7, ge=0.0, le=2.0)
    """Above 0, so that the proposals of a generation differ."""
    max_words: int = Field(default=200, ge=5)
    """A longer rewrite is invalid."""


class RewriteImprover:
    """Asks the model once per proposal. A reply that is empty, cut off, too long or leaks a task is invalid."""

    uses_model = True

    def __init__(self, config: ImproverConfig, model: Model | None) -> None:
        if model is None:
            raise SetupError("improver.kind = 'rewrite' needs a model: set improver.model")
        self.options = read_options(RewriteOptions, config.options, where=f"improver {config.kind!r}")
        self._model = model

    def propose(self, view: View) -> Proposal:
        """One rewrite; `ModelError` where the model did not answer."""
        prompt = read_prompt(view.incumbent.files)
        turns = (
            Message(role="system", content=SYSTEM),
            Message(role="user", content=_question(view, prompt.instruction)),
        )
        reply = self._model.complete(Request(messages=turns, temperature=self.options.temperature, seed=view.seed))
        spend = Spend(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
        text = cleaned(reply.text)
        error = self._fault(text, view.train)
        if reply.finish_reason == "length":
            error = "the rewrite was cut off; raise max_tokens of the improver's model"
        if error is not None:
            return Proposal(files=None, error=error, note=text[:120], spend=spend)
        note = f"rewrite: {' '.join(text.split())[:120]}"
        return Proposal(files={**view.incumbent.files, INSTRUCTION_FILE: text + "\n"}, note=note, spend=spend)

    def _fault(self, text: str, train: Iterable[TrainTask]) -> str | None:
        words = len(text.split())
        if words < 3:
            return f"the reply is no instruction: {text!r}"
        if words > self.options.max_words:
            return f"the rewrite has {words} words, more than improver.options.max_words = {self.options.max_words}"
        leaked = leak(text, train)
        return None if leaked is None else f"leak: contains train task {leaked.id!r} word for word"


def cleaned(reply: str) -> str:
    """The instruction in a reply: without preamble, code fence and quotes around it."""
    text = reply.strip()
    for _ in range(3):
        text = _PREAMBLE.sub("", text).strip()
        fenced = _FENCE.match(text)
        text = fenced[1].strip() if fenced else text
        for opening, closing in _QUOTES:
            inner = text[len(opening) : -len(closing)]
            if text.startswith(opening) and text.endswith(closing) and inner and closing not in inner:
                text = inner.strip()
    return text


def leak(text: str, train: Iterable[TrainTask]) -> TrainTask | None:
    """The first train task of at least eight words whose words all stand in the text, one after the other."""
    plain = f" {_plain(text)} "
    return next((task for task in train if _long(task.input) and f" {_plain(task.input)} " in plain), None)


def _long(text: str) -> bool:
    return _plain(text).count(" ") + 1 >= _LEAK_WORDS


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _question(view: View, instruction: str) -> str:
    """What the model is asked; at most four failures, each cut to a readable length."""
    parts = [f"The task: {view.description}"]
    if view.labels:
        parts.append(f"The only allowed answers: {', '.join(view.labels)}.")
    parts.append(f"The instruction now:\n{instruction}")
    if view.failures:
        parts.append("With it, the model fails on these:\n" + "\n".join(map(_failed, view.failures)))
    parts.append(
        "Write one better instruction for the whole task, in plain words and at most 60 of them. Do not quote the "
        "examples above; say what they teach. Reply with the instruction only."
    )
    return "\n\n".join(parts)


def _failed(failure: Failure) -> str:
    question = failure.task.input[:_SHOWN_CHARACTERS]
    answer = "nothing" if failure.answer is None else failure.answer[:_SHOWN_CHARACTERS]
    return f"- Input: {question}\n  It answered: {answer}\n  Right: {failure.task.reference[:_SHOWN_CHARACTERS]}"
