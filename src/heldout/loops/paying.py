"""One paid question to an improver: reserved before, settled after, its faults turned into data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Generic, TypeVar

from heldout.errors import HeldoutError, ImproverError, ModelError, boundary
from heldout.ledger import Reservation, lost_with
from heldout.loops.session import Session
from heldout.records import Record, Spend
from heldout.store.events import Prepared

__all__ = ["Answered", "journal_lost", "keep_lost", "paid_call"]

_ERROR_CHARACTERS = 10_000

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Answered(Generic[R]):
    """What came of a question."""

    value: R | None
    """None where nothing usable came."""
    spend: Spend
    """What it cost, priced, this process's own time included."""
    error: str | None = None
    unanswered: bool = False
    """The improver's model did not answer: nothing is known about what it would have said."""


def paid_call(
    session: Session,
    ask: Callable[[], object],
    kind: type[R],
    *,
    bound: Spend,
    purpose: str,
    waited_s: Callable[[], float] = lambda: 0.0,
) -> Answered[R]:
    """Ask, and expect a record of `kind` with a `spend`. An outage is `unanswered`, a fault an `error`; a spent budget
    passes through. `waited_s` is time that the answer waited for others, which is charged elsewhere."""
    reservation = session.ledger.reserve(purpose, session.ledger.price(session.improver_model, bound))
    begun, cpu = time.perf_counter(), time.thread_time()
    value, error, unanswered = None, None, False
    try:
        with boundary(ImproverError, "the improver raised"):
            value = _checked(ask(), kind)
        cost: Spend = value.spend  # type: ignore[attr-defined]
    except ModelError as fault:
        error, unanswered, cost = _told(fault), True, lost_with(fault)
    except ImproverError as fault:
        error, cost = _told(fault), lost_with(fault)
    except HeldoutError as fault:
        keep_lost(session, reservation, fault)
        raise
    wall_s = time.perf_counter() - begun - waited_s()
    used = Spend(wall_s=max(0.0, wall_s), cpu_s=time.thread_time() - cpu)
    spend = session.ledger.price(session.improver_model, cost + used)
    reservation.settle(spend)
    return Answered(value, spend, error, unanswered)


def _checked(answer: object, kind: type[R]) -> R:
    """The answer, if the journal can hold it and the ledger can count it; else `ImproverError`."""
    if not isinstance(answer, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ImproverError(f"the improver returned {type(answer).__name__}, not {article} {kind.__name__}")
    costs = dict(answer.spend)  # type: ignore[attr-defined]
    odd = [f"{name} = {value!r}" for name, value in costs.items() if not (isfinite(value) and value >= 0)]
    if odd:
        raise ImproverError(f"the improver says that it spent {', '.join(odd)}; a cost is a number of at least 0")
    answer.model_dump_json()  # raises for half a character in a text
    return answer


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
