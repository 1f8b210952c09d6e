"""`heldout bench improve_any_task`: run parts, keep them, and write tables, plots, provenance and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from heldout.errors import SetupError
from heldout.studies.improve_any_task.bench import Bench
from heldout.studies.improve_any_task.gate_noise import gate_noise
from heldout.studies.improve_any_task.main_table import pocket_part, simulated_part
from heldout.studies.improve_any_task.plans import POCKET_PLAN, POCKET_QUICK_PLAN, QUICK_PLAN, Plan
from heldout.studies.keeping import keep_part, timed, write_overview
from heldout.studies.page import page_text
from heldout.studies.results import Part

__all__ = ["PARTS", "study"]

PARTS = ("a", "b", "c")
_POCKET = "b"
_NEEDED = ("torch", "transformers")


def study(target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
    """See `Study`. Parts a and c are simulations; b trains real models, whose seconds are measured."""
    if only is not None and only not in PARTS:
        raise SetupError(f"the study improve_any_task has no part {only!r}; there is {', '.join(PARTS)}")
    simulated = Bench(QUICK_PLAN if quick else Plan())
    makers: Mapping[str, Callable[[], Part]] = {
        "a": partial(simulated_part, simulated),
        "b": partial(pocket_part, Bench(POCKET_QUICK_PLAN if quick else POCKET_PLAN)),
        "c": partial(gate_noise, simulated),
    }
    written = []
    for name in _chosen(only):
        written += keep_part(timed(makers[name]), target, command=command)
    overview = write_overview(target, PARTS, page=partial(page_text, "improve_any_task"))
    return list(dict.fromkeys([*written, *overview]))


def _chosen(only: str | None) -> tuple[str, ...]:
    """Part b is left out where nothing can be trained."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if only == _POCKET and missing:
        raise SetupError(
            f"part b trains real models and needs {', '.join(missing)}: pip install 'heldout[train]', or run the "
            "simulations with --only a and --only c"
        )
    if only is not None:
        return (only,)
    return tuple(name for name in PARTS if name != _POCKET or not missing)
