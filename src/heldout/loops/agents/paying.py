"""One paid episode of an agent improver, with its experiments."""

from __future__ import annotations

from collections.abc import Callable

from heldout.loops.agents.state import Agents
from heldout.loops.paying import paid_call
from heldout.probes import Laboratory
from heldout.records import EditProposal

__all__ = ["paid"]


def paid(
    agents: Agents, ask: Callable[[Laboratory], EditProposal], laboratory: Laboratory, *, purpose: str
) -> EditProposal:
    """What the improver answers, with what it cost beside its experiments; see `paid_call`."""
    answered = paid_call(
        agents.session,
        lambda: ask(laboratory),
        EditProposal,
        bound=agents.improver.bound,
        purpose=purpose,
        waited_s=lambda: laboratory.waited_s,
    )
    if answered.value is None:
        return EditProposal(error=answered.error, unanswered=answered.unanswered, spend=answered.spend)
    return answered.value.model_copy(update={"spend": answered.spend})
