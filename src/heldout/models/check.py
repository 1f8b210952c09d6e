"""The question asked before a run: does this model answer at all?"""

from __future__ import annotations

from heldout.errors import ModelError, SetupError
from heldout.models.base import Message, Model, Reply, Request
from heldout.records import Spend

__all__ = ["check_bound", "check_model"]

_BOUND = Spend(calls=1, tokens_in=64, tokens_out=16)
"""Of a first request without a system turn: its few words in any chat template, and its longest reply."""

_TOKENS_PER_TURN = 16
"""More than any chat template adds around one turn."""


def check_bound(instruction: str = "") -> Spend:
    """What the first request may cost, retries apart, with this system turn: at most one token per byte more."""
    more = len(instruction.encode()) + _TOKENS_PER_TURN if instruction else 0
    return _BOUND.model_copy(update={"tokens_in": _BOUND.tokens_in + more})


def check_model(model: Model, *, choose: bool = False, instruction: str = "") -> Reply:
    """Send one tiny request and return its reply; raise `SetupError` where the model cannot be used as configured.

    What stops one evaluation in the middle of a run (`ModelError`, not measured) is wrong use at its start:
    an unreachable URL, an unknown model, answers that are not answers. `choose` also asks for choices;
    `instruction` is sent as the system turn, which some chat templates refuse.
    """
    if choose and not model.can_choose:
        raise SetupError(f"model {model.name!r} cannot choose by log-probability; set solver.answer=generate")
    choices = ("yes", "no") if choose else ()
    question = Message(role="user", content="Answer yes or no.")
    turns = (*([Message(role="system", content=instruction)] if instruction else []), question)
    request = Request(messages=turns, max_tokens=16, choices=choices)
    try:
        return model.complete(request)
    except ModelError as cause:
        if instruction and _answers(model, request.model_copy(update={"messages": (question,)})):
            raise SetupError(
                f"model {model.name!r} answers, and not where the instruction is its system turn: {cause}; if its chat "
                "template takes none, leave the instruction empty (solver.instruction='' with "
                "solver.harness=completion) and let each task say what is wanted"
            ) from cause
        raise SetupError(f"model {model.name!r} did not answer a first request: {cause}") from cause


def _answers(model: Model, request: Request) -> bool:
    try:
        model.complete(request)
    except ModelError:
        return False
    return True
