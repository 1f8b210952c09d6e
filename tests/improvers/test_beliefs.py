"""Beta counts: what they say, how they move, and that a Markdown table loses nothing of them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heldout.improvers.beliefs import CLASS_TABLE, EDIT_TABLE, Beliefs, believed_classes, wrong_beliefs
from heldout.improvers.policy import Policy, read_policy

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
KEYS = st.tuples(WORDS | st.just("a|b\\|c\nd"), WORDS.filter(bool))
COUNTS = st.tuples(st.integers(1, 9_999_999), st.integers(1, 9_999_999))


def test_an_open_question_is_an_even_beta_and_each_count_moves_its_mean_as_by_hand() -> None:
    beliefs = Beliefs()
    assert (beliefs.parameters("s", "tests"), beliefs.mean("s", "tests")) == ((1, 1), 0.5)
    beliefs = beliefs.helped("s", "tests").helped("s", "tests").did_not("s", "tests")
    assert beliefs.parameters("s", "tests") == (3, 2)
    assert beliefs.mean("s", "tests") == pytest.approx(3 / 5)
    assert beliefs.mean("s", "tests", prior=2.0) == pytest.approx(5 / 7)
    assert beliefs.parameters("s", "shell") == (1, 1)


def test_draws_have_the_mean_and_the_variance_of_the_beta() -> None:
    beliefs = Beliefs({("s", "tests"): (3, 2)})
    rng = Random(0)
    draws = [beliefs.draw("s", "tests", rng, prior=1.0) for _ in range(4000)]
    mean = sum(draws) / len(draws)  # Beta(4, 2): mean 2/3, variance 4·2/(6²·7) = 0.0317
    assert mean == pytest.approx(2 / 3, abs=4 * (0.0317 / 4000) ** 0.5)
    assert sum((draw - mean) ** 2 for draw in draws) / len(draws) == pytest.approx(0.0317, rel=0.1)


@given(st.dictionaries(KEYS, COUNTS, max_size=6), st.dictionaries(KEYS, COUNTS, max_size=6), WORDS)
def test_both_tables_survive_a_round_trip_and_the_text_around_them_stays(
    classes: dict[tuple[str, str], tuple[int, int]], edits: dict[tuple[str, str], tuple[int, int]], words: str
) -> None:
    notes = f"{words}\n\n## Beliefs\n\nold rows\n\n## My own heading\n\nkept {words}.\n"
    for _ in range(2):  # writing again changes nothing more
        notes = Beliefs(classes).written(notes, CLASS_TABLE, limit_bytes=100_000)
        notes = Beliefs(edits).written(notes, EDIT_TABLE, limit_bytes=100_000)
        assert Beliefs.read(notes, CLASS_TABLE).counts == classes
        assert Beliefs.read(notes, EDIT_TABLE).counts == edits
    assert f"## My own heading\n\nkept {words}." in notes
    assert "old rows" not in notes


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    counts = Beliefs.read(f"## Beliefs\n{text}\n| s | tests | 2 | 1 |\n", CLASS_TABLE).counts
    assert counts.get(("s", "tests"), (2, 1)) == (2, 1)


@pytest.mark.parametrize(
    "row", ["| s | tests | 0 | 1 |", "| s | tests | -1 | 1 |", "| s | tests | x | 1 |", "| s | tests | 1 |", "s|t|2|1"]
)
def test_rows_that_are_no_counts_are_passed_over(row: str) -> None:
    assert Beliefs.read(f"## Beliefs\n{row}\n", CLASS_TABLE).counts == {}


def test_a_long_line_is_read_in_linear_time() -> None:
    assert Beliefs.read("## Beliefs\n|" + "a" * 200_000, CLASS_TABLE).counts == {}


def test_rows_with_the_fewest_counts_give_way_to_the_limit() -> None:
    counts = {(f"signature {number}", "tests"): (number, 1) for number in range(1, 101)}
    text = Beliefs(counts).written("", CLASS_TABLE, limit_bytes=1000)
    kept = Beliefs.read(text, CLASS_TABLE).counts
    assert len(text.encode()) <= 1000
    assert 10 < len(kept) < 100
    assert sorted(kept.values()) == [(number, 1) for number in range(101 - len(kept), 101)]


def test_what_is_believed_is_the_best_class_of_those_that_helped() -> None:
    notes = Beliefs(
        {
            ("clear", "tests"): (4, 1),
            ("clear", "shell"): (3, 1),
            ("tied", "tests"): (2, 1),
            ("tied", "shell"): (2, 1),
            ("only failures", "tests"): (1, 3),
            ("wrong", "shell"): (2, 1),
            ("mixed", "tests"): (2, 5),
            ("mixed", "shell"): (1, 2),
        }
    ).written("", CLASS_TABLE, limit_bytes=10_000)
    believed = believed_classes(notes)
    assert believed == {"clear": "tests", "wrong": "shell", "mixed": "tests"}
    assert wrong_beliefs(believed, lambda _: "tests") == (1, 3)
    assert wrong_beliefs(believed, {"clear": "tests"}.get) == (0, 1)
    assert wrong_beliefs(believed, lambda _: ("tests", "shell")) == (0, 3)


def test_the_policy_is_read_back_and_kept_in_its_ranges() -> None:
    policy = Policy(probes=5, canaries=2, edit_size=3)
    assert read_policy(policy.text(), Policy()) == policy
    assert read_policy("", policy) == policy
    assert read_policy("- probes: 99 units\n- edit_size: 0\n- canaries: many\n- graders: 0\n", policy) == Policy(
        24, 2, 1
    )
    assert policy.changed(edit_size=1, canaries=-5, probes=2) == Policy(7, 0, 3)
