"""`doctor` and `bench`: what works on this machine, and the tables under results/."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.app import DONE, app
from heldout.cli.printing import print_checks, print_json
from heldout.studies import load_rewriter, load_study
from heldout.workbench import check_machine

__all__ = ["bench_command", "doctor_command"]


@app.command("doctor")
def doctor_command(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")
    ] = False,
) -> int:
    """What works on this machine, and the command that mends what does not."""
    if as_json:
        print_json(check_machine(), name="checks")
    else:
        print_checks(check_machine())
    return DONE


@app.command("bench")
def bench_command(
    name: Annotated[
        str, typer.Argument(help="winners_curse, verse, verse_published, gso, improve_any_task or smollm2_sft")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="A CI-sized table, written under results/quick instead.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the tables.")] = Path("results"),
    only: Annotated[
        str | None,
        typer.Option(
            help="One part: a to d of winners_curse and of verse; id or ood of verse_published; a to e of gso; a to c "
            "of improve_any_task."
        ),
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="Write tables and page again from kept runs, and run nothing.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")
    ] = False,
) -> int:
    """Run a study of the field again and write its table, with the command, the config digest and the seeds."""
    target = (out / "quick" if quick else out) / name
    if tables:
        written = load_rewriter(name)(target, only=only)
    else:
        command = shlex.join(["heldout", *sys.argv[1:]])
        written = load_study(name)(target, quick=quick, only=only, command=command)
    if as_json:
        sys.stdout.write(json.dumps({"study": name, "files": [str(path) for path in written]}) + "\n")
    else:
        sys.stdout.write("".join(f"{path}\n" for path in written))
    return DONE
