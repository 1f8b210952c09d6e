"""`heldout bench winners_curse`: run parts, keep them, and write tables, plots, provenance and the page."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import heldout
from heldout.errors import SetupError, StoreError
from heldout.records import Record, digest_of
from heldout.store import write_atomic
from heldout.studies.plots import plot_svg
from heldout.studies.results import Claim, Part, Provenance
from heldout.studies.tables import Table, csv_text
from heldout.studies.winners_curse.closed_forms import closed_forms
from heldout.studies.winners_curse.page import page_text
from heldout.studies.winners_curse.real_model import RealPlan, missing_model, real_model
from heldout.studies.winners_curse.simulated_loop import simulated_loop

__all__ = ["study"]

Kept = TypeVar("Kept", bound=Record)

PARTS = ("a", "b", "c", "d")


@dataclass(frozen=True, slots=True)
class _Done:
    part: Part
    runtime_s: float


class _Provenances(Record):
    """The file `provenance.json`."""

    parts: Mapping[str, Provenance] = {}


def study(target: Path, *, quick: bool, only: str | None, command: str) -> list[Path]:
    """See `Study`. Runs of a real model are kept under `runs/bench-winners_curse/` beside the results folder."""
    if only is not None and only not in PARTS:
        raise SetupError(f"the study winners_curse has no part {only!r}; there is {', '.join(PARTS)}")
    written = []
    for name in _chosen(only, quick):
        done = _run(name, target, quick=quick, command=command)
        written += _keep(done, target, quick=quick, command=command)
    return list(dict.fromkeys([*written, *_write_overview(target)]))


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


def _run(name: str, target: Path, *, quick: bool, command: str) -> _Done:
    if name == "c":
        runs = target.parent.parent / "runs" / f"bench-{target.name}"
        result = real_model(RealPlan(), runs=runs, command=command)
        return _Done(result.part, result.runtime_s)
    makers: Mapping[str, Callable[[], Part]] = {
        "a": lambda: closed_forms(quick=quick),
        "b": lambda: simulated_loop(quick=quick),
    }
    begun = time.perf_counter()
    part = makers[name]()
    return _Done(part, time.perf_counter() - begun)


def _keep(done: _Done, target: Path, *, quick: bool, command: str) -> list[Path]:
    """The part's tables, plots, its record and its provenance."""
    import numpy

    part = done.part
    paths = [_write(target / f"{table.name}.csv", csv_text(table)) for table in part.tables]
    paths += [_write(target / f"{plot.name}.svg", plot_svg(plot)) for plot in part.plots]
    paths.append(_write(_part_file(target, part.id), part.model_dump_json(indent=1) + "\n"))
    entry = Provenance(
        command=command,
        heldout=heldout.__version__,
        python=platform.python_version(),
        numpy=numpy.__version__,
        cores=os.cpu_count() or 1,
        runtime_s=round(done.runtime_s, 1),
        quick=quick,
        seeds=part.seeds,
        digest=digest_of(json.loads(part.model_dump_json())),
        config_digests=part.config_digests,
    )
    known = {**_provenances(target).parts, part.id: entry}
    everything = _Provenances(parts=dict(sorted(known.items())))
    paths.append(_write(target / "provenance.json", everything.model_dump_json(indent=1) + "\n"))
    return paths


def _write_overview(target: Path) -> list[Path]:
    """Claims and the page, from every part that is kept."""
    parts = [_read(path, Part) for name in PARTS if (path := _part_file(target, name)).is_file()]
    claims = sorted((claim for part in parts for claim in part.claims), key=lambda claim: (claim.id, claim.part))
    page = page_text(parts, claims, _provenances(target).parts)
    return [
        _write(target / "claims.csv", csv_text(_claims_table(claims))),
        _write(target / "README.md", page),
    ]


def _claims_table(claims: list[Claim]) -> Table:
    return Table(
        name="claims",
        title="Claims",
        columns=("claim", "part", "says", "verdict", "number", "low", "high", "rests on", "sentence"),
        rows=tuple(
            (
                *(claim.id, claim.part, claim.says, claim.verdict.value, claim.number),
                *(claim.interval or (None, None)),
                *(claim.rests_on, claim.sentence),
            )
            for claim in claims
        ),
    )


def _part_file(target: Path, name: str) -> Path:
    return target / f"part_{name}.json"


def _provenances(target: Path) -> _Provenances:
    path = target / "provenance.json"
    return _read(path, _Provenances) if path.is_file() else _Provenances()


def _read(path: Path, kind: type[Kept]) -> Kept:
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        raise StoreError(f"{str(path)!r} is not what this version writes; remove it and run the study again") from cause


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text)
    return path
