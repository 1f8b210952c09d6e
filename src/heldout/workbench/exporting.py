"""The final model of a run as a folder that `transformers` loads without Heldout, with a card that says what it is."""

from __future__ import annotations

import shutil
from pathlib import Path

from heldout.config import RunConfig
from heldout.errors import SetupError, StoreError, boundary, need
from heldout.harness.prompt_files import INSTRUCTION_FILE
from heldout.models import SIMULATIONS
from heldout.records import Candidate
from heldout.report.model_card import Origins, model_card
from heldout.report.summary import RunSummary, summary
from heldout.store import Index, RunFolder
from heldout.store.weights import WeightsStore

__all__ = ["export_model"]

_CARD = "README.md"
_BASE_CARD = "BASE_README.md"
"""The card that a base brought along, whose licence and history hold on."""
_ADAPTERS = "adapter_config.json"
"""A folder of weights that holds it holds adapters (as `training.loading` writes them)."""


def export_model(run: RunFolder, final: Candidate, to: Path) -> Path:
    """Write full weights (adapters merged on their base) and the card to a folder that does not exist, whole or not at
    all. `SetupError` where the run trained none, or its weights are simulated; `StoreError` where they are pruned or
    were changed."""
    config = run.load_config()
    if final.weights is None:
        raise SetupError(
            f"{run.name!r} trained no weights: its result is a folder of text files; take it with "
            f"heldout export {run.path} --to folder --out DIR"
        )
    if config.solver.model.name.partition(":")[0] in SIMULATIONS:
        raise SetupError(
            f"{run.name!r} trained simulated weights (solver.model.name = {config.solver.model.name!r}): a file of "
            "probabilities, with no model in it to export. Train one: heldout run "
            f"{config.loop} solver.model.name=pocket:base (or local:FOLDER)"
        )
    if to.exists() or to.is_symlink():
        raise SetupError(f"{str(to)!r} exists; name a folder that does not with --out")
    with Index.open(run.path) as index:
        found = summary(index.connection)
    store = WeightsStore(run.weights)
    weights = store.check(final.weights)
    origins = _origins(config, store, final, to)
    partial = to.with_name(f".{to.name}.part")
    with boundary(StoreError, f"cannot write {str(to)!r}"):
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
    try:
        _write(store, weights, partial)
        _write_card(found, origins, partial)
        with boundary(StoreError, f"cannot write {str(to)!r}"):
            partial.rename(to)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return to


def _origins(config: RunConfig, store: WeightsStore, final: Candidate, to: Path) -> Origins:
    digest = final.weights or ""
    model = config.solver.model
    return Origins(
        weights=digest,
        ancestry=[(one, store.origin(one)) for one in store.ancestry(digest)],
        merged=(store.path(digest) / _ADAPTERS).is_file(),
        folder=to.name,
        setting=f"the harness {config.solver.harness}, temperature {model.temperature:g} and at most "
        f"{model.max_tokens} tokens",
        instruction=final.files.get(INSTRUCTION_FILE, ""),
    )


def _write(store: WeightsStore, weights: Path, partial: Path) -> None:
    if not (weights / _ADAPTERS).is_file():
        with boundary(StoreError, f"cannot copy the weights {weights.name[:12]!r}"):
            shutil.copytree(weights, partial)
        return
    need("torch", extra="train")
    from heldout.training.loading import export_full

    bases = {one: store.path(one) for one in store.ancestry(weights.name) if (store.root / one).is_dir()}
    export_full(weights, bases, partial)


def _write_card(found: RunSummary, origins: Origins, partial: Path) -> None:
    if found.training is None:
        raise SetupError(f"the run {found.started.run!r} recorded no training")
    with boundary(StoreError, "cannot write the model card"):
        if (partial / _CARD).is_file():
            (partial / _CARD).rename(partial / _BASE_CARD)
        (partial / _CARD).write_text(model_card(found, found.training, origins), encoding="utf-8")
