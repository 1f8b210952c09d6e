"""The simulated coder: a model that mends generated packages in the tool loop, with stated weaknesses.

A simulation: it knows the package of every issue that it was made for, and what it does with that is decided by its
weaknesses (`weaknesses`), the system text, and what its own commands show (`plan`). The commands are real.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from heldout.config import ModelConfig
from heldout.models.base import Message, Reply, Request
from heldout.models.simulated_skill import item_draws
from heldout.options import read_options
from heldout.records import Record, digest_of
from heldout.worlds.repair.grading import read_reference
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.plan import Move, Observation, intent_of, next_move, read_move, vocabulary
from heldout.worlds.repair.weaknesses import read_system

__all__ = ["CoderOptions", "SimulatedCoder", "package_of", "reply_text", "token_count"]

_EXIT_CODE = re.compile(r"exit code (\d+)")
_STRANGER = "I do not know this issue."


class CoderOptions(Record):
    """`model.options` of the simulated coder: it has none."""


class SimulatedCoder:
    """Plays a coder with one shell command a turn. Stateless: a reply depends on the request's messages and seed alone.

    The first user message is the issue; `answer_key` holds, by `models.simulated.answer_key`, the reference of every
    issue that it knows. To any other conversation it answers by submitting. Tokens are bytes over four. `max_tokens`
    and `temperature` are not looked at: a reply is as long as its command, and differs by the seed.
    """

    name = "simulated_coder"
    deterministic = True
    can_choose = False
    simulated = True

    def __init__(self, config: ModelConfig, *, answer_key: Mapping[str, str] | None = None) -> None:
        read_options(CoderOptions, config.options, where="model 'simulated_coder'")
        self._key = dict(answer_key or {})
        self.fingerprint = f"simulated_coder:{digest_of(self._key)[:16]}"

    def complete(self, request: Request) -> Reply:
        """The next command of this conversation."""
        text = self._reply(request.messages, seed=request.seed)
        tokens_in = sum(token_count(message.content) for message in request.messages)
        return Reply.model_construct(text=text, tokens_in=tokens_in, tokens_out=token_count(text))

    def close(self) -> None:
        """Nothing was started."""

    def package(self, issue: str) -> Package | None:
        """The package that an issue is about; None for one that the coder was not made for."""
        reference = self._key.get(item_draws(issue, seed=0).key)
        return None if reference is None else package_of(reference)

    def _reply(self, messages: Sequence[Message], *, seed: int) -> str:
        system = "\n".join(message.content for message in messages if message.role == "system")
        issue = next((number for number, message in enumerate(messages) if message.role == "user"), None)
        package = None if issue is None else self.package(messages[issue].content)
        if issue is None or package is None:
            return f"{_STRANGER}\n\n```bash\necho HELDOUT_SUBMIT\n```"
        said = [read_move(message.content) for message in messages[issue:] if message.role == "assistant"]
        past = [move for move in said if move is not None]
        move = next_move(
            intent_of(package, read_system(system), seed=seed),
            past,
            _seen(messages[issue + 1 :]),
            error=package.failure,
        )
        return reply_text(move, vocabulary(package).command[move])


@lru_cache(maxsize=4096)
def package_of(reference: str) -> Package:
    """The package that a task's reference stands for."""
    return read_reference(reference).package()


def reply_text(move: Move, command: str) -> str:
    """What the coder says as it makes a move."""
    return f"{move.value}\n\n```bash\n{command}\n```"


def token_count(text: str) -> int:
    """Bytes over four, at least one."""
    return max(1, len(text.encode()) // 4)


def _seen(messages: Sequence[Message]) -> Observation | None:
    """The newest observation; None where nothing was run (a hook's refusal, or a reply without a command)."""
    if not messages or messages[-1].role != "user":
        return None
    found = _EXIT_CODE.match(messages[-1].content)
    return None if found is None else Observation(int(found[1]), messages[-1].content)
