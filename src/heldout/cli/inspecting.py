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
from heldout.errors import SetupError
from heldout.report import RunSummary, print_summary, run_json, summary, write_report
from heldout.store import Index, RunFolder, export_candidate, list_runs

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
    found = [_summary(run) for run in sorted(begun, key=lambda run: run.events.stat().st_mtime, reverse=True)]
    if as_json:
        print_json([run_json(one) for one in found])
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
    path = write_report(RunFolder.find(Path(run)).path)
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
    if found.status == "running":
        raise SetupError(f"{run!r} has not finished; resume it first: heldout run --resume --out {folder.path}")
    if out.exists():
        raise SetupError(f"{str(out)!r} exists; name a folder that does not")
    export_candidate(folder.load(found.final.digest), out)
    answer = {"digest": found.final.digest, "to": to.value, "path": str(out)}
    sys.stdout.write((json.dumps(answer) if as_json else f"{out}") + "\n")
    return DONE


def _summary(folder: RunFolder) -> RunSummary:
    with Index.open(folder.path) as index:
        return summary(index.connection)
