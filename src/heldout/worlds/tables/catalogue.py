"""Forty edits of a guide, or of a skill, with what each of them is: useful, of no effect, harmful, or a trap.

Specification: `systems/gso.md`, section 7. The simulated editor draws from them, the simulated writer and solver act on
their sentences, and the truth of every guide follows from which of them it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from heldout.worlds.tables.parts import RULES, Part

__all__ = ["CATALOGUE", "HARMFUL", "LITERAL_TRAPS", "CatalogueEdit", "bound_literals", "edit_text"]

Kind = Literal["useful", "null", "harmful", "literal", "always"]


@dataclass(frozen=True, slots=True)
class CatalogueEdit:
    """One sentence that may be added."""

    name: str
    module: str
    kind: Kind
    text: str
    """Of a `literal`, with `{name}` in the place of the name from the failed task."""
    part: Part | None = None
    """The part that it acts on."""


_NULL: Mapping[str, tuple[str, str]] = {
    "m1_task.md": (
        "Read the request twice before classifying it.",
        "Keep the profile short and in the present tense.",
    ),
    "m2_sources.md": (
        "Number the sources in the order in which they were found.",
        "Prefer plain words when a source is described.",
    ),
    "m3_skill.md": (
        "Give the skill a title that says what it does.",
        "Begin every step with a verb.",
    ),
    "m4_validation.md": (
        "Say in one sentence what was checked.",
        "Keep the checks in a list.",
    ),
    "m5_attribution.md": (
        "Write a fault record as full sentences.",
        "Put the newest fault record first.",
    ),
    "m6_repair.md": (
        "Say that a repair begins before it begins.",
        "Note how long a repair took.",
    ),
}

HARMFUL: tuple[CatalogueEdit, ...] = (
    CatalogueEdit("first_sheet", "m1_task.md", "harmful", "Always work on the first sheet.", Part.SHEET),
    CatalogueEdit("newest_file", "m2_sources.md", "harmful", "Take the file that was changed last.", Part.FILE),
    CatalogueEdit(
        "rewrite",
        "m3_skill.md",
        "harmful",
        "Write the workbook anew with only the columns that are used.",
        Part.PRESERVE,
    ),
    CatalogueEdit("trust", "m4_validation.md", "harmful", "A program that ended without an error needs no check."),
    CatalogueEdit(
        "as_stored", "m5_attribution.md", "harmful", "Compare values exactly as they are stored.", Part.VALUES
    ),
    CatalogueEdit(
        "try_on",
        "m6_repair.md",
        "harmful",
        "Change whatever might help until the output looks different.",
        Part.OPERATION,
    ),
)

LITERAL_TRAPS: tuple[CatalogueEdit, ...] = (
    CatalogueEdit("bind_column", "m2_sources.md", "literal", 'The key column is "{name}".', Part.COLUMNS),
    CatalogueEdit("bind_sheet", "m1_task.md", "literal", 'The sheet to work on is "{name}".', Part.SHEET),
    CatalogueEdit("bind_header", "m3_skill.md", "literal", 'The result goes under the header "{name}".', Part.LAYOUT),
)

_ALWAYS = CatalogueEdit(
    "always_summary", "m1_task.md", "always", "Always write a summary file beside the workbook.", Part.OUTPUTS
)


def _catalogue() -> Iterator[CatalogueEdit]:
    for rule in RULES:
        yield CatalogueEdit(rule.name, rule.module, "useful", rule.text, rule.part)
    for module, texts in _NULL.items():
        for number, text in enumerate(texts, start=1):
            yield CatalogueEdit(f"null_{module[:2]}_{number}", module, "null", text)
    yield from HARMFUL
    yield from LITERAL_TRAPS
    yield _ALWAYS


CATALOGUE: tuple[CatalogueEdit, ...] = tuple(_catalogue())
"""18 useful, 12 of no effect, 6 harmful, and 4 traps: 40 edits."""


def edit_text(edit: CatalogueEdit, names: Mapping[Part, str]) -> str | None:
    """The sentence that an edit adds after the failure of a task with these names; None where the task has no such
    name."""
    if edit.kind != "literal":
        return edit.text
    name = None if edit.part is None else names.get(edit.part)
    return None if name is None else edit.text.format(name=name)


def bound_literals(text: str) -> tuple[tuple[Part, str], ...]:
    """The (part, name) that a text binds by name, in the words of the traps, in order."""
    found: list[tuple[Part, str]] = []
    for line in text.splitlines():
        for trap in LITERAL_TRAPS:
            before, after = trap.text.split("{name}")
            at = line.find(before)
            end = line.find(after, at + len(before)) if at >= 0 else -1
            if end >= 0 and trap.part is not None:
                found.append((trap.part, line[at + len(before) : end]))
    return tuple(found)
