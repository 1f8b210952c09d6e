"""Loading a checkpoint folder for evaluation: full weights, or adapters merged into their base."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from heldout.errors import SetupError, boundary, need
from heldout.models.checkpoint_files import adapted, check_files, read_header

__all__ = ["Checkpoint", "Dtype", "load_checkpoint", "quiet", "save_checkpoint"]

Dtype = Literal["auto", "float32", "bfloat16", "float16"]

_DEPTH = 16
"""Longest chain of adapters upon adapters."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded model with its tokenizer, ready to be evaluated."""

    model: Any
    """A causal language model of `transformers`, in evaluation mode."""
    tokenizer: Any
    end_ids: frozenset[int]
    """Tokens that end a reply: those of the generation config, and the tokenizer's own."""
    pad_id: int
    context: int
    """Longest prompt and reply together, in tokens."""
    device: str


def load_checkpoint(
    folder: Path, *, dtype: Dtype = "auto", device: str = "cpu", bases: Callable[[str], Path] | None = None
) -> Checkpoint:
    """Load and check the weights in `folder`; `bases` finds the folder of what adapters belong to, by digest.

    Adapters are merged in float32 and cast afterwards, so that small updates are not rounded away. `SetupError` names
    the file, tensor or setting that is missing. Only safetensors are read, and no code that lies beside them is run.
    On the CPU torch gets one thread: two that wait for each other on a busy machine were over ten times slower.
    """
    need("torch", extra="train")
    need("transformers", extra="train")
    chain = _chain(folder, bases)
    place = _device(device)
    if place == "cpu":
        _one_thread()
    with quiet(), boundary(SetupError, f"cannot load the checkpoint {str(folder)!r}"):
        model = _full_model(chain[-1], "float32" if len(chain) > 1 else _dtype(dtype, place))
        for adapters in reversed(chain[:-1]):
            model = _merged(model, adapters)
        model = model.to(device=place, dtype=_torch_dtype(_dtype(dtype, place))).eval()
        tokenizer = _tokenizer(next(one for one in chain if _has_tokenizer(one) or one == chain[-1]))
    return _checked(model, tokenizer, folder, place)


def save_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    """Write weights, configs, tokenizer and chat template as `transformers` lays them out. `SetupError` for adapters,
    whose folder would not say what they adapt."""
    if callable(getattr(checkpoint.model, "get_base_model", None)):
        raise SetupError(
            "the model is one with adapters: write them with heldout.training.loading.write_weights, which notes the "
            "weights that they adapt, or merge them first (merge_and_unload)"
        )
    with quiet():
        checkpoint.model.save_pretrained(folder)
        checkpoint.tokenizer.save_pretrained(folder)


def _chain(folder: Path, bases: Callable[[str], Path] | None) -> list[Path]:
    """The folder, and of adapters what they adapt, down to full weights; every one of them is checked."""
    chain = [folder]
    check_files(folder)
    while (base := adapted(chain[-1])) is not None:
        if bases is None:
            raise SetupError(f"{str(chain[-1])!r} holds adapters of {base[:12]!r}, whose folder is not known")
        if len(chain) > _DEPTH:
            raise SetupError(f"{str(folder)!r} adapts more than {_DEPTH} weights in a row")
        chain.append(bases(base))
        check_files(chain[-1])
    return chain


def _full_model(folder: Path, dtype: str) -> Any:
    """The model of a full checkpoint, each of whose tensors was in the file."""
    import transformers

    kind = json.loads((folder / "config.json").read_bytes())
    if kind["model_type"] not in transformers.CONFIG_MAPPING:
        own = " without code of its own (auto_map), which is never run" if "auto_map" in kind else ""
        raise SetupError(
            f"{str(folder)!r}: transformers {transformers.__version__} does not know the model type "
            f"{kind['model_type']!r}{own}"
        )
    loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=_torch_dtype(dtype),
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # reported below, with the tensor's name
    )
    model, found = loaded
    for name, in_file, wanted in sorted(found["mismatched_keys"]):
        raise SetupError(
            f"{str(folder)!r}: tensor {name!r} has the shape {tuple(in_file)}, and the config asks for {tuple(wanted)}"
        )
    if found["missing_keys"]:
        names = sorted(found["missing_keys"])
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise SetupError(f"{str(folder)!r}: tensor {names[0]!r}{more} is missing in the weights")
    return model


def _merged(model: Any, folder: Path) -> Any:
    """`model` with the adapters in `folder` added to its weights; `SetupError` for one that lacks a tensor."""
    peft = need("peft", extra="train")
    with warnings.catch_warnings():
        # peft asks transformers in the words of an older version, which is not the caller's concern.
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.* is deprecated", category=FutureWarning)
        wrapped = peft.get_peft_model(model, peft.PeftConfig.from_pretrained(str(folder)))
    names = read_header(folder / "adapter_model.safetensors")
    missing = sorted(set(peft.get_peft_model_state_dict(wrapped, save_embedding_layers=False)) - set(names))
    if missing:
        raise SetupError(f"{str(folder)!r}: tensor {missing[0]!r} is missing in the adapters")
    from safetensors.torch import load_file

    result = peft.set_peft_model_state_dict(wrapped, load_file(folder / "adapter_model.safetensors"))
    if result.unexpected_keys:
        raise SetupError(f"{str(folder)!r}: tensor {sorted(result.unexpected_keys)[0]!r} fits no layer of the base")
    return wrapped.merge_and_unload()


def _tokenizer(folder: Path) -> Any:
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    for note in ("is_local", "local_files_only"):  # how it was loaded is no part of what is saved
        tokenizer.init_kwargs.pop(note, None)
    return tokenizer


def _has_tokenizer(folder: Path) -> bool:
    return (folder / "tokenizer.json").is_file()


def _checked(model: Any, tokenizer: Any, folder: Path, place: str) -> Checkpoint:
    if not tokenizer.chat_template:
        raise SetupError(f"{str(folder)!r} has no chat template (chat_template.jinja), by which it is asked")
    ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    listed = ends if isinstance(ends, list) else [ends]
    end_ids = frozenset(one for one in (*listed, tokenizer.eos_token_id) if one is not None)
    if not end_ids:
        raise SetupError(
            f"{str(folder)!r} has no end token: set eos_token in tokenizer_config.json or eos_token_id in "
            "generation_config.json"
        )
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise SetupError(f"{str(folder)!r}: the tokenizer has {len(tokenizer)} tokens, and the model only {rows}")
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return Checkpoint(
        model=model,
        tokenizer=tokenizer,
        end_ids=end_ids,
        pad_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(end_ids),
        context=context if isinstance(context, int) else sys.maxsize,
        device=place,
    )


def _device(device: str) -> str:
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise SetupError("device = 'cuda', and torch finds no accelerator here; use 'cpu' or 'auto'")
    return device


def _dtype(dtype: Dtype, place: str) -> str:
    return ("float32" if place == "cpu" else "bfloat16") if dtype == "auto" else dtype


def _torch_dtype(name: str) -> Any:
    import torch

    return getattr(torch, name)


def _one_thread() -> None:
    import torch

    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@contextmanager
def quiet() -> Iterator[None]:
    """Without progress bars and load reports, whose content becomes an error here where it matters."""
    import transformers

    logging: Any = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
