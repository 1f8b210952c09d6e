"""`runs`, `show`, `report` and `export`: look at what is on disk; nothing is spent."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.app import DONE, app
from heldout.cli.printing import print_json, print_runs
from heldout.errors import SetupError, StoreError
from heldout.report import RUNNING, RunSummary, print_summary, run_json, summary, write_report
from heldout.store import Index, RunFolder, export_candidate, list_runs, read_events

__all__ = ["export_command", "report_command", "runs_command", "show_command"]

Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name under runs/.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")]


class ExportKind(StrEnum):
    """What a run can be exported to."""

    FOLDER = "folder"


@app.command("runs")
def runs_command(
    folder: Annotated[Path, typer.Argument(help="Folder of runs.")] = Path("runs"), as_json: Json = False
) -> int:
    """List the runs in a folder, newest first."""
    begun = [run for run in list_runs(folder) if run.events.exists()]
    found, damaged = [], []
    for run in sorted(begun, key=lambda run: run.events.stat().st_mtime, reverse=True):
        try:
            found.append(_summary(run))
        except StoreError as error:
            damaged.append(f"{run.path}: {error}")
    for line in damaged:
        sys.stderr.write(f"heldout: {line}\n")
    if as_json:
        print_json([run_json(one) for one in found], name="runs")
    else:
        print_runs(found, folder=folder)
    return DONE


@app.command("show")
def show_command(run: Run, as_json: Json = False) -> int:
    """Show one run: its gains, its noise and what it cost."""
    folder = RunFolder.find(Path(run))
    found = _summary(folder)
    report = folder.report if folder.report.exists() else None
    if as_json:
        print_json(run_json(found, report=report))
    else:
        print_summary(found, report=report)
    return DONE


@app.command("report")
def report_command(run: Run, as_json: Json = False) -> int:
    """Write the run's HTML report anew and print its path."""
    folder = RunFolder.find(Path(run))
    _summary(folder)
    path = write_report(folder.path)
    sys.stdout.write((json.dumps({"report": str(path)}) if as_json else str(path)) + "\n")
    return DONE


@app.command("export")
def export_command(
    run: Run,
    to: Annotated[ExportKind, typer.Option(help="`folder`: the winning candidate's files, usable without Heldout.")],
    out: Annotated[Path, typer.Option(help="Where to write it; must not exist.")],
    as_json: Json = False,
) -> int:
    """Write the winning candidate to a folder of plain files."""
    folder = RunFolder.find(Path(run))
    found = _summary(folder)
    if found.status == RUNNING:
        raise SetupError(f"{run!r} has not finished; resume it first: heldout run --resume --out {folder.path}")
    if out.exists():
        raise SetupError(f"{str(out)!r} exists; name a folder that does not")
    export_candidate(folder.load(found.final.digest), out)
    answer = {"digest": found.final.digest, "to": to.value, "path": str(out)}
    sys.stdout.write((json.dumps(answer) if as_json else f"{out}") + "\n")
    return DONE


def _summary(folder: RunFolder) -> RunSummary:
    """What the index says, once every checksum of the journal behind it was looked at: an index outlives damage."""
    for _ in read_events(folder.events):
        pass
    with Index.open(folder.path) as index:
        return summary(index.connection)
