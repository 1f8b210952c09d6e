"""A parent's folder as a model to train, and the trained model as a folder of the same kind."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging as transformers_logging

from heldout.errors import SetupError, StoreError, boundary, need
from heldout.store.weights import weights_digest
from heldout.training.base import TrainingJob
from heldout.training.metering import accidents
from heldout.training.plain_tokenizer import end_ids_of
from heldout.training.settings import LoraSettings

__all__ = ["ADAPTERS", "BASE", "Loaded", "export_full", "load_parent", "parent_digest", "quiet", "write_weights"]

ADAPTERS = "adapter_config.json"
"""A folder that holds it holds adapters."""

BASE = "base.json"
"""Beside adapters: {"base": digest of the weights that they adapt}."""

_DIGEST = re.compile(r"[0-9a-f]{64}")

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.gguf", "*.h5")
"""Files of a checkpoint that its children do not take over."""

_ONE_FILE = "100TB"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory and the folder that it comes from."""

    model: Any
    """`PreTrainedModel`, or `PeftModel` where only adapters are trained; float32."""
    tokenizer: Any
    checkpoint: Path
    """The full checkpoint below it, which lends tokenizer, chat template and generation config."""
    base: str = ""
    """Digest of that checkpoint where adapters are trained."""

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens at which the trained model will stop."""
        return end_ids_of(self.checkpoint, self.tokenizer)


def load_parent(job: TrainingJob) -> Loaded:
    """The model that `job` begins with. New adapters draw from torch's generator, which must be seeded before.

    Adapters as parent: `lora` trains them further (their shape must be the config's), `full` merges them first.
    `SetupError` for a checkpoint that is not whole, with the missing tensor named.
    """
    adapted = (job.parent / ADAPTERS).is_file()
    checkpoint, base = _base_of(job.parent, job.bases) if adapted else (job.parent, parent_digest(job.parent))
    with quiet(), accidents(f"loading {job.parent.name[:12]!r}"):
        model, tokenizer = _load_checkpoint(checkpoint)
        if job.config.method == "full":
            merged = _merged(model, job.parent) if adapted else model
            return Loaded(model=merged, tokenizer=tokenizer, checkpoint=checkpoint)
        peft_model = _continued(model, job.parent, job.config.lora) if adapted else _adapted(model, job.config.lora)
    return Loaded(model=peft_model, tokenizer=tokenizer, checkpoint=checkpoint, base=base)


def write_weights(loaded: Loaded, folder: Path) -> Path:
    """Write what was trained as `folder`, whole or not at all; equal weights give equal bytes."""
    partial = folder.with_name(f".{folder.name}.part")
    with boundary(StoreError, f"cannot write weights to {str(folder)!r}"):
        for leftover in (partial, folder):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
        if loaded.base:
            _write_adapters(loaded, partial)
        else:
            _write_checkpoint(loaded, partial)
        partial.rename(folder)
    return folder


def export_full(folder: Path, bases: Mapping[str, Path], to: Path) -> Path:
    """Weights of either kind as a full checkpoint that `transformers` loads without Heldout; `to` must be new."""
    if to.exists():
        raise SetupError(f"{str(to)!r} exists; name a new folder")
    if not (folder / ADAPTERS).is_file():
        with boundary(StoreError, f"cannot write {str(to)!r}"):
            shutil.copytree(folder, to)
        return to
    need("peft", extra="train")
    checkpoint, _ = _base_of(folder, bases)
    with quiet(), accidents("merging adapters"):
        model, tokenizer = _load_checkpoint(checkpoint)
        return write_weights(Loaded(_merged(model, folder), tokenizer, checkpoint), to)


def _load_checkpoint(folder: Path) -> tuple[Any, Any]:
    if not (folder / "config.json").is_file():
        raise SetupError(f"{str(folder)!r} is no checkpoint: it has no config.json")
    with boundary(SetupError, f"the checkpoint {str(folder)!r} cannot be loaded"), accidents("loading a checkpoint"):
        found: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
        model, report = found
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if missing := sorted(report["missing_keys"]):
        raise SetupError(
            f"the checkpoint {str(folder)!r} lacks {len(missing)} tensors that its config.json asks for: "
            f"{', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}"
        )
    return model, tokenizer


def _adapted(model: Any, settings: LoraSettings) -> Any:
    peft = need("peft", extra="train")
    config = peft.LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets),
        task_type="CAUSAL_LM",
        # GPT-2 and its kin keep their matrices the other way round; PEFT would set it with a warning.
        fan_in_fan_out=any(isinstance(layer, Conv1D) for layer in model.modules()),
    )
    refused = f"no adapters of options.train.lora.targets = {list(settings.targets)!r} for this model"
    if not any(f".{name}".endswith(f".{target}") for name, _ in model.named_modules() for target in settings.targets):
        # PEFT's own words have the names in an order that changes from process to process.
        raise SetupError(f"{refused}; its linear layers are {', '.join(_linear_layers(model)) or 'none'}")
    with boundary(SetupError, refused):
        return peft.get_peft_model(model, config)


def _linear_layers(model: Any) -> list[str]:
    """Names of the layers that may get adapters, each once, the output layer left out."""
    kinds, output = (torch.nn.Linear, Conv1D), model.get_output_embeddings()
    found = [name for name, layer in model.named_modules() if isinstance(layer, kinds) and layer is not output]
    return sorted({name.rpartition(".")[2] for name in found})


def _continued(model: Any, folder: Path, settings: LoraSettings) -> Any:
    peft = need("peft", extra="train")
    with boundary(SetupError, f"the adapters {str(folder)!r} cannot be loaded"):
        config = peft.LoraConfig.from_pretrained(folder)
    found = (config.r, float(config.lora_alpha), sorted(config.target_modules or ()))
    wanted = (settings.rank, settings.alpha, sorted(settings.targets))
    if found != wanted:
        raise SetupError(
            f"the parent's adapters have rank, alpha and targets {found}, and options.train.lora asks for {wanted}: "
            "give those of the parent, or use options.train.method = 'full', which merges them"
        )
    config.lora_dropout = settings.dropout
    with boundary(SetupError, f"the adapters {str(folder)!r} cannot be loaded"), accidents("loading adapters"):
        return peft.PeftModel.from_pretrained(model, folder, config=config, is_trainable=True)


def _merged(model: Any, folder: Path) -> Any:
    peft = need("peft", extra="train")
    with boundary(SetupError, f"the adapters {str(folder)!r} cannot be merged"), accidents("merging adapters"):
        # Adapters freeze what they adapt.
        return peft.PeftModel.from_pretrained(model, folder).merge_and_unload().requires_grad_(True)


def _base_of(adapters: Path, bases: Mapping[str, Path]) -> tuple[Path, str]:
    """Folder and digest of the full checkpoint that adapters belong to."""
    with boundary(SetupError, f"the adapters {str(adapters)!r} do not say what they adapt"):
        digest = str(json.loads((adapters / BASE).read_text(encoding="utf-8"))["base"])
    if digest not in bases:
        raise SetupError(f"the adapters {adapters.name[:12]!r} need the weights {digest[:12]!r}, which were not given")
    return bases[digest], digest


def parent_digest(folder: Path) -> str:
    """Digest of a folder of weights: its name in a store, else its content's."""
    return folder.name if _DIGEST.fullmatch(folder.name) else weights_digest(folder)


def _write_adapters(loaded: Loaded, folder: Path) -> None:
    peft = need("peft", extra="train")
    tensors = {name: tensor.cpu().contiguous() for name, tensor in peft.get_peft_model_state_dict(loaded.model).items()}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    # PEFT writes the folder that the base was loaded from, and sets in the order of their hashes.
    config = loaded.model.peft_config["default"].to_dict() | {"base_model_name_or_path": None, "inference_mode": True}
    _write_json(folder / ADAPTERS, {name: sorted(v) if isinstance(v, set) else v for name, v in config.items()})
    _write_json(folder / BASE, {"base": loaded.base})


def _write_checkpoint(loaded: Loaded, folder: Path) -> None:
    with quiet():
        loaded.model.save_pretrained(folder, max_shard_size=_ONE_FILE)
    # What the library derives anew (config, generation config) is the parent's, byte for byte.
    for file in folder.iterdir():
        if file.suffix != ".safetensors":
            file.unlink()
    for file in sorted(loaded.checkpoint.iterdir()):
        if file.is_file() and not file.name.startswith(".") and not any(map(file.match, _WEIGHTS)):
            shutil.copyfile(file, folder / file.name)
    _say_float32(folder / "config.json")


def _say_float32(file: Path) -> None:
    """`transformers` casts to the type that the config names, which would round the trained weights."""
    text = file.read_text(encoding="utf-8")
    changed = re.sub(r'("(?:torch_)?dtype"\s*:\s*)"(?:bfloat16|float16)"', r'\1"float32"', text)
    if changed != text:
        file.write_text(changed, encoding="utf-8")


def _write_json(file: Path, value: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2, sort_keys=True, default=str) + "\n", encoding="utf-8")


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, and no report of the loading, whose faults are told as errors."""
    bars, level = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            # PEFT 0.21 and TRL 1.16 use names that transformers 5.24 calls old.
            warnings.filterwarnings("ignore", message=".*deprecated and will be removed in v6", category=FutureWarning)
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
