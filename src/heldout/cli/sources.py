"""`tasks list` and `tasks check`: is a source fit to be learned from and measured on?"""

from __future__ import annotations

from typing import Annotated

import typer

from heldout.cli.app import DONE, FAILED, app
from heldout.cli.printing import print_json, print_source_report, print_sources
from heldout.config import load_config, parse_overrides
from heldout.tasks import check_source, list_sources

__all__ = ["check_command", "list_command"]

tasks_app = typer.Typer(help="Look at task sources before a run.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output and nothing else there.")]


@tasks_app.command("list")
def list_command(as_json: Json = False) -> int:
    """The built-in sources."""
    if as_json:
        print_json(list_sources(), name="sources")
    else:
        print_sources(list_sources())
    return DONE


@tasks_app.command("check")
def check_command(
    source: Annotated[str, typer.Argument(help="A source of `heldout tasks list`, or module:Class.")],
    words: Annotated[
        list[str] | None, typer.Argument(help="key=value of the tasks table, for example path=my.jsonl train=32")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Grade every task; by default a sample where grading runs code.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Splits, duplicates, right answers that must score 1, wrong ones that must score 0. Exit code 1 on a fault."""
    settings = {"source": source, "duplicates": "drop", **parse_overrides(words or [])}
    report = check_source(load_config([{"tasks": settings}]).tasks, sample=0 if everything else None)
    (print_json if as_json else print_source_report)(report)
    return DONE if report.ok else FAILED
