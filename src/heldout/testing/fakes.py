"""Small real implementations of the seams, for tests, benchmarks and plug-in authors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from heldout.errors import ModelError
from heldout.harness.base import Episode, Preparation
from heldout.models.base import Message, Model, Reply, Request
from heldout.records import Candidate, Spend, Task, Trajectory

__all__ = ["FunctionModel", "PlainHarness", "keeps_failing"]


@dataclass
class FunctionModel:
    """A model that is a function of the request, after an optional wait; not a simulation of skill."""

    answer: Callable[[Request], str]
    name: str = "function"
    fingerprint: str = "function"
    latency_s: float = 0.0
    deterministic: bool = True
    can_choose: bool = False
    simulated: bool = True

    def complete(self, request: Request) -> Reply:
        if self.latency_s:
            time.sleep(self.latency_s)
        return Reply(text=self.answer(request), tokens_in=10, tokens_out=2)

    def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True)
class PlainHarness:
    """The instruction as the system message, the task as the user's, the reply as the answer."""

    fingerprint: str = "plain"
    prepares: bool = True
    replayable: bool = False

    def prepare(self, candidate: Candidate, model: Model) -> Preparation:  # noqa: ARG002 - nothing to measure
        return Preparation()

    def run(self, candidate: Candidate, task: Task, episode: Episode) -> Trajectory:
        system = Message(role="system", content=candidate.files["instruction.md"])
        request = Request(messages=(system, Message(role="user", content=task.input)), seed=episode.seed)
        reply = episode.model.complete(request)
        spend = Spend(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
        return Trajectory(answer=reply.text, harness=self.fingerprint, model=episode.model.name, spend=spend)

    def bound(self, candidate: Candidate, task: Task, model: Model) -> Spend:  # noqa: ARG002 - replies are two tokens
        return Spend(calls=1, tokens_in=len(task.input.encode()) + 100, tokens_out=2)


def keeps_failing(request: Request) -> str:
    """An answer function of a model that is down."""
    raise ModelError(f"no answer to {request.messages[-1].content[:20]!r}")
