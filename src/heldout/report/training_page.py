"""What the HTML page shows of a loop over model weights, gathered once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from heldout.report.charts import GainMark, gain_forest
from heldout.report.marks import Point
from heldout.report.queries import Mean, Means
from heldout.report.summary import RunSummary
from heldout.report.training_budget import TrainingBudget, budget_of
from heldout.report.training_charts import (
    TONES,
    Child,
    FaultBar,
    LossCurve,
    fault_bars,
    loss_plot,
    score_chart,
)
from heldout.report.training_history import TrainingHistory
from heldout.report.training_lineage import ModelRow
from heldout.report.training_rounds import TrainingRound
from heldout.report.untrusted import one_line
from heldout.store import RunFolder
from heldout.store.events import AuditResult, FamilyResult
from heldout.store.training_events import DatasetBuilt, Preflighted

__all__ = ["ModelShown", "RoleFamilies", "RungShown", "TrainingPage", "gather_training"]

_WIDTHS = (760, 340)
"""Of a chart on a desk and on a phone, in pixels."""
_MAX_CURVES = 60
"""Trainings that are drawn, the first ones; all losses lie in the journal."""
_ASIDE = 0.22
"""How far the audit's two marks stand beside the rounds that they belong to."""
_Z95 = 1.96


@dataclass(frozen=True, slots=True)
class ModelShown:
    """One model of the lineage."""

    row: ModelRow
    is_final: bool
    on_disk: bool


@dataclass(frozen=True, slots=True)
class RungShown:
    """One data set with the checks that it climbed."""

    round: TrainingRound
    dataset: DatasetBuilt
    stages: tuple[Preflighted, ...]


@dataclass(frozen=True, slots=True)
class RoleFamilies:
    """Start against final on one role, by family."""

    result: AuditResult
    forest: tuple[Markup, ...]
    """For a desk and for a phone; empty where no family has a gain."""

    @property
    def families(self) -> tuple[FamilyResult, ...]:
        return self.result.families


@dataclass(frozen=True, slots=True)
class TrainingPage:
    """Scores, failures, curves, abilities, models, budget."""

    history: TrainingHistory
    budget: TrainingBudget
    scores: tuple[Markup, ...]
    """For a desk and for a phone; empty where there is nothing to draw, like the next one."""
    faults: tuple[Markup, ...]
    tones: Mapping[str, int]
    """Each code's colour."""
    curves: tuple[tuple[TrainingRound, Markup], ...]
    rungs: tuple[RungShown, ...]
    abilities: tuple[RoleFamilies, ...]
    """Of each report role."""
    models: tuple[ModelShown, ...]
    final_weights: str | None
    """Digest of the final model's weights."""
    final_is_adapters: bool
    final_on_disk: bool


def gather_training(whole: RunSummary, known: Means, *, training: TrainingHistory, run: RunFolder) -> TrainingPage:
    """Charts and what the run's folder says of its weights. `known` has the scores that decisions rested on."""
    tones = {code: min(place, TONES) for place, code in enumerate(training.codes)}
    final = training.model(whole.final.digest)
    weights = None if final is None else final.weights
    bars = _bars(training, tones)
    return TrainingPage(
        history=training,
        budget=budget_of(whole, training),
        scores=_scores(whole, training, known),
        faults=tuple(fault_bars(bars, width=width) for width in _WIDTHS if bars),
        tones=tones,
        curves=tuple((one, loss_plot(curve)) for one in training.rounds if (curve := _curve(one)))[:_MAX_CURVES],
        rungs=tuple(_rungs(training)),
        abilities=tuple(_families(one) for one in whole.reports),
        models=tuple(
            ModelShown(row, row.candidate == whole.final.digest, _lies(run, row.weights)) for row in training.models
        ),
        final_weights=weights,
        final_is_adapters=final is not None and final.method == "lora",
        final_on_disk=_lies(run, weights),
    )


def _lies(run: RunFolder, weights: str | None) -> bool:
    return weights is not None and (run.weights / weights).is_dir()


def _scores(whole: RunSummary, training: TrainingHistory, known: Means) -> tuple[Markup, ...]:
    head, children = _head(training), _children(training)
    audited = _audited(whole, training, known)
    failed = [(one.number, one.state) for one in training.rounds if one.decided is None and one.attempt is not None]
    if not head:
        return ()
    return tuple(score_chart(head, children, audited, failed=failed, width=width) for width in _WIDTHS)


def _head(training: TrainingHistory) -> list[Point]:
    """The head's score at the start and after each round."""
    start = next((one for one in training.models if one.kind == "start"), None)
    if start is None or start.score is None:
        return []
    found, score = [Point(0, start.score)], start.score
    for one in training.rounds:
        if one.decided is not None and one.status == "accepted" and one.decided.scores[0] is not None:
            score = one.decided.scores[0]
        found.append(Point(one.number, score))
    return found


def _children(training: TrainingHistory) -> list[Child]:
    found = []
    for one in training.rounds:
        score = one.decided.scores[0] if one.decided is not None else None
        if one.decided is not None and score is not None:
            parent = one.decided.incumbent_score
            found.append(Child(one.number, score, parent, one.gain, one.interval, one.status))
    return found


def _audited(whole: RunSummary, training: TrainingHistory, known: Means) -> list[Point]:
    """The audit's two ends, beside the rounds of start and final."""
    final = training.model(whole.final.digest)
    if whole.audit is None or final is None or whole.start.digest == whole.final.digest:
        return []
    ends = ((0 - _ASIDE, whole.audit.start), (final.round + _ASIDE, whole.audit.final))
    means = [(at, known.get((whole.audit.role, digest))) for at, digest in ends]
    return [point for at, mean in means if (point := _point(at, mean)) is not None]


def _point(at: float, mean: Mean | None) -> Point | None:
    if mean is None or mean.value is None:
        return None
    error = mean.standard_error
    ends = None if error is None else (max(0.0, mean.value - _Z95 * error), min(1.0, mean.value + _Z95 * error))
    return Point(at, mean.value, ends)


def _bars(training: TrainingHistory, tones: Mapping[str, int]) -> list[FaultBar]:
    """The most frequent code at the bottom of every bar."""
    bars = []
    for one in training.rounds:
        if one.diagnosed is not None and one.diagnosed.n:
            counts = {cluster.code: cluster.count for cluster in one.diagnosed.clusters}
            stacked = [(one_line(code, 40), tones[code], counts[code]) for code in tones if code in counts]
            bars.append(FaultBar(one.number, stacked, one_line(one.focal, 40), one.diagnosed.n))
    return bars


def _curve(one: TrainingRound) -> LossCurve | None:
    """The last short run, and the full trainings after it."""
    shorts = [stage.losses for stage in one.ladder if stage.losses]
    full = [training for training in one.trainings if training.losses]
    if not shorts and not full:
        return None
    steps = max([len(shorts[-1]) if shorts else 1, *(training.steps for training in full)])
    by_repeat = {training.repeat: training.losses for training in full}
    short = shorts[-1] if shorts else ()
    title = f"round {one.number}, {one_line(one.strategy, 40)}"
    return LossCurve(title, steps, by_repeat.get(0, ()), short, len(short), by_repeat.get(1, ()))


def _rungs(training: TrainingHistory) -> list[RungShown]:
    return [
        RungShown(one, dataset, tuple(stage for stage in one.ladder if stage.attempt == dataset.attempt))
        for one in training.rounds
        for dataset in one.datasets
        if dataset.recipe or not dataset.attempt  # one without is no repair: the builder gave up, or did not answer
    ]


def _families(found: AuditResult) -> RoleFamilies:
    marks = [*_gain_marks(found.families), *_whole_role(found)]
    return RoleFamilies(found, tuple(gain_forest(marks, width=width) for width in _WIDTHS if found.families and marks))


def _gain_marks(families: Sequence[FamilyResult]) -> list[GainMark]:
    return [
        GainMark("measured", one_line(one.family or "no family", 13), one.gain, _finite(one.interval))
        for one in families
        if one.gain is not None
    ]


def _whole_role(found: AuditResult) -> list[GainMark]:
    return [] if found.gain is None else [GainMark("measured", "all", found.gain, _finite(found.interval))]


def _finite(ends: tuple[float, float] | None) -> tuple[float, float] | None:
    return ends if ends is not None and all(map(math.isfinite, ends)) else None
