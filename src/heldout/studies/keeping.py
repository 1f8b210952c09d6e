"""What a study leaves in its folder: tables, plots, the record and provenance of each part, claims and the page."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import heldout
from heldout.errors import StoreError
from heldout.records import Record, digest_of
from heldout.store import write_atomic
from heldout.studies.plots import Plot, plot_svg
from heldout.studies.results import Claim, Part, Provenance
from heldout.studies.scatter import Scatter, scatter_svg
from heldout.studies.tables import Table, csv_text

__all__ = ["Done", "Page", "keep_again", "keep_part", "timed", "write_overview"]

Kept = TypeVar("Kept", bound=Record)

Page = Callable[[Sequence[Part], Sequence[Claim], Mapping[str, Provenance]], str]
"""(parts, claims, provenance of each part) -> the text of README.md."""


@dataclass(frozen=True, slots=True)
class Done:
    """A part that was run, and for how long."""

    part: Part
    runtime_s: float


class _Provenances(Record):
    """The file `provenance.json`."""

    parts: Mapping[str, Provenance] = {}


def timed(make: Callable[[], Part]) -> Done:
    """Run a part and take its time."""
    begun = time.perf_counter()
    part = make()
    return Done(part, time.perf_counter() - begun)


def keep_part(done: Done, target: Path, *, command: str) -> list[Path]:
    """Write the part's tables, plots, record and provenance, and return their paths; other parts stay as they are."""
    import numpy

    part = done.part
    entry = Provenance(
        command=command,
        heldout=heldout.__version__,
        python=platform.python_version(),
        numpy=numpy.__version__,
        cores=os.cpu_count() or 1,
        runtime_s=round(done.runtime_s, 1),
        quick=part.quick,
        seeds=part.seeds,
        digest=_digest(part),
        config_digests=part.config_digests,
    )
    return _kept(part, target, entry)


def keep_again(part: Part, target: Path) -> list[Path]:
    """The same for a part that was made again from kept runs: of its provenance only the digest of its content changes.
    `StoreError` where these runs have none."""
    entry = _provenances(target).parts.get(part.id)
    if entry is None or entry.config_digests != part.config_digests:
        raise StoreError(
            f"{str(target / 'provenance.json')!r} tells nothing of these runs of part {part.id}: run it again"
        )
    return _kept(part, target, entry.model_copy(update={"digest": _digest(part)}))


def _kept(part: Part, target: Path, entry: Provenance) -> list[Path]:
    paths = [_write(target / f"{table.name}.csv", csv_text(table)) for table in part.tables]
    paths += [_write(target / f"{plot.name}.svg", _svg(plot)) for plot in part.plots]
    paths.append(_write(_part_file(target, part.id), part.model_dump_json(indent=1) + "\n"))
    known = {**_provenances(target).parts, part.id: entry}
    everything = _Provenances(parts=dict(sorted(known.items())))
    paths.append(_write(target / "provenance.json", everything.model_dump_json(indent=1) + "\n"))
    return paths


def write_overview(target: Path, names: Sequence[str], *, page: Page) -> list[Path]:
    """Claims and the page, from every part of these names that is kept in `target`."""
    parts = [_read(path, Part) for name in names if (path := _part_file(target, name)).is_file()]
    claims = sorted((claim for part in parts for claim in part.claims), key=lambda claim: (claim.id, claim.part))
    text = page(parts, claims, _provenances(target).parts)
    return [
        _write(target / "claims.csv", csv_text(_claims_table(claims))),
        _write(target / "README.md", text),
    ]


def _digest(part: Part) -> str:
    return digest_of(json.loads(part.model_dump_json()))


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


def _svg(plot: Plot | Scatter) -> str:
    return plot_svg(plot) if isinstance(plot, Plot) else scatter_svg(plot)


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
