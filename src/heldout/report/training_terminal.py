"""Views of a loop over model weights for the terminal: rounds, errors, other abilities, waste, where the model lies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from heldout.report.numbers import count, duration, interval, percent, plus_minus, points, signed
from heldout.report.summary import RunSummary
from heldout.report.tables import plain_table
from heldout.report.training_budget import TrainingBudget, budget_of
from heldout.report.training_history import TrainingHistory
from heldout.report.training_rounds import TrainingRound
from heldout.report.untrusted import one_line
from heldout.store.events import AuditResult
from heldout.store.training_events import TrainingNoise

__all__ = ["training_view"]

_FAMILIES = 12
"""Families of one role that are listed, the worst first; the page and the JSON object have all of them."""


def training_view(summary: RunSummary, training: TrainingHistory, *, folder: Path | None = None) -> RenderableType:
    """What a person wants to see of the rounds at once; the page has the rest. `folder` is the run's."""
    budget = budget_of(summary, training)
    parts: list[RenderableType] = []
    if training.rounds:
        parts += [_rounds(training.rounds), _why(training.rounds)]
    parts += [_families(one) for one in summary.reports if one.families]
    lines = [
        one_line(training.dominant_line, 400),
        _wasted(budget),
        _noise(training.noise),
        "" if training.trusted is None else training.trusted.sentence,
        "" if training.selected is None else f"Final selection: {one_line(training.selected.rule, 300)}.",
        _second_seed(summary, training),
    ]
    parts += [_words(line) for line in lines if line]
    parts.append(_where(summary, training, folder))
    return Group(*parts)


def _rounds(rounds: Sequence[TrainingRound]) -> Table:
    table = plain_table(title="Rounds")
    for name in ("round", "focal", "strategy", "status", "select gain", "work"):
        left = name in ("focal", "strategy", "status")
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    for one in rounds:
        table.add_row(
            str(one.number),
            Text(one_line(one.focal, 40) or "-"),
            Text(one_line(one.strategy, 40) or "-"),
            Text(one.state + (f", {one.repairs} repaired" if one.repairs else "")),
            "-" if one.gain is None else f"{signed(one.gain)}\n{interval(one.interval)}",
            "-" if one.spend is None else duration(one.spend.wall_s),
        )
    return table


def _why(rounds: Sequence[TrainingRound]) -> RenderableType:
    """Why a round left the model as it was."""
    lines = [f"Round {one.number}: {one_line(one.reason, 240)}." for one in rounds if one.status != "accepted"]
    return _words("\n".join(lines)) if lines else Text()


def _families(found: AuditResult) -> RenderableType:
    worst = sorted(found.families, key=lambda one: (one.gain is None, one.gain or 0.0, one.family))
    table = plain_table(title=f"Abilities on {one_line(found.role, 40)} by family: start against final")
    for name in ("family", "tasks", "start", "final", "gain", f"{found.confidence * 100:.0f} % interval"):
        table.add_column(name, justify="left" if name == "family" else "right", overflow="fold")
    for one in worst[:_FAMILIES]:
        table.add_row(
            Text(one_line(one.family, 30) or "no family"),
            count(one.n_tasks),
            percent(one.start_mean),
            percent(one.final_mean),
            signed(one.gain),
            interval(one.interval),
        )
    if len(worst) <= _FAMILIES:
        return table
    return Group(table, _words(f"The {_FAMILIES} of {len(worst)} families with the smallest gains."))


def _wasted(budget: TrainingBudget) -> str:
    if budget.wasted_share is None:
        return ""
    whole = f"of the search's {duration(budget.search.wall_s)} of work"
    if not budget.wasted:
        return f"Wasted: 0.0 % {whole}; no attempt was in vain."
    told = "; ".join(f"{one.sentence} ({duration(one.spend.wall_s)})" for one in budget.wasted)
    return f"Wasted: {percent(budget.wasted_share)} {whole} went into attempts that changed nothing: {told}."


def _noise(noise: TrainingNoise | None) -> str:
    if noise is None:
        return ""
    return (
        f"Training noise: one recipe with two seeds differs by {points(noise.difference)} on {count(noise.n)} tasks "
        f"({percent(noise.flips)} of them flip); standard error of one training {plus_minus(noise.standard_error)}."
    )


def _second_seed(summary: RunSummary, training: TrainingHistory) -> str:
    final = training.model(summary.final.digest)
    if final is None or final.kind != "second seed":
        return ""
    return (
        f"The final is the second training of round {final.round}'s recipe, with another seed: no round weighed it, "
        "and the better of two draws looks better than it is on the tasks that it was chosen by. The audit does not."
    )


def _where(summary: RunSummary, training: TrainingHistory, folder: Path | None) -> RenderableType:
    """Where the final model lies, and how it is used without Heldout."""
    weights = training.weights_of(summary.final.digest)
    run = one_line(summary.started.run, 80)
    if weights is None:
        return _words(
            "The final model is the start's own: nothing that was trained took its place. To use it without Heldout: "
            f"heldout export {run} --to model --out DIR"
        )
    place = f"weights/{weights}" if folder is None else f"{folder / 'weights' / weights}"
    title = "Final model, in the run's folder\n " if folder is None else "Final model "
    path = Text.assemble((title, "bold"), place, no_wrap=True, overflow="ignore", end="\n")
    return Group(path, _words(_how(summary, training, run)))


def _how(summary: RunSummary, training: TrainingHistory, run: str) -> str:
    if summary.started.simulated:
        return "Simulated weights (skills.json): there is no model in them to load or to export."
    final = training.model(summary.final.digest)
    export = f"heldout export {run} --to model --out DIR"
    if final is not None and final.method == "lora":
        return f"Adapters; merged on their base into a folder that transformers loads: {export}"
    return f"transformers loads this folder as it is. With a model card: {export}"


def _words(text: str) -> RenderableType:
    return Padding(Text(text), (0, 2, 1, 1))
