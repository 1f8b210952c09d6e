"""One account: reservations count, limits are hard, holds keep room, threads are safe."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.config import BudgetConfig, Price
from heldout.errors import BudgetExhausted
from heldout.ledger import Ledger
from heldout.records import Spend

ONE = Spend(evaluations=1)


def test_work_in_flight_counts_against_the_limit() -> None:
    ledger = Ledger(BudgetConfig(evaluations=2))
    ledger.reserve("select", ONE)
    ledger.reserve("select", ONE)
    with pytest.raises(BudgetExhausted, match=r"budget\.evaluations = 2 leaves no room for select"):
        ledger.reserve("select", ONE)


def test_a_refund_gives_the_room_back_and_a_settlement_keeps_it() -> None:
    ledger = Ledger(BudgetConfig(evaluations=1))
    ledger.reserve("select", ONE).refund()
    ledger.reserve("select", ONE).settle(ONE)
    assert ledger.total.evaluations == 1
    with pytest.raises(BudgetExhausted):
        ledger.reserve("select", ONE)


def test_a_reservation_closes_once() -> None:
    reservation = Ledger().reserve("select", ONE)
    reservation.settle(ONE)
    with pytest.raises(ValueError, match="already closed"):
        reservation.refund()


def test_what_was_spent_beyond_the_bound_is_counted() -> None:
    ledger = Ledger(BudgetConfig(tokens=100))
    ledger.reserve("propose", Spend(tokens_out=10)).settle(Spend(tokens_out=95))
    with pytest.raises(BudgetExhausted):
        ledger.reserve("propose", Spend(tokens_out=10))


def test_a_hold_keeps_room_that_only_its_purpose_may_use() -> None:
    ledger = Ledger(BudgetConfig(evaluations=3))
    ledger.hold("audit", Spend(evaluations=2))
    ledger.reserve("select", ONE).settle(ONE)
    with pytest.raises(BudgetExhausted):
        ledger.reserve("select", ONE)
    ledger.reserve("audit", ONE).settle(ONE)
    ledger.reserve("audit", ONE).settle(ONE)
    assert ledger.spent["audit"].evaluations == 2


def test_a_hold_that_cannot_be_afforded_is_refused_and_leaves_nothing_held() -> None:
    ledger = Ledger(BudgetConfig(evaluations=1))
    with pytest.raises(BudgetExhausted):
        ledger.hold("audit", Spend(evaluations=2))
    ledger.reserve("select", ONE).settle(ONE)


def test_dollars_are_tokens_times_the_price_table() -> None:
    ledger = Ledger(BudgetConfig(dollars=1.0, prices={"m": Price(input=2.0, output=8.0)}))
    priced = ledger.price("m", Spend(tokens_in=1000, tokens_out=500))
    assert priced.cost_usd == pytest.approx(0.002 + 0.004)
    assert ledger.price("unlisted", Spend(tokens_in=1000)).cost_usd == 0.0


def test_elapsed_time_is_a_limit_too() -> None:
    now = [0.0]
    ledger = Ledger(BudgetConfig(wall_s=10.0), elapsed_s=lambda: now[0])
    ledger.reserve("select", ONE).settle(ONE)
    now[0] = 10.5
    with pytest.raises(BudgetExhausted, match="wall_s"):
        ledger.reserve("select", ONE)


@given(st.lists(st.sampled_from(["settle", "refund", "keep"]), max_size=60), st.integers(1, 20))
def test_settled_and_open_work_never_pass_the_limit(actions: list[str], limit: int) -> None:
    ledger, kept = Ledger(BudgetConfig(evaluations=limit)), 0
    for action in actions:
        try:
            reservation = ledger.reserve("select", ONE)
        except BudgetExhausted:
            assert ledger.total.evaluations + kept == limit
            continue
        if action == "settle":
            reservation.settle(ONE)
        elif action == "refund":
            reservation.refund()
        else:
            kept += 1
        assert ledger.total.evaluations + kept <= limit


def test_threads_cannot_pass_the_limit_together() -> None:
    ledger = Ledger(BudgetConfig(evaluations=500))
    granted: list[int] = []

    def work() -> None:
        for _ in range(200):
            try:
                ledger.reserve("select", ONE).settle(ONE)
            except BudgetExhausted:
                return
            granted.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 500
    assert ledger.total.evaluations == 500


def test_what_is_left_of_a_limit_leaves_out_work_in_flight_and_what_is_held() -> None:
    ledger = Ledger(BudgetConfig(cpu_s=100.0, wall_s=50.0), elapsed_s=lambda: 10.0)
    ledger.record("train", Spend(cpu_s=20.0, wall_s=20.0))
    ledger.hold("audit", Spend(cpu_s=5.0, wall_s=5.0))
    reservation = ledger.reserve("train", Spend(cpu_s=30.0))
    assert ledger.left("cpu_s") == pytest.approx(45.0)
    assert ledger.left("wall_s") == pytest.approx(35.0), "elapsed seconds, not seconds of work"
    assert ledger.left("gpu_s") is None
    reservation.refund()
    assert ledger.left("cpu_s") == pytest.approx(75.0)


def test_accelerator_seconds_have_a_limit_of_their_own() -> None:
    ledger = Ledger(BudgetConfig(gpu_s=10.0))
    ledger.reserve("train", Spend(gpu_s=8.0)).settle(Spend(gpu_s=8.0))
    with pytest.raises(BudgetExhausted, match=r"budget\.gpu_s = 10"):
        ledger.reserve("train", Spend(gpu_s=3.0))
