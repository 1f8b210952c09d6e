"""The tokenizer of a checkpoint folder, for checks; weights of a simulation have a plain one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from heldout.errors import SetupError, boundary, need
from heldout.models.checkpoint_files import adapted
from heldout.training.encoding import ChatTokenizer
from heldout.training.pocket_tokenizer import SPECIAL, TEMPLATE

__all__ = ["CheckedTokenizer", "PlainTokenizer", "end_ids_of", "tokenizer_folder", "tokenizer_of"]

_GENERATION_FILES = ("generation_config.json", "config.json")
"""Where a checkpoint lists its end tokens; as in `transformers`, the second says it where the first is not there."""

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")


class CheckedTokenizer(ChatTokenizer, Protocol):
    """What the preflight asks of a tokenizer, beside what training does."""

    chat_template: Any
    all_special_tokens: Any
    """Texts of the tokens that no answer may hold."""


class PlainTokenizer:
    """One id for each sign, and one for each special token of pocket models, with their chat template."""

    eos_token = "<end>"
    chat_template = TEMPLATE
    all_special_tokens = SPECIAL

    def __init__(self) -> None:
        self._first = 0x110000  # after the last sign of Unicode
        self._ids = {name: self._first + place for place, name in enumerate(SPECIAL)}
        self._pieces = re.compile("|".join([*map(re.escape, SPECIAL), "."]), re.DOTALL)
        self.eos_token_id = self._ids[self.eos_token]

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, chat_template: str | None = None, **options: Any
    ) -> str:
        """The conversation as one text, rendered as `transformers` does it."""
        return _compiled(chat_template or self.chat_template).render(
            messages=conversation,
            add_generation_prompt=options.get("add_generation_prompt", False),
            eos_token=self.eos_token,
            raise_exception=_refuse,
        )

    def __call__(self, text: str, *, add_special_tokens: bool = False) -> dict[str, list[int]]:
        """`input_ids` of a text."""
        del add_special_tokens  # There are none but those that the text names.
        pieces = self._pieces.findall(text)
        return {"input_ids": [self._ids[piece] if piece in self._ids else ord(piece) for piece in pieces]}

    def decode(
        self, ids: Sequence[int], *, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> str:
        """The text of some ids."""
        del clean_up_tokenization_spaces
        special = "" if skip_special_tokens else None
        return "".join(
            chr(one) if one < self._first else SPECIAL[one - self._first] if special is None else special for one in ids
        )


def tokenizer_folder(folder: Path) -> Path:
    """Where the tokenizer of weights lies: their own folder, or for adapters, which have none, what they adapt.

    Adapters find their base beside themselves, by its digest, as a weights store keeps both; else `SetupError`.
    """
    seen: set[Path] = set()
    while not _has_tokenizer(folder) and (base := adapted(folder)) is not None:
        seen.add(folder)
        folder = folder.parent / base
        if folder in seen or not folder.is_dir():
            raise SetupError(f"no tokenizer for the adapters: the weights {base[:12]!r} that they adapt are not there")
    return folder


def tokenizer_of(folder: Path) -> CheckedTokenizer:
    """The tokenizer of weights; a plain one where there is none, as for the weights of a simulation.

    `SetupError` where it cannot be loaded, or has no chat template.
    """
    folder = tokenizer_folder(folder)
    if not _has_tokenizer(folder):
        if any(folder.glob("*.safetensors")):
            raise SetupError(f"the checkpoint {str(folder)!r} has no tokenizer.json; save its tokenizer beside it")
        return PlainTokenizer()
    transformers = need("transformers", extra="train")
    with boundary(SetupError, f"the tokenizer in {str(folder)!r} cannot be loaded"):
        tokenizer: CheckedTokenizer = transformers.AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    if not tokenizer.chat_template:
        raise SetupError(
            f"the tokenizer in {str(folder)!r} has no chat template; training and evaluation need one: put it into "
            "chat_template.jinja in that folder"
        )
    return tokenizer


def end_ids_of(folder: Path, tokenizer: ChatTokenizer) -> frozenset[int]:
    """Ids at which generation stops: the tokenizer's end token, and those that the checkpoint lists."""
    listed = _listed_ends(tokenizer_folder(folder))
    return frozenset(listed if tokenizer.eos_token_id is None else (*listed, tokenizer.eos_token_id))


@lru_cache(maxsize=16)
def _compiled(template: str) -> Template:
    """Pure, remembered because every example needs it."""
    return ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(template)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _listed_ends(folder: Path) -> tuple[int, ...]:
    file = next((folder / name for name in _GENERATION_FILES if (folder / name).is_file()), None)
    if file is None:
        return ()
    with boundary(SetupError, f"the end tokens in {str(file)!r} cannot be read"):
        told = json.loads(file.read_text(encoding="utf-8"))
        # Of a model that reads more than text, the part that writes it has a config of its own.
        found = [one.get("eos_token_id") for one in (told, told.get("text_config") or {})]
        first = next((one for one in found if one is not None), ())
        return tuple(int(one) for one in (first if isinstance(first, list | tuple) else [first]))


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _TOKENIZER_FILES)
