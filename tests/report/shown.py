"""A run as its readers see it: the summary in a terminal of eighty columns, and the words of a page."""

from __future__ import annotations

import io
import re

from rich.console import Console

from heldout.report import print_summary, summary
from heldout.store import Index, RunFolder

__all__ = ["printed", "section", "words"]


def printed(run: RunFolder, *, terminal: bool = False) -> str:
    """The summary of the run, as printed."""
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=terminal, color_system=None)
    with Index.open(run) as index:
        print_summary(summary(index.connection), console=console)
    return stream.getvalue()


def words(markup: str) -> str:
    """Without markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


def section(page: str, name: str) -> str:
    """The words of one section, without markup."""
    return words(page.partition(f'<section id="{name}">')[2].partition("</section>")[0])
