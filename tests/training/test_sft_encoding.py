"""Examples as token ids: what is trained on, and what evaluation sends."""

from __future__ import annotations

import pytest
from tiny_parents import TEMPLATE, config, counting, example, tiny_tokenizer

from heldout.errors import SetupError
from heldout.training import Turn
from heldout.training.encoding import IGNORED, Encoded, encode, encode_all, encode_prompt

TOKENIZER = tiny_tokenizer()


def text(ids: tuple[int, ...]) -> str:
    return TOKENIZER.decode(list(ids))


def test_loss_is_taken_on_the_completion_and_its_end_token_and_on_nothing_else() -> None:
    encoded = encode(example("write a", "aa"), TOKENIZER, config())
    assert text(encoded.ids) == "<user>write a<assistant>aa<end>"
    trained = tuple(label for label in encoded.labels if label != IGNORED)
    assert text(trained) == "aa<end>"
    assert encoded.labels[: encoded.prompt_length] == (IGNORED,) * encoded.prompt_length
    assert encoded.labels[encoded.prompt_length :] == encoded.ids[encoded.prompt_length :]
    assert encoded.trained_tokens == 3


@pytest.mark.parametrize("system", ["", "Be brief."])
def test_the_prompt_is_what_evaluation_sends(system: str) -> None:
    turns = [{"role": "user", "content": "write a"}]
    sent = TOKENIZER.apply_chat_template(
        [{"role": "system", "content": system}, *turns] if system else turns, add_generation_prompt=True
    )["input_ids"]
    one = example("write a", "aa", system=system)
    encoded = encode(one, TOKENIZER, config())
    assert list(encoded.ids[: encoded.prompt_length]) == sent
    assert list(encode_prompt(one, TOKENIZER)) == sent


def test_of_an_episode_loss_is_taken_on_the_completed_turn_alone() -> None:
    turns = (Turn(role="assistant", content="look"), Turn(role="user", content="a door"))
    one = example("go on", "open", system="Be brief.").model_copy(update={"turns": turns})
    encoded = encode(one, TOKENIZER, config())
    assert text(encoded.ids) == "<system>Be brief.<user>go on<assistant>look<end><user>a door<assistant>open<end>"
    assert text(tuple(label for label in encoded.labels if label != IGNORED)) == "open<end>"
    sent = TOKENIZER.apply_chat_template(one.context, add_generation_prompt=True)["input_ids"]
    assert list(encode_prompt(one, TOKENIZER)) == sent == list(encoded.ids[: encoded.prompt_length])


def test_a_blank_system_text_is_no_turn_as_in_the_harness() -> None:
    assert encode(example("a", "b", system=" \n"), TOKENIZER, config()) == encode(
        example("a", "b"), TOKENIZER, config()
    )


def test_without_end_token_the_last_label_is_the_completions() -> None:
    encoded = encode(example("write a", "aa"), TOKENIZER, config(end_token=False))
    assert text(encoded.ids) == "<user>write a<assistant>aa"


def test_a_template_that_writes_no_end_token_teaches_none() -> None:
    encoded = encode(example("x", "aa"), TOKENIZER, config(template=TEMPLATE.replace("<end>", "")))
    assert text(encoded.ids) == "<user>x<assistant>aa"
    assert TOKENIZER.eos_token_id not in encoded.labels


def test_what_the_template_writes_after_the_end_token_is_left_out() -> None:
    encoded = encode(example("x", "aa"), TOKENIZER, config(template=TEMPLATE.replace("<end>", "<end>\n")))
    assert text(encoded.ids) == "<user>x<assistant>aa<end>"


def test_an_end_token_within_the_completion_does_not_cut_it() -> None:
    encoded = encode(example("x", "a<end>b"), TOKENIZER, config())
    assert text(encoded.ids) == "<user>x<assistant>a<end>b<end>"


def test_a_template_that_trims_the_answer_is_followed() -> None:
    template = TEMPLATE.replace("message['content']", "(message['content'] | trim)")
    assert text(encode(example("x", " aa \n"), TOKENIZER, config(template=template)).ids) == "<user>x<assistant>aa<end>"
    bare = encode(example("x", " aa \n"), TOKENIZER, config(template=template, end_token=False))
    assert text(bare.ids) == "<user>x<assistant>aa"


def test_another_template_replaces_the_tokenizers_own() -> None:
    template = TEMPLATE.replace("<assistant>", "<assistant>\n")
    with pytest.raises(SetupError, match="is not the beginning of the whole conversation"):
        encode(example("x", "aa"), TOKENIZER, config(template=template))
    wrong = (
        "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{% if m['role'] == 'assistant' %}<end>{% endif %}"
    )
    wrong += "|{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
    encoded = encode(example("x", "aa"), TOKENIZER, config(template=wrong))
    assert text(encoded.ids) == "user: x|assistant: aa<end>"
    assert text(encoded.ids[: encoded.prompt_length]) == "user: x|assistant: "


def test_a_template_that_does_not_render_is_told() -> None:
    with pytest.raises(SetupError, match="the chat template does not render: TemplateSyntaxError"):
        encode(example("x", "aa"), TOKENIZER, config(template="{% for %}"))
    with pytest.raises(SetupError, match="the chat template does not render: ValueError"):
        encode(example("x", "aa"), tiny_tokenizer(None), config())


def test_tokens_that_merge_over_the_border_leave_the_prompt_as_evaluation_sends_it() -> None:
    class Merging:
        """Ids by length of the run of equal signs, so that `aa` is one token."""

        eos_token = "!"
        eos_token_id = 1001

        def apply_chat_template(self, conversation, *, chat_template, **options):
            del chat_template, options
            return "".join(turn["content"] for turn in conversation) + ("!" if len(conversation) > 1 else "")

        def __call__(self, text, *, add_special_tokens):
            assert not add_special_tokens
            runs = [text[:1]]
            for sign in text[1:]:
                runs[-1:] = [runs[-1] + sign] if runs[-1][-1] == sign else [runs[-1], sign]
            return {"input_ids": [len(run) * 1000 + ord(run[0]) for run in runs]}

    encoded = encode(example("ba", "ac"), Merging(), config())
    b, a, c, end = 1000 + ord("b"), 1000 + ord("a"), 1000 + ord("c"), 1000 + ord("!")
    assert encoded == Encoded(ids=(b, a, a, c, end), labels=(IGNORED, IGNORED, a, c, end), prompt_length=2)


def test_an_example_longer_than_the_limit_is_dropped_and_counted_never_cut() -> None:
    long, short = example("x", "a" * 60), example("x", "a")
    data = encode_all([long, short], TOKENIZER, config(max_length=32))
    assert [text(one.ids) for one in data.sequences] == ["<user>x<assistant>a<end>"]
    assert data.dropped == 1


def test_an_empty_data_set_is_told() -> None:
    with pytest.raises(SetupError, match="the data set is empty"):
        encode_all([], TOKENIZER, config())
    with pytest.raises(SetupError, match=r"all 24 .* train.max_length = 8 tokens; the shortest has"):
        encode_all(counting(), TOKENIZER, config(max_length=8))


def test_data_with_all_labels_masked_is_told() -> None:
    with pytest.raises(SetupError, match="all labels of the 2 examples are masked"):
        encode_all([example("x", ""), example("y", "")], TOKENIZER, config(end_token=False))
