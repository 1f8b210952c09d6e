"""`heldout bench gso`: run parts, keep them, and write tables, plots, provenance and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from heldout.errors import SetupError
from heldout.studies.few_tasks import missing_path
from heldout.studies.gso.bench import QUICK_PLAN, Bench, Plan
from heldout.studies.gso.equal_cost import equal_cost
from heldout.studies.gso.gate_noise import gate_and_noise
from heldout.studies.gso.judging import judging
from heldout.studies.gso.main_table import main_table
from heldout.studies.gso.path_check import path_check
from heldout.studies.keeping import keep_part, timed, write_overview
from heldout.studies.page import page_text
from heldout.studies.results import Part

__all__ = ["PARTS", "study"]

PARTS = ("a", "b", "c", "d", "e")
_SIMULATED = PARTS[:4]


def study(target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
    """See `Study`. Parts a to d are simulations; e is a real model in the real sandbox."""
    if only is not None and only not in PARTS:
        raise SetupError(f"the study gso has no part {only!r}; there is {', '.join(PARTS)}")
    bench = Bench(QUICK_PLAN if quick else Plan())
    makers: Mapping[str, Callable[[], Part]] = {
        "a": partial(main_table, bench),
        "b": partial(equal_cost, bench),
        "c": partial(gate_and_noise, bench),
        "d": partial(judging, bench),
        "e": path_check,
    }
    written = []
    for name in _chosen(only, quick):
        written += keep_part(timed(makers[name]), target, command=command)
    overview = write_overview(target, PARTS, page=partial(page_text, "gso"))
    return list(dict.fromkeys([*written, *overview]))


def _chosen(only: str | None, quick: bool) -> tuple[str, ...]:
    if only == "e" and quick:
        raise SetupError("part e runs a real model for minutes and has no quick version; leave out --quick")
    if only == "e" and (why := missing_path()) is not None:
        raise SetupError(f"part e needs the local model and a sandbox: {why}")
    if only is not None:
        return (only,)
    return _SIMULATED if quick or missing_path() is not None else PARTS
