"""One paid episode of an improver: reserved before, settled after, its faults turned into a proposal's error."""

from __future__ import annotations

import time
from collections.abc import Callable

from heldout.errors import HeldoutError, ImproverError, ModelError, boundary
from heldout.loops.agents.state import Agents
from heldout.records import EditProposal, Spend

__all__ = ["paid"]


def paid(agents: Agents, ask: Callable[[], EditProposal], *, purpose: str) -> EditProposal:
    """What the improver answers, with what it cost. An outage is `unanswered`, a fault an `error`; a spent budget
    passes through."""
    session = agents.session
    bound = session.ledger.price(session.improver_model, agents.improver.bound)
    reservation = session.ledger.reserve(purpose, bound)
    begun, cpu = time.perf_counter(), time.thread_time()
    try:
        with boundary(ImproverError, "the improver raised"):
            proposal = ask()
    except ModelError as error:
        lost = Spend(calls=error.calls, tokens_in=error.tokens_in, tokens_out=error.tokens_out)
        proposal = EditProposal(error=str(error), unanswered=True, spend=lost)
    except ImproverError as error:
        proposal = EditProposal(error=str(error))
    except HeldoutError:
        reservation.refund()
        raise
    if not isinstance(proposal, EditProposal):
        proposal = EditProposal(error=f"the improver returned {type(proposal).__name__}, not an EditProposal")
    used = Spend(wall_s=time.perf_counter() - begun, cpu_s=time.thread_time() - cpu)
    spend = session.ledger.price(session.improver_model, proposal.spend + used)
    reservation.settle(spend)
    return proposal.model_copy(update={"spend": spend})
