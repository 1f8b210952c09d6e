"""One paid episode of an improver: reserved before, settled after, its faults turned into a proposal's error."""

from __future__ import annotations

import time
from collections.abc import Callable

from heldout.errors import HeldoutError, ImproverError, ModelError, boundary
from heldout.ledger import Reservation, lost_with
from heldout.loops.agents.state import Agents
from heldout.loops.session import Session
from heldout.probes import Laboratory
from heldout.records import EditProposal, Spend
from heldout.store.events import Prepared

__all__ = ["keep_lost", "paid"]


def paid(
    agents: Agents, ask: Callable[[Laboratory], EditProposal], laboratory: Laboratory, *, purpose: str
) -> EditProposal:
    """What the improver answers, with what it cost beside its experiments.

    An outage is `unanswered`, a fault an `error`; a spent budget passes through.
    """
    session = agents.session
    bound = session.ledger.price(session.improver_model, agents.improver.bound)
    reservation = session.ledger.reserve(purpose, bound)
    begun, cpu = time.perf_counter(), time.thread_time()
    try:
        with boundary(ImproverError, "the improver raised"):
            proposal = ask(laboratory)
    except ModelError as error:
        proposal = EditProposal(error=str(error), unanswered=True, spend=lost_with(error))
    except ImproverError as error:
        proposal = EditProposal(error=str(error), spend=lost_with(error))
    except HeldoutError as error:
        keep_lost(session, reservation, error)
        raise
    if not isinstance(proposal, EditProposal):
        proposal = EditProposal(error=f"the improver returned {type(proposal).__name__}, not an EditProposal")
    wall_s = time.perf_counter() - begun - laboratory.waited_s
    used = Spend(wall_s=max(0.0, wall_s), cpu_s=time.thread_time() - cpu)
    spend = session.ledger.price(session.improver_model, proposal.spend + used)
    reservation.settle(spend)
    return proposal.model_copy(update={"spend": spend})


def keep_lost(session: Session, reservation: Reservation, error: HeldoutError) -> None:
    """Put on record what was paid for work that the run stopped before its end; it will be done anew on resume."""
    lost = session.ledger.price(session.improver_model, lost_with(error))
    if not lost.calls:
        reservation.refund()
        return
    key = f"stopped/{reservation.purpose}/{session.ledger.total.calls}"
    session.recorder.journal.append("prepared", Prepared(key=key, purpose=reservation.purpose, values={}, spend=lost))
    reservation.settle(lost)
