"""Duplicates on texts worked out by hand, and against all pairs."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.tasks import DuplicatePair, Item, clusters, find_duplicates, normalise_text


def items(*texts: str) -> list[Item]:
    return [Item(id=f"i{number}", input=text, reference="r") for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("What's  the\tTIME ?", "whats the time"),
        ("celebrities ' real names", "celebrities real names"),
        ("Top-up: failed!", "top up failed"),
        ("ﬁne Straße", "fine strasse"),
        ("3 - 2", "3 - 2"),
        ("3.5 kg", "3.5 kg"),
        ("use C++", "use c++"),
        ("?!", "?!"),
        ("co\u00adop\u200beration", "cooperation"),
        ("कि, की?", "कि की"),
    ],
)
def test_normalise_text(text: str, normal: str) -> None:
    assert normalise_text(text) == normal


@pytest.mark.parametrize(("one", "other"), [("3 - 2", "3 + 2"), ("3 / 2", "3 * 2"), ("3.5", "35"), ("C", "C++")])
def test_signs_that_carry_meaning_keep_texts_apart(one: str, other: str) -> None:
    assert normalise_text(one) != normalise_text(other)


def test_copies_are_paired_with_the_first() -> None:
    found = find_duplicates(items("Who is it?", "something else entirely", "who is it", "WHO IS IT !"))
    assert found == (DuplicatePair("i0", "i2", 1.0, True), DuplicatePair("i0", "i3", 1.0, True))


def test_similarity_is_jaccard_of_character_5_grams() -> None:
    # 16 and 17 characters: 12 and 13 five-grams, 12 shared, so 12 / 13.
    (found,) = find_duplicates(items("abcdefghijklmnop", "abcdefghijklmnopq"))
    assert found == DuplicatePair("i0", "i1", 12 / 13, False)
    assert find_duplicates(items("abcdefghijklmnop", "abcdefghijklmnopq"), threshold=0.93) == ()


def test_chains_form_one_cluster() -> None:
    apart = [DuplicatePair("a", "b", 1.0, True), DuplicatePair("c", "d", 1.0, True)]
    assert clusters(apart) == (("a", "b"), ("c", "d"))
    assert clusters([*apart, DuplicatePair("b", "c", 0.8, False)]) == (("a", "b", "c", "d"),)
    assert clusters([]) == ()


def all_pairs(texts: list[str], threshold: float) -> set[tuple[str, str]]:
    grams = {text: {text[i : i + 5] for i in range(max(1, len(text) - 4))} for text in texts}
    return {
        (a, b)
        for a, b in combinations(texts, 2)
        if len(grams[a] & grams[b]) / len(grams[a] | grams[b]) >= threshold - 1e-12
    }


@settings(deadline=None, max_examples=60)
@given(
    texts=st.lists(st.text(alphabet="ab", min_size=1, max_size=24), unique=True, min_size=2, max_size=25),
    threshold=st.sampled_from([0.3, 0.5, 0.7, 0.8, 0.9, 1.0]),
)
def test_prefix_filtering_misses_no_pair(texts: list[str], threshold: float) -> None:
    rows = items(*texts)
    found = {(rows[int(p.a[1:])].input, rows[int(p.b[1:])].input) for p in find_duplicates(rows, threshold=threshold)}
    assert found == all_pairs(texts, threshold)


@pytest.mark.slow
def test_thirteen_thousand_rows_take_seconds() -> None:
    rows = items(
        *(f"message number {n} about card {n * 7919 % 10007} and account {n * 31 % 977}" for n in range(13000))
    )
    started = time.perf_counter()
    find_duplicates(rows)
    assert time.perf_counter() - started < 10.0
