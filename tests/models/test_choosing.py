"""Log-probabilities of choices from first tokens, worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.models.choosing import ABSENT, choice_logprobs, log_sum


def test_sums_the_spellings_of_a_beginning() -> None:
    tokens = {" person": math.log(0.2), "Person": math.log(0.1), " Per": math.log(0.05), "\u0120PERSON": math.log(0.05)}
    assert choice_logprobs(["person"], tokens)["person"] == pytest.approx(math.log(0.4))


def test_absent_is_written_as_minus_100() -> None:
    assert choice_logprobs(["number", "person"], {" person": -0.5}) == {"number": -100.0, "person": -0.5}


def test_a_single_letter_counts_only_as_the_whole_choice() -> None:
    found = choice_logprobs(["abbreviation", "A", "10"], {" a": -1.0, "1": -2.0})
    assert found == {"abbreviation": ABSENT, "A": -1.0, "10": -2.0}


def test_empty_and_longer_tokens_begin_nothing() -> None:
    assert choice_logprobs(["num"], {" ": -0.1, "": -0.1, "number": -0.1}) == {"num": ABSENT}


def test_a_shared_beginning_counts_for_each() -> None:
    assert choice_logprobs(["person", "perhaps"], {" per": -1.0}) == {"person": -1.0, "perhaps": -1.0}


@given(st.lists(st.floats(min_value=-90.0, max_value=-3.0), min_size=1, max_size=15))
def test_log_sum_is_at_least_the_largest_and_order_matters_little(values: list[float]) -> None:
    assert max(values) <= log_sum(values) <= 0.0
    assert log_sum(values) == pytest.approx(log_sum(reversed(values)))
    assert math.exp(log_sum(values)) == pytest.approx(sum(map(math.exp, values)))


def test_log_sum_of_nothing_or_of_impossible_tokens_is_absent() -> None:
    assert log_sum([]) == log_sum([-math.inf, -200.0]) == ABSENT
