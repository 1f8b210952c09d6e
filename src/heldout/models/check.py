"""The question asked before a run: does this model answer at all?"""

from __future__ import annotations

from heldout.errors import ModelError, SetupError
from heldout.models.base import Message, Model, Reply, Request
from heldout.records import Spend

__all__ = ["CHECK_BOUND", "check_model"]

CHECK_BOUND = Spend(calls=1, tokens_in=64, tokens_out=16)
"""What the first request may cost, retries apart: its few words in any chat template, and its longest reply."""


def check_model(model: Model, *, choose: bool = False) -> Reply:
    """Send one tiny request and return its reply; raise `SetupError` where the model cannot be used as configured.

    What stops one evaluation in the middle of a run (`ModelError`, not measured) is wrong use at its start:
    an unreachable URL, an unknown model, answers that are not answers. `choose` also asks for choices.
    """
    if choose and not model.can_choose:
        raise SetupError(f"model {model.name!r} cannot choose by log-probability; set solver.answer=generate")
    choices = ("yes", "no") if choose else ()
    request = Request(messages=(Message(role="user", content="Answer yes or no."),), max_tokens=16, choices=choices)
    try:
        return model.complete(request)
    except ModelError as cause:
        raise SetupError(f"model {model.name!r} did not answer a first request: {cause}") from cause
