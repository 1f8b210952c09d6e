"""`heldout bench winners_curse`: run parts, keep them, and write tables, plots, provenance and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from heldout.errors import SetupError
from heldout.studies.keeping import Done, keep_part, timed, write_overview
from heldout.studies.page import page_text
from heldout.studies.results import Part
from heldout.studies.winners_curse.closed_forms import closed_forms
from heldout.studies.winners_curse.real_model import RealPlan, missing_model, real_model
from heldout.studies.winners_curse.simulated_loop import simulated_loop

__all__ = ["study"]

PARTS = ("a", "b", "c", "d")


def study(target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
    """See `Study`. Runs of a real model are kept under `runs/bench-winners_curse/` beside the results folder."""
    if only is not None and only not in PARTS:
        raise SetupError(f"the study winners_curse has no part {only!r}; there is {', '.join(PARTS)}")
    written = []
    for name in _chosen(only, quick):
        written += keep_part(_run(name, target, quick=quick, command=command), target, command=command)
    overview = write_overview(target, PARTS, page=partial(page_text, "winners_curse"))
    return list(dict.fromkeys([*written, *overview]))


def _chosen(only: str | None, quick: bool) -> tuple[str, ...]:
    if only == "d":
        raise SetupError(
            "part d (audits of GEPA and MIPROv2) is not built yet; see heldout compare for their outcome files"
        )
    if only == "c" and quick:
        raise SetupError("part c runs a real model for an hour or more and has no quick version; leave out --quick")
    if only == "c" and (why := missing_model()) is not None:
        raise SetupError(f"part c needs the local model: {why}")
    if only is not None:
        return (only,)
    return ("a", "b") if quick or missing_model() is not None else ("a", "b", "c")


def _run(name: str, target: Path, *, quick: bool, command: str) -> Done:
    if name == "c":
        runs = target.parent.parent / "runs" / f"bench-{target.name}"
        result = real_model(RealPlan(), runs=runs, command=command)
        return Done(result.part, result.runtime_s)
    makers: Mapping[str, Callable[[], Part]] = {
        "a": lambda: closed_forms(quick=quick),
        "b": lambda: simulated_loop(quick=quick),
    }
    return timed(makers[name])
