"""Examples as token ids with a label mask, through the chat template that evaluation uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from heldout.errors import SetupError, boundary
from heldout.training.examples import Example
from heldout.training.settings import TrainConfig

__all__ = [
    "IGNORED",
    "ChatTokenizer",
    "Encoded",
    "EncodedData",
    "check_labels",
    "encode",
    "encode_all",
    "encode_prompt",
    "end_texts",
]

IGNORED = -100
"""Label of a token that no loss is taken on, as `torch` and `transformers` have it."""


class ChatTokenizer(Protocol):
    """What is used of a tokenizer of `transformers`."""

    @property
    def eos_token(self) -> str | None:
        """Text of the tokenizer's end token; an assistant's turn may end with another one that the checkpoint lists."""

    @property
    def eos_token_id(self) -> int | None:
        """Its id."""

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, chat_template: str | None, **options: Any
    ) -> Any:
        """The conversation as one text (`tokenize=False`)."""

    def __call__(self, text: str, *, add_special_tokens: bool) -> Mapping[str, Any]:
        """`input_ids` and more of a text."""

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """The text of some tokens."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sequence to train on. `labels[i]` is `ids[i]`, or `IGNORED` where no loss is taken on token i."""

    ids: tuple[int, ...]
    labels: tuple[int, ...]
    prompt_length: int
    """Tokens that evaluation sends before the model answers; all of them are `IGNORED`."""

    @property
    def trained_tokens(self) -> int:
        """Tokens that loss is taken on; the first one of a sequence has nothing that predicts it."""
        return sum(label != IGNORED for label in self.labels[1:])


@dataclass(frozen=True, slots=True)
class EncodedData:
    """What a training sees of its examples."""

    sequences: tuple[Encoded, ...]
    """In the order of the examples, without those that were dropped."""
    dropped: int
    """Examples longer than `max_length`."""


def encode(
    example: Example, tokenizer: ChatTokenizer, config: TrainConfig, *, end_ids: Collection[int] = ()
) -> Encoded:
    """The example's turns as token ids; loss is taken on the completion and its end token alone.

    The prompt is what evaluation sends, token for token. The end token is the first one after the completion at which
    evaluation stops: the tokenizer's own, or one of `end_ids`. Whatever the template writes after it is left out.
    Without `config.end_token`, or where the template writes none, the last id is the completion's. Nothing is cut at
    `max_length`. `SetupError` where the template does not render, or rewrites the prompt once there is an answer.
    """
    prompt, target = _rendered(example, tokenizer, config, end_texts(tokenizer, end_ids))
    prompt_ids, ids = _ids(prompt, tokenizer), _ids(prompt + target, tokenizer)
    if ids[: len(prompt_ids)] != prompt_ids:
        # A merge across the border; in evaluation the answer begins after a finished prompt.
        ids = (*prompt_ids, *_ids(target, tokenizer))
    start = len(prompt_ids)
    return Encoded(ids=ids, labels=(*(IGNORED,) * start, *ids[start:]), prompt_length=start)


def encode_prompt(example: Example, tokenizer: ChatTokenizer, template: str | None = None) -> tuple[int, ...]:
    """The tokens that evaluation sends for the example's turns, with the tokenizer's own template or another one."""
    return _ids(_render(example.context, tokenizer, template, answer=True), tokenizer)


def encode_all(
    examples: Iterable[Example],
    tokenizer: ChatTokenizer,
    config: TrainConfig,
    *,
    end_ids: Collection[int] = (),
    endless: bool = False,
) -> EncodedData:
    """Every example, as `encode` has it; those longer than `config.max_length` are dropped and counted.

    `SetupError` where nothing is left, where no token of all that is left has a label, or where an answer does not end
    with a token at which evaluation stops although `config.end_token` wants it taught and `endless` is not asked for.
    """
    encoded = [encode(example, tokenizer, config, end_ids=end_ids) for example in examples]
    if not encoded:
        raise SetupError("the data set is empty: there is nothing to train on")
    kept = tuple(one for one in encoded if len(one.ids) <= config.max_length)
    if not kept:
        shortest = min(len(one.ids) for one in encoded)
        raise SetupError(
            f"all {len(encoded)} examples are longer than train.max_length = {config.max_length} tokens; "
            f"the shortest has {shortest}"
        )
    check_labels(kept)
    if config.end_token and not endless:
        _check_ends(kept, tokenizer, end_ids)
    return EncodedData(sequences=kept, dropped=len(encoded) - len(kept))


def check_labels(sequences: Sequence[Encoded]) -> None:
    """`SetupError` where all labels are masked."""
    if not any(one.trained_tokens for one in sequences):
        raise SetupError(
            f"all labels of the {len(sequences)} examples are masked: no completion has a token to take loss on"
        )


def _check_ends(sequences: Sequence[Encoded], tokenizer: ChatTokenizer, end_ids: Collection[int]) -> None:
    """`SetupError` where a training would not teach the model to stop."""
    ends = {*end_ids, tokenizer.eos_token_id} - {None}
    endless = sum(not ends.intersection(one.ids[-1:]) for one in sequences)
    if not endless:
        return
    if not ends:
        fault = "has no end token (eos_token in tokenizer_config.json, eos_token_id in generation_config.json)"
    else:
        names = " or ".join(map(repr, end_texts(tokenizer, end_ids)))
        fault = f"writes no end token ({names}) after {endless} of {len(sequences)} answers"
    raise SetupError(
        f"the checkpoint's chat template {fault}, and a model that is trained so would not learn to stop: mend it, or "
        "set end_token = false"
    )


def end_texts(tokenizer: ChatTokenizer, end_ids: Collection[int]) -> tuple[str, ...]:
    """Texts of the tokens that end a turn: the tokenizer's own, then the others of `end_ids`."""
    others = sorted(set(end_ids) - {tokenizer.eos_token_id})
    with boundary(SetupError, f"the end tokens {others} that the checkpoint lists cannot be decoded"):
        listed = [
            tokenizer.decode([one], skip_special_tokens=False, clean_up_tokenization_spaces=False) for one in others
        ]
    return tuple(text for text in (tokenizer.eos_token, *listed) if text)


def _rendered(example: Example, tokenizer: ChatTokenizer, config: TrainConfig, ends: Sequence[str]) -> tuple[str, str]:
    """Text of the prompt, and of what the model should write after it."""
    prompt = _render(example.context, tokenizer, config.template, answer=True)
    whole = _render(example.conversation, tokenizer, config.template, answer=False)
    if not whole.startswith(prompt):
        raise SetupError(
            f"the chat template cannot be trained with: the prompt that evaluation sends, {prompt[-60:]!r}, "
            f"is not the beginning of the whole conversation, {whole[:120]!r}"
        )
    return prompt, _up_to_end(whole[len(prompt) :], example.completion, ends, end_token=config.end_token)


def _up_to_end(written: str, completion: str, ends: Sequence[str], *, end_token: bool) -> str:
    """The assistant's turn until the first of its end tokens, with or without it."""
    # Templates may trim an answer; the search begins behind it, since its text may hold the end token's.
    said = next((text for text in (completion, completion.strip()) if text and written.startswith(text)), "")
    found = [(place, end) for end in ends if (place := written.find(end, len(said))) >= 0]
    if not found:
        return written if end_token else said or written
    # Of two that begin at one place, such as a line break and two of them, the tokenizer reads the longer one.
    place, end = min(found, key=lambda one: (one[0], -len(one[1])))
    return written[: place + len(end)] if end_token else written[:place]


def _render(turns: list[dict[str, str]], tokenizer: ChatTokenizer, template: str | None, *, answer: bool) -> str:
    with boundary(SetupError, "the chat template does not render"):
        return str(
            tokenizer.apply_chat_template(turns, chat_template=template, tokenize=False, add_generation_prompt=answer)
        )


def _ids(text: str, tokenizer: ChatTokenizer) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
