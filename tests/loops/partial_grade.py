"""A grader that gives two fifths at most, as graders of partial work may."""

from __future__ import annotations

from heldout.studies.verse.shadow import shadow_grade


def two_fifths(answer: str | None, reference: str) -> float:
    """0.4 where the shadow grader gives 1."""
    return 0.4 * shadow_grade(answer, reference)
