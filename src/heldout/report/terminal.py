"""What a person sees in the terminal. Views are rich renderables; `show` puts them on a console.

On a stream that is no terminal the same words come in plain ASCII, without colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import ASCII, ROUNDED, SIMPLE_HEAD, Box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from heldout.report.numbers import ascii_text, count, dollars, duration, interval, percent, plus_minus, points
from heldout.report.queries import LedgerRow
from heldout.report.summary import RunSummary
from heldout.report.verdict import verdict
from heldout.store.events import AuditResult, NoiseMeasured

__all__ = ["audit_view", "ledger_view", "noise_view", "run_view", "show"]

_STYLES = {"better": "bold cyan", "worse": "bold red", "unclear": "bold yellow", "same": "bold", "open": "bold"}


def show(console: Console, *views: RenderableType) -> None:
    """Print the views: in full on a terminal, else in ASCII (pipes, logs, CI)."""
    for view in views:
        if console.is_terminal:
            console.print(view)
            continue
        segments = console.render(view)
        text = "".join(segment.text for segment in segments if not segment.control)
        console.file.write(ascii_text(text))


def run_view(summary: RunSummary, *, noise: NoiseMeasured | None = None, report: Path | None = None) -> RenderableType:
    """The summary of a run: verdict, three gains, noise, cost, and where the report lies."""
