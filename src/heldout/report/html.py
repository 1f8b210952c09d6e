"""One self-contained HTML file: no script, no network, readable in light and dark, on a desk and on a phone."""

from __future__ import annotations

import os
from pathlib import Path

from markupsafe import Markup

from heldout.report import numbers
from heldout.report.charts import share_bar
from heldout.report.page import Page, gather
from heldout.report.untrusted import legible
from heldout.store import Index, RunFolder, write_atomic

__all__ = ["render_page", "write_report"]


def write_report(run: str | os.PathLike[str]) -> Path:
    """Write `report.html` into the run's folder, whole or not at all; returns its path."""
    folder = RunFolder(Path(run))
    with Index.open(folder) as index:
        page = gather(index.connection, folder)
    write_atomic(folder.report, render_page(page))
    return folder.report


def render_page(page: Page) -> str:
    """The page as text. Everything that comes from a run is escaped: candidates and answers are not trusted.

    What escaping leaves, and no eye can see, is written out: control characters, marks of writing direction.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("heldout.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({name: getattr(numbers, name) for name in numbers.__all__ if name.islower()})
    environment.globals["share_bar"] = share_bar
    return environment.get_template("report.html.j2").render(page=page)


def _visible(value: object) -> object:
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
