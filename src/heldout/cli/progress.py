"""A progress bar on standard error with cost so far and time left; nothing at all where nobody watches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from heldout.rollouts import Progress, QuietProgress

__all__ = ["progress_bar"]


class _Bar:
    """Counts evaluations; the plan is an upper bound, so the bar may end early."""

    def __init__(self, bar: RichProgress) -> None:
        self._bar = bar
        self._task = bar.add_task("evaluating", total=None, cost="")
        self._cost_usd = 0.0

    def expect(self, evaluations: int) -> None:
        self._bar.update(self._task, total=evaluations)

    def advance(self, *, cost_usd: float) -> None:
        self._cost_usd += cost_usd
        self._bar.update(self._task, advance=1, cost=f"${self._cost_usd:.4f}" if self._cost_usd else "")

    def skipped(self, evaluations: int) -> None:
        self._bar.update(self._task, advance=evaluations)


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress]:
    """A bar while the block runs, if standard error is a terminal and `quiet` is false."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield QuietProgress()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[cost]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)
