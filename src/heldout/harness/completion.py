"""The plainest harness, for models whose weights are trained: the task is one user turn, and nothing else is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from pydantic import Field

from heldout.errors import SetupError
from heldout.harness.base import Episode, Preparation
from heldout.harness.prompt_files import INSTRUCTION_FILE
from heldout.models.base import Message, Model, Reply, Request, WeightsModel
from heldout.options import read_options
from heldout.records import Candidate, Record, Spend, Task, Trajectory, digest_of
from heldout.tasks.environment import Environment
from heldout.tasks.graders import CUT

__all__ = ["CompletionHarness", "CompletionOptions"]

_TOKENS_PER_MESSAGE = 16
"""More than any chat template adds around one message."""


class CompletionOptions(Record):
    """`solver.options` of the harness `completion`."""

    batch: int = Field(default=64, ge=1, le=4096)
    """Tasks that are asked in one batch, of a model that serves weights."""


class CompletionHarness:
    """One request for a task: a system turn where `instruction.md` says anything, then the task as it stands.

    The candidate's weights answer, where it has any. A reply that was cut at `max_tokens` did not end by itself: its
    answer ends with `CUT`, whatever it says before. Measures: `stopped` (0 or 1) and `tokens_out`.
    """

    prepares: ClassVar[bool] = False
    replayable: ClassVar[bool] = False
    start_file: ClassVar[str] = INSTRUCTION_FILE

    def __init__(
        self,
        *,
        answer: str = "generate",
        labels: Sequence[str] = (),
        max_tokens: int = 64,
        options: Mapping[str, Any] | None = None,
        environment: Environment | None = None,
    ) -> None:
        del labels
        if environment is not None:
            raise SetupError("these tasks begin in a work folder and need an agent: solver.harness = 'tool_loop'")
        if answer != "generate":
            raise SetupError(
                "the harness 'completion' generates; solver.answer = 'choose' needs solver.harness = 'prompt'"
            )
        self.batch = read_options(CompletionOptions, options or {}, where="the harness 'completion'").batch
        self.max_tokens = max_tokens
        self.fingerprint = f"completion:{digest_of({'tokens': max_tokens, 'cut': CUT})[:16]}"

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:
        """Nothing is measured beforehand."""
        del candidate, model
        return Preparation()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        """One request. `ModelError` where no answer came."""
        reply = episode.model.complete(self._request(candidate, task, seed=episode.seed))
        return self._trajectory(reply, episode)

    def run_batch(
        self, candidate: Candidate, tasks: Sequence[Task], episodes: Sequence[Episode]
    ) -> Sequence[Trajectory]:
        """See `BatchHarness.run_batch`; one by one where the model knows no batches."""
        model = episodes[0].model
        requests = [
            self._request(candidate, task, seed=episode.seed) for task, episode in zip(tasks, episodes, strict=True)
        ]
        if getattr(model, "serves_weights", False):
            replies = cast(WeightsModel, model).complete_batch(requests)
        else:
            replies = [model.complete(request) for request in requests]
        return [self._trajectory(reply, episode) for reply, episode in zip(replies, episodes, strict=True)]

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:
        """At most one token per byte of the messages and what the chat template adds, and the longest reply."""
        del model
        texts = (candidate.files.get(INSTRUCTION_FILE, ""), task.input)
        tokens_in = sum(len(text.encode()) + _TOKENS_PER_MESSAGE for text in texts)
        return Spend.model_construct(calls=1, tokens_in=tokens_in, tokens_out=self.max_tokens)

    def _request(self, candidate: Candidate, task: Task, *, seed: int) -> Request:
        instruction = candidate.files.get(INSTRUCTION_FILE, "").strip()
        system = (Message.model_construct(role="system", content=instruction),) if instruction else ()
        turns = (*system, Message.model_construct(role="user", content=task.input))
        return Request.model_construct(messages=turns, max_tokens=self.max_tokens, seed=seed, weights=candidate.weights)

    def _trajectory(self, reply: Reply, episode: Episode) -> Trajectory:
        stopped = reply.finish_reason != "length"
        text = reply.text.strip()
        spend = Spend.model_construct(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
        return Trajectory.model_construct(
            answer=(text if stopped else text + CUT) or None,
            steps=({"role": "assistant", "content": reply.text},),
            harness=self.fingerprint,
            model=episode.model.name,
            seed=episode.seed,
            measures={"stopped": float(stopped), "tokens_out": float(reply.tokens_out)},
            spend=spend,
        )
