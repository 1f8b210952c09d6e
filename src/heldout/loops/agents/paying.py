"""One paid episode of an improver: reserved before, settled after, its faults turned into a proposal's error."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import isfinite

from heldout.errors import HeldoutError, ImproverError, ModelError, boundary
from heldout.ledger import Reservation, lost_with
from heldout.loops.agents.state import Agents
from heldout.loops.session import Session
from heldout.probes import Laboratory
from heldout.records import EditProposal, Spend
from heldout.store.events import Prepared

__all__ = ["journal_lost", "keep_lost", "paid"]

_ERROR_CHARACTERS = 10_000


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
            proposal = _checked(ask(laboratory))
    except ModelError as error:
        proposal = EditProposal(error=_told(error), unanswered=True, spend=lost_with(error))
    except ImproverError as error:
        proposal = EditProposal(error=_told(error), spend=lost_with(error))
    except HeldoutError as error:
        keep_lost(session, reservation, error)
        raise
    wall_s = time.perf_counter() - begun - laboratory.waited_s
    used = Spend(wall_s=max(0.0, wall_s), cpu_s=time.thread_time() - cpu)
    spend = session.ledger.price(session.improver_model, proposal.spend + used)
    reservation.settle(spend)
    return proposal.model_copy(update={"spend": spend})


def _checked(proposal: object) -> EditProposal:
    """The proposal, if the journal can hold it and the ledger can count it; else `ImproverError`."""
    if not isinstance(proposal, EditProposal):
        raise ImproverError(f"the improver returned {type(proposal).__name__}, not an EditProposal")
    costs = dict(proposal.spend)
    odd = [f"{name} = {value!r}" for name, value in costs.items() if not (isfinite(value) and value >= 0)]
    if odd:
        raise ImproverError(f"the improver says that it spent {', '.join(odd)}; a cost is a number of at least 0")
    proposal.model_dump_json()  # raises for half a character in a note or a claim
    return proposal


def _told(error: HeldoutError) -> str:
    """Its words, as far as the journal can hold them: they may be an improver's, or a server's."""
    return str(error)[:_ERROR_CHARACTERS].encode(errors="replace").decode()


def keep_lost(session: Session, reservation: Reservation, error: HeldoutError) -> None:
    """Put on record what was paid for work that the run stopped before its end; it will be done anew on resume."""
    lost = session.ledger.price(session.improver_model, lost_with(error))
    if lost.calls:
        journal_lost(session, reservation.purpose, lost)
        reservation.settle(lost)
    else:
        reservation.refund()


def journal_lost(session: Session, purpose: str, lost: Spend) -> None:
    """The event for what was paid, and counted, for work whose own event will never come."""
    if lost.calls:
        key = f"stopped/{purpose}/{session.ledger.total.calls}"
        session.recorder.journal.append("prepared", Prepared(key=key, purpose=purpose, values={}, spend=lost))
