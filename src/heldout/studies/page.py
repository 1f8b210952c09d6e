"""The page of a study, from the template in its own package; what every page has is in `templates/` beside this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heldout.studies.results import Claim, Part, Provenance
from heldout.studies.tables import markdown_text

__all__ = ["page_text"]

_LONG = 12
"""Rows from which a table is folded."""


def page_text(
    study: str, parts: Sequence[Part], claims: Sequence[Claim], provenance: Mapping[str, Provenance], /
) -> str:
    """Markdown from `templates/README.md.j2` of the package `heldout.studies.STUDY`.

    The template may include `claims.md.j2`, `parts.md.j2` and `made.md.j2`, which every study shares.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(f"heldout.studies.{study}"), jinja2.PackageLoader("heldout.studies")]
        ),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown of our own numbers; nothing of a candidate or an answer is in it.
    )
    environment.filters.update(markdown=markdown_text, number=_number, interval=_interval, seconds=_seconds)
    template = environment.get_template("README.md.j2")
    return template.render(parts=parts, claims=claims, provenance=provenance, long=_LONG)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")


def _interval(ends: tuple[float, float] | None) -> str:
    return "–" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.0f} min"
