"""`heldout bench verse`: run parts, keep them, and write tables, plots, provenance and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from heldout.errors import SetupError
from heldout.studies.few_tasks import missing_path
from heldout.studies.keeping import keep_part, timed, write_overview
from heldout.studies.page import page_text
from heldout.studies.results import Part
from heldout.studies.verse.bench import QUICK_PLAN, Bench, Plan
from heldout.studies.verse.equal_cost import equal_cost
from heldout.studies.verse.grid import robustness
from heldout.studies.verse.main_table import main_table
from heldout.studies.verse.path_check import path_check

__all__ = ["PARTS", "study"]

PARTS = ("a", "b", "c", "d")


def study(target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
    """See `Study`. Parts a to c are simulations; d is a real model in the real sandbox."""
    if only is not None and only not in PARTS:
        raise SetupError(f"the study verse has no part {only!r}; there is {', '.join(PARTS)}")
    bench = Bench(QUICK_PLAN if quick else Plan())
    makers: Mapping[str, Callable[[], Part]] = {
        "a": partial(main_table, bench),
        "b": partial(equal_cost, bench),
        "c": partial(robustness, bench),
        "d": path_check,
    }
    written = []
    for name in _chosen(only, quick):
        written += keep_part(timed(makers[name]), target, command=command)
    overview = write_overview(target, PARTS, page=partial(page_text, "verse"))
    return list(dict.fromkeys([*written, *overview]))


def _chosen(only: str | None, quick: bool) -> tuple[str, ...]:
    if only == "d" and quick:
        raise SetupError("part d runs a real model for minutes and has no quick version; leave out --quick")
    if only == "d" and (why := missing_path()) is not None:
        raise SetupError(f"part d needs the local model and a sandbox: {why}")
    if only is not None:
        return (only,)
    return PARTS[:3] if quick or missing_path() is not None else PARTS
