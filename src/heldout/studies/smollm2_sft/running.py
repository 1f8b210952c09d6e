"""Runs the step, or goes on with it, and reads everything back from the run's index."""

from __future__ import annotations

from pathlib import Path

from heldout.config import RunConfig, config_digest
from heldout.report.summary import RUNNING, RunSummary, summary
from heldout.report.training_rounds import TrainingRound
from heldout.store import Index, RunFolder, read_events
from heldout.studies.keeping import Done
from heldout.studies.results import Part
from heldout.studies.smollm2_sft.tables import (
    checks_table,
    cost_table,
    curve_plot,
    curve_table,
    faults_table,
    gains_table,
    strategies_table,
)
from heldout.workbench import Opening, run
from heldout.workbench.replaying import elapsed_s

__all__ = ["one_step"]


def one_step(config: RunConfig, *, runs: Path, command: str, quick: bool = False) -> Done:
    """The one part of the study; its run time is the run's own, by its journal."""
    folder = _finished(config, RunFolder(runs / config_digest(config)[:8]), command)
    with Index.open(folder.path) as index:
        found = summary(index.connection)
    return Done(_part(config, found, quick=quick), elapsed_s(read_events(folder.events)))


def _finished(config: RunConfig, folder: RunFolder, command: str) -> RunFolder:
    """The run's folder, started or continued where its audit was not opened yet."""
    if folder.is_run and folder.events.is_file():
        with Index.open(folder.path) as index:
            found = summary(index.connection)
        if found.status != RUNNING and len(found.reports) == len(config.tasks.reports):
            return folder
    return run(config, Opening(folder.path, command=command, resume=folder.is_run))


def _part(config: RunConfig, found: RunSummary, *, quick: bool) -> Part:
    rounds = found.training.rounds if found.training else ()
    return Part(
        id="step",
        title=f"one step of {found.started.loop} on {config.solver.model.name}",
        simulated=found.started.simulated,
        quick=quick,
        intro=_intro(config, found, rounds),
        tables=(
            gains_table(found),
            faults_table(rounds),
            strategies_table(rounds),
            checks_table(rounds),
            curve_table(rounds),
            cost_table(found),
        ),
        plots=curve_plot(rounds, simulated=found.started.simulated),
        seeds=1,
        config_digests={config.solver.model.name: config_digest(config)},
    )


def _intro(config: RunConfig, found: RunSummary, rounds: tuple[TrainingRound, ...]) -> str:
    asked = ", ".join(config.tasks.options.get("constraints", ("every constraint",)))
    told = [
        f"Tasks of the world `formats` that ask for {asked}; rules grade an answer, which is right or wrong.",
        f"{config.tasks.train} train, {config.tasks.select} select and {config.tasks.audit} audit tasks, "
        f"{sum(config.tasks.reports.values())} of plain skills. One seed.",
    ]
    for one in rounds:
        training = one.training
        told.append(f"Round {one.number}: `{one.strategy}` for the focal problem `{one.focal}`, {one.state}.")
        if training is not None and training.weights is not None:
            told.append(
                f"{training.steps} steps, {training.trained_tokens:,} trained tokens of {training.tokens:,}, "
                f"{training.seconds_per_step:.1f} s a step."
            )
    if found.audit is not None:
        told.append(found.audit.sentence)
    return " ".join(told)
