"""Back-off sequences, worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from heldout.errors import ModelError
from heldout.models.retry import Backoff, Transient, retry_after_s


def failing(times: int, *, asked_s: float | None = None) -> Callable[[], str]:
    left = [times]

    def attempt() -> str:
        if left[0]:
            left[0] -= 1
            raise Transient("busy", retry_after_s=asked_s)
        return "done"

    return attempt


def test_waits_double_up_to_the_longest_and_jitter_is_the_seeds_own() -> None:
    slept: list[float] = []
    answered = Backoff(retries=5, first_s=1.0, longest_s=4.0, sleep=slept.append).run(failing(5), what="m", seed="s")
    draws = random.Random("s")
    assert slept == [full * (0.5 + 0.5 * draws.random()) for full in (1.0, 2.0, 4.0, 4.0, 4.0)]
    assert (answered.value, answered.calls) == ("done", 6)


def test_other_seeds_wait_otherwise_and_the_same_seed_the_same() -> None:
    def waits(seed: str) -> list[float]:
        slept: list[float] = []
        Backoff(retries=3, sleep=slept.append).run(failing(3), what="m", seed=seed)
        return slept

    assert waits("a") == waits("a") != waits("b")


def test_no_failure_no_wait() -> None:
    slept: list[float] = []
    assert Backoff(retries=3, sleep=slept.append).run(failing(0), what="m", seed="s").calls == 1
    assert slept == []


def test_gives_up_after_the_retries_without_a_last_wait() -> None:
    slept: list[float] = []
    with pytest.raises(ModelError, match=r"m: busy \(attempt 3 of 3"):
        Backoff(retries=2, sleep=slept.append).run(failing(99), what="m", seed="s")
    assert len(slept) == 2


def test_retry_after_lengthens_and_never_shortens() -> None:
    slept: list[float] = []
    Backoff(retries=1, first_s=1.0, sleep=slept.append).run(failing(1, asked_s=7.0), what="m", seed="s")
    Backoff(retries=1, first_s=10.0, sleep=slept.append).run(failing(1, asked_s=0.1), what="m", seed="s")
    assert slept[0] == 7.0
    assert 5.0 <= slept[1] < 10.0


def test_a_retry_after_beyond_patience_ends_it_at_once() -> None:
    slept: list[float] = []
    with pytest.raises(ModelError, match="asks to wait 3600 s"):
        Backoff(retries=4, sleep=slept.append).run(failing(9, asked_s=3600.0), what="m", seed="s")
    assert slept == []


def test_other_errors_are_not_retried() -> None:
    def broken() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Backoff(retries=4, sleep=lambda _: pytest.fail("slept")).run(broken, what="m", seed="s")


@pytest.mark.parametrize(
    ("value", "date", "expected"),
    [
        (None, None, None),
        ("3", None, 3.0),
        ("0.25", None, 0.25),
        ("-4", None, 0.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:28:30 GMT", None, None),
        ("soon", "Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_reads_retry_after(value: str | None, date: str | None, expected: float | None) -> None:
    assert retry_after_s(value, date=date) == expected
