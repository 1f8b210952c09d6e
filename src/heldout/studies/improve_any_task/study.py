"""`heldout bench improve_any_task`: run parts, keep them, and write tables, plots, provenance and the page; the tables
can be written again from the runs that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from heldout.errors import SetupError
from heldout.studies.improve_any_task.arms import TWICE
from heldout.studies.improve_any_task.bench import Bench
from heldout.studies.improve_any_task.gate_noise import gate_noise
from heldout.studies.improve_any_task.kept_runs import keep_runs, kept_path, read_runs
from heldout.studies.improve_any_task.main_table import pocket_part, simulated_part
from heldout.studies.improve_any_task.plans import POCKET_PLAN, POCKET_QUICK_PLAN, QUICK_PLAN, Plan
from heldout.studies.keeping import keep_again, keep_part, timed, write_overview
from heldout.studies.page import page_text
from heldout.studies.results import Part

__all__ = ["PARTS", "study", "tables"]

PARTS = ("a", "b", "c")
_POCKET = "b"
_NEEDED = ("torch", "transformers")

_MAKERS: Mapping[str, Callable[[Bench], Part]] = {"a": simulated_part, "b": pocket_part, "c": gate_noise}
_KEPT: Mapping[str, tuple[str, ...]] = {"c": (TWICE,)}
"""Arms whose runs a part keeps, where it does not keep all that its bench knows."""


def study(target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
    """See `Study`. Parts a and c are simulations; b trains real models, whose seconds are measured."""
    _check_part(only)
    simulated = Bench(QUICK_PLAN if quick else Plan())
    pocket = Bench(POCKET_QUICK_PLAN if quick else POCKET_PLAN)
    written = []
    for name in _chosen(only):
        bench = pocket if name == _POCKET else simulated
        written += keep_part(timed(partial(_MAKERS[name], bench)), target, command=command)
        written.append(keep_runs(bench.kept(*_KEPT.get(name, ())), kept_path(target, name)))
    return list(dict.fromkeys([*written, *_overview(target)]))


def tables(target: Path, *, only: str | None) -> list[Path]:
    """See `Rewriter`."""
    _check_part(only)
    names = [name for name in PARTS if kept_path(target, name).is_file()] if only is None else [only]
    written = []
    for name in names or PARTS[:1]:
        part = _MAKERS[name](Bench.of(read_runs(kept_path(target, name))))
        written += keep_again(part, target)
    return list(dict.fromkeys([*written, *_overview(target)]))


def _check_part(only: str | None) -> None:
    if only is not None and only not in PARTS:
        raise SetupError(f"the study improve_any_task has no part {only!r}; there is {', '.join(PARTS)}")


def _overview(target: Path) -> list[Path]:
    return write_overview(target, PARTS, page=partial(page_text, "improve_any_task"))


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
