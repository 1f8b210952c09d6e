"""What a checkpoint folder holds, read from its files alone: no tensor is loaded and no code of it is run."""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.errors import SetupError

__all__ = ["MERGE_FIRST", "TensorPlace", "adapted", "check_files", "read_header"]

MERGE_FIRST = "merge them first (peft: model.merge_and_unload().save_pretrained(FOLDER)), and name that folder"
"""How adapters become a checkpoint that a model can start from."""

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "adapter_model.bin", "model.bin")
_NAME = re.compile(r"[\w-]+")
"""A digest is a name, and no path that leads out of a store."""

_LENGTH = 8
"""Bytes in front of a safetensors header, which tell its length."""

_LONGEST_HEADER = 100_000_000
"""Bytes; the limit of the safetensors format."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """One tensor of a safetensors file."""

    dtype: str
    shape: tuple[int, ...]


def check_files(folder: Path) -> None:
    """`SetupError` that names the first file that is missing, damaged or refused.

    A full checkpoint needs config.json, safetensors and a tokenizer; adapters need adapter_config.json,
    adapter_model.safetensors and base.json.
    """
    if not folder.is_dir():
        raise SetupError(f"no checkpoint folder {str(folder)!r}; name one that transformers wrote, such as local:DIR")
    if adapted(folder) is not None:
        _check_adapters(folder)
        return
    if not (folder / "config.json").is_file():
        raise SetupError(f"{str(folder)!r} is no checkpoint: config.json is missing")
    config = _json_object(folder / "config.json")
    if "model_type" not in config:
        raise SetupError(f"{str(folder / 'config.json')!r} has no model_type, which says how the model is built")
    for file in _weight_files(folder):
        read_header(file)
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise SetupError(f"{str(folder)!r} has no tokenizer: one of {', '.join(_TOKENIZERS)} is needed")


def adapted(folder: Path) -> str | None:
    """Digest of the weights that the adapters in `folder` belong to; None for a full checkpoint.

    `SetupError` for adapters that do not say it.
    """
    if not (folder / "adapter_config.json").is_file():
        return None
    if not (folder / "base.json").is_file():
        raise SetupError(
            f"{str(folder)!r} holds adapters and no base.json, which says what they adapt; where they were trained "
            f"elsewhere, {MERGE_FIRST}"
        )
    base = _json_object(folder / "base.json").get("base")
    if not isinstance(base, str) or not _NAME.fullmatch(base):
        raise SetupError(f'{str(folder / "base.json")!r} names no base; expected {{"base": digest}}')
    return base


def read_header(file: Path) -> dict[str, TensorPlace]:
    """Names, dtypes and shapes of the tensors in a safetensors file; `SetupError` where it is damaged or cut off."""
    try:
        with file.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            length = struct.unpack("<Q", handle.read(_LENGTH))[0]
            if length > min(size - _LENGTH, _LONGEST_HEADER):
                raise SetupError(f"{str(file)!r} is cut off: its header alone is longer than the file")
            header: dict[str, Any] = json.loads(handle.read(length))
            header.pop("__metadata__", None)
            places = {
                name: TensorPlace(dtype=entry["dtype"], shape=tuple(entry["shape"])) for name, entry in header.items()
            }
            end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except OSError as cause:
        raise SetupError(f"cannot read the weights {str(file)!r}: {cause.strerror}") from cause
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, IndexError) as cause:
        raise SetupError(f"{str(file)!r} is no safetensors file, or is damaged") from cause
    if _LENGTH + length + end > size:
        raise SetupError(f"{str(file)!r} is cut off: {size} of {_LENGTH + length + end} bytes are there")
    return places


def _check_adapters(folder: Path) -> None:
    config = _json_object(folder / "adapter_config.json")
    if config.get("peft_type") != "LORA":
        raise SetupError(f"{str(folder)!r} holds adapters of type {config.get('peft_type')!r}; LORA is what is served")
    if not (folder / "adapter_model.safetensors").is_file():
        raise SetupError(f"{str(folder)!r}: adapter_model.safetensors is missing{_only_pickles(folder)}")
    read_header(folder / "adapter_model.safetensors")


def _weight_files(folder: Path) -> Iterator[Path]:
    """Every safetensors file of a full checkpoint; `SetupError` names one that is missing."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file():
        yield whole
        return
    if not index.is_file():
        raise SetupError(f"{str(folder)!r}: model.safetensors is missing{_only_pickles(folder)}")
    names = _json_object(index).get("weight_map")
    if not isinstance(names, Mapping) or not names:
        raise SetupError(f"{str(index)!r} has no weight_map, which says where each tensor lies")
    for name in sorted({str(name) for name in names.values()}):
        file = folder / name
        if Path(name).name != name or not file.is_file():
            raise SetupError(f"{str(folder)!r}: {name!r}, which its index names, is missing")
        yield file


def _only_pickles(folder: Path) -> str:
    found = [name for name in _PICKLES if (folder / name).is_file()]
    if not found:
        return ""
    return f"; {found[0]} is a pickle, which can run code and is never loaded: save it again as safetensors"


def _json_object(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_bytes())
    except OSError as cause:
        raise SetupError(f"cannot read {str(file)!r}: {cause.strerror}") from cause
    except ValueError as cause:
        raise SetupError(f"{str(file)!r} is not valid JSON: {cause}") from cause
    if not isinstance(told, dict):
        raise SetupError(f"{str(file)!r} holds no JSON object")
    return told
