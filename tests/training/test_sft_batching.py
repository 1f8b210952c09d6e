"""Order, packing and shares of the data, and how rows become tensors."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_parents import config, counting, tiny_tokenizer

from heldout.errors import SetupError
from heldout.training.batching import collate, shard, steps_of
from heldout.training.encoding import IGNORED, Encoded, EncodedData, encode_all
from heldout.training.packing import OPEN_ROWS, first_fit

DATA = encode_all(counting(10), tiny_tokenizer(), config())


def one(*ids: int, prompt: int = 1) -> Encoded:
    return Encoded(ids=ids, labels=(IGNORED,) * prompt + ids[prompt:], prompt_length=prompt)


def test_each_pass_sees_every_example_once_in_an_order_of_its_own() -> None:
    steps = list(islice(steps_of(DATA, config(batch=4), seed=3), 5))
    seen = [index for step in steps for row in step.places for index in row]
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]


def test_the_order_follows_from_the_seed() -> None:
    first, again, other = (
        [step.places for step in islice(steps_of(DATA, config(), seed=seed), 4)] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_batch_larger_than_the_data_goes_through_it_again() -> None:
    step = next(steps_of(DATA, config(batch=25), seed=0))
    assert len(step.rows) == 25
    assert set(Counter(index for row in step.places for index in row).values()) == {2, 3}


def test_a_batch_that_leaves_a_process_without_rows_is_refused() -> None:
    with pytest.raises(SetupError, match=r"train.batch = 3 sequences do not fill"):
        next(steps_of(DATA, config(batch=3, accumulate=2, processes=2), seed=0))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))
def test_micro_batches_and_processes_share_every_row_once(accumulate: int, processes: int, more: int) -> None:
    settings = config(batch=accumulate * processes + more, accumulate=accumulate, processes=processes)
    step = next(steps_of(DATA, settings, seed=0))
    shares = [shard(step, micro, process, settings) for micro in range(accumulate) for process in range(processes)]
    assert all(shares)
    assert Counter(row for share in shares for row in share) == Counter(step.rows)


@given(st.lists(st.integers(1, 10), min_size=1, max_size=200))
def test_packing_keeps_every_example_once_and_no_row_too_long(lengths: list[int]) -> None:
    rows = first_fit(range(len(lengths)), lengths, 10)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    assert all(sum(lengths[index] for index in row) <= 10 for row in rows)


def test_packing_fills_the_first_open_row_that_has_room() -> None:
    assert first_fit(range(5), [6, 7, 4, 3, 1], 10) == [(0, 2), (1, 3), (4,)]
    # Row 0 is closed by the time that something fits into it.
    lengths = [9] + [10] * OPEN_ROWS + [1]
    assert first_fit(range(len(lengths)), lengths, 10)[-1] == (OPEN_ROWS + 1,)


def test_packed_rows_count_as_sequences_of_a_step() -> None:
    step = next(steps_of(DATA, config(packing=True, batch=2, max_length=64), seed=0))
    assert len(step.rows) == 2
    assert len(step.examples) > 2


def test_a_row_of_two_examples_restarts_its_positions_and_predicts_nothing_across() -> None:
    batch = collate([(one(11, 12, 13), one(21, 22)), (one(31, 32),)])
    assert batch.ids.tolist() == [[11, 12, 13, 21, 22], [31, 32, 0, 0, 0]]
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1], [0, 1, 2, 3, 4]]
    assert batch.labels.tolist() == [[IGNORED, 12, 13, IGNORED, 22], [IGNORED, 32, IGNORED, IGNORED, IGNORED]]


def test_the_first_token_of_an_example_is_never_a_label() -> None:
    whole = one(1, 2, prompt=0)
    assert whole.labels == (1, 2)
    assert whole.trained_tokens == 1
    assert collate([(whole, whole)]).labels.tolist() == [[IGNORED, 2, IGNORED, 2]]


def test_a_step_counts_its_tokens_without_padding() -> None:
    data = EncodedData(sequences=(one(1, 2, 3), one(4, 5, prompt=2)), dropped=0)
    step = next(steps_of(data, config(batch=2), seed=0))
    assert (step.tokens, step.trained_tokens) == (5, 2)
