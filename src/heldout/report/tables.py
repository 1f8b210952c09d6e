"""The one look of tables in the terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

__all__ = ["plain_table"]


def plain_table(*, title: str | None = None, show_footer: bool = False) -> Table:
    """Rules above and below the rows, and nothing else; one without a title takes the whole width."""
    return Table(
        box=SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="",
        show_footer=show_footer,
        footer_style="bold",
        expand=title is None,
        padding=(0, 1),
    )
