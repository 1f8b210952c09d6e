"""The prompt harness: an instruction and demonstrations in, one chat completion, one answer out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

from heldout.errors import ModelError, SetupError
from heldout.harness.base import Episode, Preparation
from heldout.harness.prompt_files import DEMONSTRATIONS_FILE, INSTRUCTION_FILE, read_prompt
from heldout.models.base import Message, Model, Reply, Request
from heldout.records import Candidate, Spend, Task, Trajectory, digest_of
from heldout.tasks.environment import Environment

__all__ = ["CONTENT_FREE", "PromptHarness", "fixed_messages"]

CONTENT_FREE = ("N/A", "", "[MASK]")
"""Inputs that say nothing: what a model answers to them is its bias (Zhao et al. 2021, section 4)."""

_FLOOR = -15.0
"""Lowest log-probability that counts: servers that report few tokens say nothing about the rest."""

_TOKENS_PER_MESSAGE = 16
"""More than any chat template adds around one message."""


class PromptHarness:
    """Solve a task with one request: the instruction as system message, examples as earlier turns, then the input.

    `generate` answers with the reply's text. `choose` answers with the label whose first token has the highest
    log-probability above its mean on three content-free inputs, which `prepare` measures once per candidate:
    contextual calibration (Zhao et al. 2021, arXiv 2102.09690), with W = diag(1 / p_cf) and b = 0.
    """

    prepares: ClassVar[bool] = True
    replayable: ClassVar[bool] = False
    start_file: ClassVar[str] = INSTRUCTION_FILE

    def __init__(
        self,
        *,
        answer: Literal["generate", "choose"] = "generate",
        labels: Sequence[str] = (),
        max_tokens: int = 64,
        options: Mapping[str, Any] | None = None,
        environment: Environment | None = None,
    ) -> None:
        if options:
            raise SetupError(f"the harness 'prompt' has no options; solver.options holds {', '.join(sorted(options))}")
        if environment is not None:
            raise SetupError("these tasks begin in a work folder and need an agent: solver.harness = 'tool_loop'")
        if answer == "choose" and not labels:
            raise SetupError("solver.answer = 'choose' needs tasks with a closed set of labels; use 'generate'")
        self.answer = answer
        self.labels = tuple(labels)
        self.max_tokens = 1 if answer == "choose" else max_tokens
        settings = {"answer": answer, "labels": self.labels if answer == "choose" else (), "tokens": self.max_tokens}
        self.fingerprint = f"prompt:{digest_of(settings)[:16]}"

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """For `choose`, the mean log-probability of every label on the content-free inputs."""
        if self.answer == "generate":
            return Preparation()
        if not model.can_choose:
            raise SetupError(f"solver.answer = 'choose' needs log-probabilities, which {model.name!r} cannot give")
        replies = [model.complete(self._request(candidate, text, seed=0)) for text in CONTENT_FREE]
        measured = [_logprobs(reply, self.labels) for reply in replies]
        values = {label: sum(one[label] for one in measured) / len(measured) for label in self.labels}
        return Preparation(values=values, spend=sum((_spend(reply) for reply in replies), start=Spend()))

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """One request. `HarnessError` for a folder that cannot be read, `ModelError` where no answer came."""
        reply = episode.model.complete(self._request(candidate, task.input, seed=episode.seed))
        answer = reply.text.strip() or None if self.answer == "generate" else self._chosen(reply, episode.prepared)
        return Trajectory.model_construct(
            answer=answer,
            steps=({"role": "assistant", "content": reply.text},),
            harness=self.fingerprint,
            model=episode.model.name,
            seed=episode.seed,
            spend=_spend(reply),
        )

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        """At most one token per byte of the messages and what the chat template adds, and the longest reply.

        Raises `HarnessError` for a folder that cannot be read, so that a bad candidate is known before it runs.
        """
        del model
        size, count = _fixed_size(*_texts(candidate))
        tokens_in = size + len(task.input.encode()) + count * _TOKENS_PER_MESSAGE
        return Spend.model_construct(calls=1, tokens_in=tokens_in, tokens_out=self.max_tokens)

    def _request(self, candidate: Candidate, text: str, *, seed: int) -> Request:
        return Request.model_construct(
            messages=(*fixed_messages(candidate), Message.model_construct(role="user", content=text)),
            max_tokens=self.max_tokens,
            seed=seed,
            choices=self.labels if self.answer == "choose" else (),
            weights=candidate.weights,
        )

    def _chosen(self, reply: Reply, prepared: Preparation) -> str:
        """The first of the best labels, so that a tie has one answer."""
        found = _logprobs(reply, self.labels)
        return max(self.labels, key=lambda label: found[label] - prepared.values[label])


def fixed_messages(candidate: Candidate) -> tuple[Message, ...]:
    """What every request of a candidate begins with: its instruction, and its examples as turns."""
    return _fixed_messages(*_texts(candidate))


def _texts(candidate: Candidate) -> tuple[str, str]:
    return candidate.files.get(INSTRUCTION_FILE, ""), candidate.files.get(DEMONSTRATIONS_FILE, "")


@lru_cache(maxsize=256)
def _fixed_messages(instruction: str, demonstrations: str) -> tuple[Message, ...]:
    """Pure, remembered because every rollout needs it."""
    prompt = read_prompt({INSTRUCTION_FILE: instruction, DEMONSTRATIONS_FILE: demonstrations})
    turns = [Message(role="system", content=prompt.instruction)]
    for shown in prompt.demonstrations:
        turns += [Message(role="user", content=shown.input), Message(role="assistant", content=shown.output)]
    return tuple(turns)


@lru_cache(maxsize=256)
def _fixed_size(instruction: str, demonstrations: str) -> tuple[int, int]:
    """Bytes of a candidate's fixed messages, and the number of messages with the task's own."""
    fixed = _fixed_messages(instruction, demonstrations)
    return sum(len(message.content.encode()) for message in fixed), len(fixed) + 1


def _logprobs(reply: Reply, labels: Sequence[str]) -> dict[str, float]:
    found = reply.choice_logprobs
    if found is None or any(label not in found for label in labels):
        raise ModelError(f"asked for the log-probabilities of {len(labels)} labels, got {found!r:.120}")
    return {label: max(_FLOOR, found[label]) for label in labels}


def _spend(reply: Reply) -> Spend:
    return Spend.model_construct(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
