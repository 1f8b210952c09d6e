"""What the simulated coder is worth, exactly: the start harness, each catalogue edit alone, and all useful ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heldout.harness.loop_settings import ToolLoopOptions
from heldout.records import Candidate, apply_edits
from heldout.studies.verse.shadow import features_of
from heldout.worlds.repair.catalogue import CATALOGUE, CatalogueEdit
from heldout.worlds.repair.package import Package
from heldout.worlds.repair.truth import EFFECTS, pass_probability

__all__ = ["Calibration", "EditEffect", "calibrate", "disagreement"]


@dataclass(frozen=True, slots=True)
class EditEffect:
    """What one edit does to the start harness, alone."""

    name: str
    edit_class: str
    effect: str
    """`useful`, `null` or `harmful`, as `truth.EFFECTS` says."""
    points: float
    """Change of the pass rate, in percentage points: `up` − `down`."""
    up: float
    """Of the tasks that it helps alone, in points of the whole."""
    down: float
    """Of the tasks that it hurts."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Exact expectations over seeds, on the tasks given."""

    tasks: int
    start: float
    """Pass rate of the start harness."""
    disagreement: float
    """Share of tasks on which two of its runs differ."""
    edits: tuple[EditEffect, ...]
    all_useful: float
    """Pass rate with all eight useful edits."""


def calibrate(start: Candidate, packages: Sequence[Package], options: ToolLoopOptions) -> Calibration:
    """Nothing is drawn: every number is an expectation; see `truth.pass_probability`."""
    before = _chances(start, packages, options)
    everything = start
    for edit in CATALOGUE:
        if EFFECTS[edit.name] == "useful":
            everything = apply_edits(everything, edit.apply(everything.files))
    return Calibration(
        tasks=len(packages),
        start=_mean(before),
        disagreement=disagreement(before),
        edits=tuple(
            _effect(edit, before, _chances(apply_edits(start, edit.apply(start.files)), packages, options))
            for edit in CATALOGUE
        ),
        all_useful=_mean(_chances(everything, packages, options)),
    )


def disagreement(chances: Sequence[float]) -> float:
    """The expected share of tasks on which two runs with these pass probabilities differ: the mean of 2 p (1 − p)."""
    return _mean([2.0 * chance * (1.0 - chance) for chance in chances])


def _chances(candidate: Candidate, packages: Sequence[Package], options: ToolLoopOptions) -> list[float]:
    features = features_of(candidate, options)
    return [pass_probability(package, features.reading, features.view) for package in packages]


def _effect(edit: CatalogueEdit, before: Sequence[float], after: Sequence[float]) -> EditEffect:
    gains = [100.0 * (b - a) for a, b in zip(before, after, strict=True)]
    up, down = _mean([max(0.0, gain) for gain in gains]), _mean([max(0.0, -gain) for gain in gains])
    return EditEffect(edit.name, edit.edit_class, EFFECTS[edit.name], up - down, up, down)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
