"""Templates and their slots."""

from __future__ import annotations

import random

from heldout.worlds.questions.grammar import expand

WORDS = {
    "thing": ["{adjective} owl", "tent"],
    "adjective": ["old", "tiny"],
    "city": ["Lima", "Oslo"],
    "club": ["the Royal Tea Club"],
}


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
