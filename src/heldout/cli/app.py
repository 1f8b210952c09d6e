"""The typer application that commands add themselves to, and the exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from heldout import __version__

__all__ = ["DONE", "FAILED", "INTERRUPTED", "OUT_OF_BUDGET", "WRONG_USE", "app", "options"]

DONE, FAILED, WRONG_USE, OUT_OF_BUDGET, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="heldout",
    help="Improve an LLM agent with a published self-improvement loop, and hear how much of the gain is real.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"heldout {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Improve an LLM agent with a published self-improvement loop, and hear how much of the gain is real."""
