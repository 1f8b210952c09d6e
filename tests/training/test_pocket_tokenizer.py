"""The tokenizer of pocket models: exact round trips, single digits, the chat template."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heldout.training.pocket_sizes import CONTEXT
from heldout.training.pocket_texts import vocabulary
from heldout.training.pocket_tokenizer import SPECIAL, pieces_of, pocket_tokenizer
from heldout.worlds.formats.generator import draw_task
from heldout.worlds.formats.wording import WORDS

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return pocket_tokenizer(vocabulary(), longest=CONTEXT)


def _back(tokenizer: Any, text: str) -> str:
    ids = tokenizer.encode(text, add_special_tokens=False)
    decoded: str = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return decoded


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a  b\t\n\r\n",
        "é ü 漢字 😀 \u200b\x00",
        "0123456789 ²½٣",
        "<end> in a text <user>",
        ", amber ,amber",
        "\u2028",
    ],
)
def test_any_text_comes_back_exactly(tokenizer: Any, text: str) -> None:
    assert _back(tokenizer, text) == text


@settings(max_examples=200, deadline=None)
@given(text=st.text())
def test_drawn_texts_come_back_exactly(tokenizer: Any, text: str) -> None:
    assert _back(tokenizer, text) == text


def test_tasks_and_answers_of_the_world_come_back_exactly_and_are_short(tokenizer: Any) -> None:
    rng = random.Random(3)
    for job in (draw_task(rng) for _ in range(200)):
        assert _back(tokenizer, job.text) == job.text
        assert _back(tokenizer, job.ideal) == job.ideal
        assert len(tokenizer.encode(job.text + job.ideal)) < 100


def test_a_word_of_a_list_is_one_token_with_its_comma_and_digits_stand_alone(tokenizer: Any) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("amber, BASKET; 174")) == [
        *("amber", ",ĠBASKET", ";Ġ", "1", "7", "4")
    ]
    assert all(len(tokenizer.encode(f"{word}, {word.upper()}")) == 2 for word in WORDS)


def test_the_chat_template_gives_the_turns_and_ends_the_assistants(tokenizer: Any) -> None:
    chat = [
        {"role": "system", "content": "S."},
        {"role": "user", "content": "Q?"},
        {"role": "assistant", "content": "A"},
    ]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "<system>S.<user>Q?<assistant>A<end>"
    asked = tokenizer.apply_chat_template(chat[:2], tokenize=False, add_generation_prompt=True)
    assert asked == "<system>S.<user>Q?<assistant>"


def test_the_chat_template_refuses_a_turn_that_the_model_does_not_know(tokenizer: Any) -> None:
    with pytest.raises(Exception, match="no turn of the role tool"):
        tokenizer.apply_chat_template([{"role": "tool", "content": "x"}], tokenize=False)


def test_special_tokens_are_one_id_each_and_the_end_is_the_eos(tokenizer: Any) -> None:
    assert [tokenizer.encode(name) for name in SPECIAL] == [[number] for number in range(len(SPECIAL))]
    assert tokenizer.eos_token == "<end>"
    assert tokenizer.pad_token == "<pad>"


def test_pieces_are_words_with_the_space_before_them_each_once() -> None:
    assert pieces_of(["Add the two, the 2 of a.", "Add the"]) == ("Add", " the", " two", " of", " a")


def test_pieces_that_are_known_already_or_are_single_bytes_are_there_once() -> None:
    small = pocket_tokenizer(["ab", "ab", "a"], longest=16)
    assert len(small) == len(SPECIAL) + 256 + 1
    assert small.model_max_length == 16
