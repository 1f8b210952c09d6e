"""`compare`: audit two files of per-task outcomes, whoever wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import OutcomeFormat, compare_outcomes, pair, read_outcomes
from heldout.cli.app import DONE, app
from heldout.cli.printing import print_compare, print_json

__all__ = ["compare_command"]


@app.command("compare")
def compare_command(
    a: Annotated[Path, typer.Argument(help="Outcomes of the start, the base or the other tool.")],
    b: Annotated[Path, typer.Argument(help="Outcomes of what is claimed to be better.")],
    file_format: Annotated[OutcomeFormat, typer.Option("--format", help="What the files hold.")] = "auto",
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Of the interval.")] = 0.95,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")
    ] = False,
) -> int:
    """Paired audit of B against A over the tasks that both have."""
    table = pair(read_outcomes(a, format=file_format), read_outcomes(b, format=file_format))
    result = compare_outcomes(table, confidence=confidence)
    if as_json:
        print_json(result)
    else:
        print_compare(result, a=str(a), b=str(b))
    return DONE
