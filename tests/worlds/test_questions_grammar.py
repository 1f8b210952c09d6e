"""Templates, and dropping questions that are too alike."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from heldout.worlds.questions.grammar import expand
from heldout.worlds.questions.near_duplicates import distinct

WORDS = {
    "thing": ["{adjective} owl", "tent"],
    "adjective": ["old", "tiny"],
    "city": ["Lima", "Oslo"],
    "club": ["the Royal Tea Club"],
}


def jaccard(one: str, other: str) -> float:
    a, b = ({text[i : i + 5] for i in range(max(1, len(text) - 4))} for text in (one, other))
    return len(a & b) / len(a | b)


def test_slots_nest_and_articles_are_mended() -> None:
    drawn = {expand("A {thing} sees a {thing}.", WORDS, rng=random.Random(seed)) for seed in range(40)}
    assert "An old owl sees a tent." in drawn
    assert "A tent sees an old owl." in drawn


def test_two_draws_of_one_list_differ() -> None:
    drawn = {expand("from {city} to {city}", WORDS, rng=random.Random(seed)) for seed in range(40)}
    assert drawn == {"from Lima to Oslo", "from Oslo to Lima"}


def test_initials_and_capitals() -> None:
    assert expand("{club|initials}", WORDS, rng=random.Random(0)) == "RTC"
    assert expand("{club|capital} met.", WORDS, rng=random.Random(0)) == "The Royal Tea Club met."


def test_a_hand_made_near_duplicate_is_dropped_and_the_earlier_one_stays() -> None:
    # "abcdefghij" has 6 five-grams, "abcdefghijk" has the same and one more: 6/7 = 0.857.
    texts = ["abcdefghij", "abcdefghijk", "ABCDEFGHIJ", "zzzzzyyyyy"]
    assert distinct(texts, similarity=0.86) == [0, 1, 3]
    assert distinct(texts, similarity=0.85) == [0, 3]


@given(st.lists(st.text(alphabet="ab c", min_size=1, max_size=14), max_size=25), st.sampled_from([0.5, 0.75, 0.9]))
def test_what_stays_is_distinct_and_what_goes_has_a_reason(texts: list[str], similarity: float) -> None:
    kept = distinct(texts, similarity=similarity)
    for place, index in enumerate(kept):
        assert all(jaccard(texts[index], texts[earlier]) <= similarity for earlier in kept[:place])
    for index in set(range(len(texts))) - set(kept):
        assert any(jaccard(texts[index], texts[other]) > similarity for other in kept if other < index)
