"""The pool of units: limits, shares, clocks, refunds, and no overspending under any interleaving."""

from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from probe_parts import Clock

from heldout.probes import ProbePool
from heldout.records import Evidence, ProbeKind


def recorded(episode: int, ordinal: int, units: int) -> Evidence:
    return Evidence(round=1, episode=episode, ordinal=ordinal, kind=ProbeKind.REPLAY, units=units)


def test_a_refused_call_names_the_count() -> None:
    pool = ProbePool(4, episodes=3, clock=Clock())
    assert pool.reserve(0, 3) == ""
    assert pool.reserve(1, 2) == "the count: this probe takes 2 units, 1 of the round's pool of 4 are left"
    assert pool.reserve(1, 1) == ""
    assert (pool.spent, pool.left(2)) == (4, 0)


def test_a_refused_call_names_the_clock() -> None:
    clock = Clock()
    pool = ProbePool(4, episodes=3, clock=clock, phase_s=3600.0)
    pool.begin(0)
    clock.now = 3600.0
    assert pool.reserve(0, 1) == ""
    clock.now = 3601.0
    assert pool.reserve(0, 1) == "the clock: 3601 s of this phase have passed, the limit is 3600 s"
    assert pool.spent == 1


def test_every_episode_has_a_clock_of_its_own() -> None:
    clock = Clock()
    pool = ProbePool(9, episodes=3, clock=clock, phase_s=100.0)
    pool.begin(0)
    clock.now = 90.0
    pool.begin(1)
    clock.now = 120.0
    assert pool.reserve(0, 1).startswith("the clock"), "a new episode does not restart the clock of another"
    assert pool.reserve(1, 1) == ""
    pool.begin(0)
    assert pool.reserve(0, 1) == "", "a repair is a phase of its own"


def test_a_pool_may_be_drained_by_one_episode_and_an_equal_share_may_not() -> None:
    drained = ProbePool(24, episodes=3, clock=Clock(), share="pool")
    assert drained.reserve(0, 24) == ""
    equal = ProbePool(8, episodes=3, clock=Clock(), share="equal")
    assert [equal.left(episode) for episode in (0, 1, 2, -1)] == [3, 3, 2, 8]
    assert equal.reserve(0, 3) == ""
    assert equal.reserve(0, 1) == (
        "the count: this probe takes 1 unit, 0 of this episode's equal part of the round's pool of 8 are left"
    )
    assert equal.reserve(-1, 5) == "", "the meta-episode may spend what is left"
    assert [equal.left(episode) for episode in (0, 1, 2, -1)] == [0, 0, 0, 0]


def test_a_refund_gives_back_what_was_set_aside_and_no_more() -> None:
    pool = ProbePool(3, episodes=3, clock=Clock())
    pool.reserve(0, 3)
    pool.refund(0, 2)
    assert (pool.spent, pool.left(1)) == (1, 2)
    with pytest.raises(ValueError, match="has not spent"):
        pool.refund(0, 2)
    with pytest.raises(ValueError, match="has not spent"):
        pool.refund(1, 1)
    with pytest.raises(ValueError, match="at least 0"):
        pool.reserve(0, -1)


def test_recorded_evidence_is_spent_from_the_start_and_its_episode_is_told_what_it_was_told_before() -> None:
    pool = ProbePool(10, episodes=3, clock=Clock())
    for evidence in (recorded(0, 0, 3), recorded(1, 0, 1), recorded(1, 1, 2)):
        pool.restore(evidence)
    assert pool.spent == 6
    assert pool.left(2) == 4
    assert pool.left(1) == 7, "as before its first probe"
    pool.asked_again(recorded(1, 0, 1))
    assert pool.left(1) == 6
    with pytest.raises(ValueError, match="1/1/0 was not restored"):
        pool.asked_again(recorded(1, 0, 1))
    assert "4 of the round's pool" in pool.reserve(1, 5), "what lies ahead is spent all the same"
    with pytest.raises(ValueError, match="has not spent"):
        pool.refund(1, 2)
    pool.begin(1, first=256)
    assert pool.left(1) == 4, "a repair begins after the probes of the proposal"


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 12),
    st.sampled_from(["pool", "equal"]),
    st.lists(st.tuples(st.sampled_from(["reserve", "refund", "begin"]), st.integers(-1, 3), st.integers(0, 4))),
)
def test_units_spent_never_exceed_the_pool_in_any_order_of_calls(
    units: int, share: str, calls: list[tuple[str, int, int]]
) -> None:
    pool = ProbePool(units, episodes=3, clock=Clock(), share=share)  # type: ignore[arg-type]
    spent = dict.fromkeys(range(-1, 4), 0)
    for call, episode, amount in calls:
        if call == "reserve":
            left = pool.left(episode)
            refused = pool.reserve(episode, amount)
            assert bool(refused) == (amount > left)
            spent[episode] += 0 if refused else amount
        elif call == "refund" and amount <= spent[episode]:
            pool.refund(episode, amount)
            spent[episode] -= amount
        else:
            pool.begin(episode)
        assert pool.spent == sum(spent.values()) <= units
        if share == "equal":
            assert all(spent[number] <= units // 3 + (number < units % 3) for number in range(3))


def test_units_spent_never_exceed_the_pool_under_any_interleaving_of_threads() -> None:
    pool = ProbePool(50, episodes=4, clock=Clock())
    granted: list[int] = []
    over: list[int] = []
    barrier = threading.Barrier(4)

    def episode(number: int) -> None:
        barrier.wait()
        for turn in range(300):
            units = 1 + (turn + number) % 3
            if not pool.reserve(number, units):
                over.extend([pool.spent] if pool.spent > 50 else [])
                if turn % 2:
                    pool.refund(number, units)
                else:
                    granted.append(units)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=episode, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert over == []
    assert pool.spent == sum(granted) == 50
