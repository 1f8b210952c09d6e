"""The tokenizer of pocket models: a unigram vocabulary over bytes, and the chat template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heldout.errors import need

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["SPECIAL", "TEMPLATE", "pieces_of", "pocket_tokenizer"]

SPECIAL = ("<pad>", "<system>", "<user>", "<assistant>", "<end>")

TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] not in ('system', 'user', 'assistant') -%}"
    "{{ raise_exception('no turn of the role ' + message['role']) }}"
    "{%- endif -%}"
    "{{ '<' + message['role'] + '>' + message['content'] }}"
    "{%- if message['role'] == 'assistant' -%}{{ eos_token }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<assistant>' }}{%- endif -%}"
)
"""Chat template: `<user>…<assistant>…<end>`, with a system turn before it where there is one."""

_PIECE, _BYTE = -1.0, -16.0
"""Scores: one byte costs more than any number of pieces that could replace it."""

_WORD = re.compile(r" ?[^\W\d_]+")


def pieces_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The words of some texts with the space before them, each once, in order of appearance."""
    return tuple(dict.fromkeys(word for text in texts for word in _WORD.findall(text) if len(word) > 1))


def pocket_tokenizer(pieces: Sequence[str], *, longest: int) -> PreTrainedTokenizerFast:
    """A tokenizer that knows these pieces and every byte, so that any text comes back exactly.

    A text is cut into as few tokens as possible (Kudo 2018, arXiv 1804.10959, with two scores); digits stand alone.
    """
    need("transformers", extra="train")
    from tokenizers import AddedToken, Tokenizer, decoders
    from tokenizers.models import Unigram
    from tokenizers.pre_tokenizers import ByteLevel, Digits
    from tokenizers.pre_tokenizers import Sequence as Chain
    from transformers import PreTrainedTokenizerFast

    as_bytes = ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(ByteLevel.alphabet())
    known = [as_bytes.pre_tokenize_str(piece)[0][0] for piece in dict.fromkeys(pieces)]
    vocabulary = [(name, 0.0) for name in SPECIAL]
    vocabulary += [(byte, _BYTE) for byte in alphabet]
    vocabulary += [(piece, _PIECE) for piece in known if piece not in set(alphabet)]
    tokenizer = Tokenizer(Unigram(vocabulary))
    tokenizer.pre_tokenizer = Chain([Digits(individual_digits=True), as_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<end>",
        pad_token="<pad>",
        additional_special_tokens=[name for name in SPECIAL if name not in ("<end>", "<pad>")],
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=longest,
    )
