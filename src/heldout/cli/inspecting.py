"""`runs`, `show`, `report` and `export`: look at what is on disk; nothing is spent."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.app import DONE, app
from heldout.cli.finding import checked_summary, final_of
from heldout.cli.printing import print_json, print_runs
from heldout.errors import SetupError, StoreError
from heldout.report import print_summary, run_json, write_report
from heldout.skills.export import write_skill_as
from heldout.store import RunFolder, export_candidate, list_runs
from heldout.workbench import export_model

__all__ = ["export_command", "report_command", "runs_command", "show_command"]

Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or its name under runs/.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")]


class ExportKind(StrEnum):
    """What a run can be exported to."""

    FOLDER = "folder"
    SKILL = "skill"
    MODEL = "model"


@app.command("runs")
def runs_command(
    folder: Annotated[Path, typer.Argument(help="Folder of runs.")] = Path("runs"), as_json: Json = False
) -> int:
    """List the runs in a folder, newest first."""
    begun = [run for run in list_runs(folder) if run.events.exists()]
    found, damaged = [], []
    for run in sorted(begun, key=lambda run: run.events.stat().st_mtime, reverse=True):
        try:
            found.append(checked_summary(run))
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
    found = checked_summary(folder)
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
    checked_summary(folder)
    path = write_report(folder.path)
    sys.stdout.write((json.dumps({"report": str(path)}) if as_json else str(path)) + "\n")
    return DONE


@app.command("export")
def export_command(
    run: Run,
    to: Annotated[
        ExportKind,
        typer.Option(
            help="`folder`: the winning candidate's files. `skill`: an Agent Skills folder, of a guide or a skill. "
            "`model`: trained weights with a model card, as transformers loads them. All are usable without Heldout."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write it; must not exist. A skill takes its name, or is written under its own."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write the winning candidate to a folder of plain files."""
    folder, final = final_of(run)
    if to is ExportKind.SKILL:
        path = write_skill_as(final, out)
    elif out is None:
        raise SetupError("name the folder to write to, which must not exist: --out best")
    else:
        path = _new_folder(out)
        if to is ExportKind.MODEL:
            export_model(folder, final, path)
        else:
            export_candidate(final, path)
            if final.weights is not None:
                sys.stderr.write("heldout: these are its text files; its trained weights come with --to model\n")
    answer = {"digest": final.digest, "to": to.value, "path": str(path)}
    sys.stdout.write((json.dumps(answer) if as_json else f"{path}") + "\n")
    return DONE


def _new_folder(out: Path) -> Path:
    if out.exists():
        raise SetupError(f"{str(out)!r} exists; name a folder that does not")
    return out
