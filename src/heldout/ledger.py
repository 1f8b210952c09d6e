"""One account for everything: reserve before the work, settle what it cost, refund what did not happen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from heldout.config import BudgetConfig, Price
from heldout.errors import BudgetExhausted, HeldoutError
from heldout.records import Spend

__all__ = ["Ledger", "Reservation", "lost_with", "paid_until_now"]

_NOTHING = Spend()


@dataclass(slots=True, eq=False)
class Reservation:
    """Work in flight. Exactly one of `settle` and `refund` ends it; a second call is an error."""

    ledger: Ledger
    purpose: str
    bound: Spend
    open: bool = True

    def settle(self, spend: Spend) -> None:
        """The work was done and cost `spend`, which is counted even where it passed the bound."""
        self.ledger._close(self, spend)

    def refund(self) -> None:
        """The work did not happen."""
        self.ledger._close(self, None)


@dataclass(slots=True)
class Ledger:
    """Totals by purpose, and hard limits that count work in flight. Safe to share between threads.

    `elapsed_s` gives the run's elapsed seconds (earlier parts of a resumed run included).
    A limit holds over settled work, reservations and holds together; a hold keeps room for later
    work (the audit) that must still be affordable when the search has spent the rest.
    """

    limits: BudgetConfig = field(default_factory=BudgetConfig)
    elapsed_s: Callable[[], float] = lambda: 0.0
    spent: dict[str, Spend] = field(default_factory=dict)
    _in_flight: Spend = _NOTHING
    _held: dict[str, Spend] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def total(self) -> Spend:
        """Everything settled so far."""
        return sum(self.spent.values(), start=_NOTHING)

    def price(self, model: str, spend: Spend) -> Spend:
        """`spend` with its dollars, by the price table in the config; an unlisted model is free."""
        price = self.limits.prices.get(model)
        return spend if price is None else spend.model_copy(update={"cost_usd": _dollars(price, spend)})

    def reserve(self, purpose: str, bound: Spend) -> Reservation:
        """Set `bound` aside for work that starts now; raise `BudgetExhausted` where a limit would be passed."""
        with self._lock:
            self._refuse_over_limit(purpose, bound)
            self._in_flight = self._in_flight + bound
        return Reservation(self, purpose, bound)

    def hold(self, purpose: str, bound: Spend, *, enforce: bool = True) -> None:
        """Keep room for `purpose`, which alone may use it, until `release`. Its `wall_s` is elapsed seconds.

        `enforce` is False in a resumed run that had this room once, and has spent more since.
        """
        with self._lock:
            self._held.pop(purpose, None)
            if enforce:
                self._refuse_over_limit(purpose, bound)
            self._held[purpose] = bound

    def release(self, purpose: str) -> None:
        """Give the held room back."""
        with self._lock:
            self._held.pop(purpose, None)

    def left(self, name: Literal["wall_s", "cpu_s", "gpu_s"]) -> float | None:
        """Seconds that may still be reserved under this limit, what is held for later set aside; None without one."""
        limit: float | None = getattr(self.limits, name)
        if limit is None:
            return None
        with self._lock:
            held = sum(self._held.values(), start=_NOTHING)
            committed = self.total + self._in_flight + held
        used = self.elapsed_s() + held.wall_s if name == "wall_s" else getattr(committed, name)
        return max(0.0, limit - float(used))

    def record(self, purpose: str, spend: Spend) -> None:
        """Count work that was paid for in an earlier part of the run."""
        with self._lock:
            self._add(purpose, spend)

    def _close(self, reservation: Reservation, spend: Spend | None) -> None:
        with self._lock:
            if not reservation.open:
                raise ValueError(f"the reservation for {reservation.purpose!r} is already closed")
            reservation.open = False
            self._in_flight = self._in_flight + _negative(reservation.bound)
            if spend is not None:
                self._add(reservation.purpose, spend)

    def _add(self, purpose: str, spend: Spend) -> None:
        self.spent[purpose] = self.spent.get(purpose, _NOTHING) + spend

    def _refuse_over_limit(self, purpose: str, bound: Spend) -> None:
        if not _has_limits(self.limits):
            return
        held = sum((spend for name, spend in self._held.items() if name != purpose), start=_NOTHING)
        committed = self.total + self._in_flight + held + bound
        for name, limit, value in _against(
            self.limits, committed, elapsed_s=self.elapsed_s() + held.wall_s + bound.wall_s
        ):
            if limit is not None and value > limit * (1 + 1e-9):
                raise BudgetExhausted(
                    f"budget.{name} = {limit:g} leaves no room for {purpose}: "
                    f"with work in flight and what is held for later it would reach {value:g}"
                )


@contextmanager
def paid_until_now(spend: Callable[[], Spend]) -> Iterator[None]:
    """An error that leaves the block carries the requests and tokens that `spend` then tells, besides its own."""
    try:
        yield
    except HeldoutError as error:
        used = spend()
        error.calls += used.calls
        error.tokens_in += used.tokens_in
        error.tokens_out += used.tokens_out
        raise


def lost_with(error: HeldoutError) -> Spend:
    """What was paid for work that ended with this error."""
    return Spend(calls=error.calls, tokens_in=error.tokens_in, tokens_out=error.tokens_out)


def _has_limits(limits: BudgetConfig) -> bool:
    return any(
        limit is not None
        for limit in (
            limits.evaluations,
            limits.calls,
            limits.tokens,
            limits.dollars,
            limits.wall_s,
            limits.cpu_s,
            limits.gpu_s,
        )
    )


def _against(limits: BudgetConfig, spend: Spend, *, elapsed_s: float) -> list[tuple[str, float | None, float]]:
    return [
        ("evaluations", limits.evaluations, spend.evaluations),
        ("calls", limits.calls, spend.calls),
        ("tokens", limits.tokens, spend.tokens_in + spend.tokens_out),
        ("dollars", limits.dollars, spend.cost_usd),
        ("wall_s", limits.wall_s, elapsed_s),
        ("cpu_s", limits.cpu_s, spend.cpu_s),
        ("gpu_s", limits.gpu_s, spend.gpu_s),
    ]


def _dollars(price: Price, spend: Spend) -> float:
    return (price.input * spend.tokens_in + price.output * spend.tokens_out) / 1e6


def _negative(spend: Spend) -> Spend:
    return Spend.model_construct(None, **{name: -value for name, value in spend})
