"""Open a run's folder and assemble everything that a loop or an audit needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import heldout
from heldout.config import RunConfig, changed_keys, config_digest
from heldout.errors import HarnessError, SetupError
from heldout.gates import make_gate
from heldout.harness import Harness, make_harness
from heldout.improvers import make_improver
from heldout.loops import CandidateStore, Recorder, Session
from heldout.models import Model, check_model, make_model
from heldout.models.simulated import answer_key
from heldout.records import Candidate, Task
from heldout.rollouts import Engine, Progress, QuietProgress, make_executor
from heldout.store import (
    Journal,
    RunFolder,
    RunLock,
    read_folder,
)
from heldout.store.events import Event, RunResumed, RunStarted, SplitMade
from heldout.tasks import TaskSet, load_source, load_tasks
from heldout.workbench.replaying import elapsed_s, replay_ledger

__all__ = ["BEFORE_THE_PILOT", "OpenRun", "Opening", "open_run"]

BEFORE_THE_PILOT = (0.0, 0.05)
"""Prior that a `bayes_pilot` gate is made with; the loop's pilot replaces it before any decision."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How a run's folder is opened."""

    folder: Path
    command: str
    resume: bool = False
    progress: Progress = field(default_factory=QuietProgress)


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that this process may write to."""

    folder: RunFolder
    session: Session
    start: Candidate


@contextmanager
def open_run(config: RunConfig, opening: Opening) -> Iterator[OpenRun]:
    """Lock the folder, replay its journal, and close everything at the end, whatever happened.

    Raises `SetupError` before anything is written where the tasks, the model, the gate or the folder are not usable.
    """
    with ExitStack() as stack:
        tasks = load_tasks(config.tasks, fresh=_spare_tasks(config))
        model = _solver_model(config)
        stack.callback(model.close)
        improver_model = _improver_model(config)
        stack.callback(improver_model.close)
        executor = make_executor(config.executor)
        stack.callback(executor.close)
        check_model(model, choose=config.solver.answer == "choose")
        folder = _folder(config, opening)
        stack.enter_context(RunLock.acquire(folder.lock))
        if not opening.resume:
            folder.save_config(config)
        journal = Journal.open(folder.events)
        stack.callback(journal.close)
        events = tuple(journal.read_from(0))
        begun = time.monotonic() - elapsed_s(events)
        ledger = replay_ledger(config, events, elapsed_s=lambda: time.monotonic() - begun)
        recorder = Recorder.replay(journal, events)
        harness = make_harness(config.solver, labels=tasks.labels)
        session = Session(
            config=config,
            tasks=tasks,
            recorder=recorder,
            ledger=ledger,
            engine=Engine(
                harness=harness,
                model=model,
                executor=executor,
                ledger=ledger,
                append=journal.append,
                seed=config.seed,
                recorded=recorder.outcomes,
                prepared=recorder.prepared,
                progress=opening.progress,
            ),
            improver=make_improver(config.improver, model=improver_model),
            improver_model=improver_model.name,
            gate=make_gate(config.gate, prior=config.gate.prior or BEFORE_THE_PILOT),
            store=CandidateStore(
                save=folder.save,
                load=folder.load,
            ),
            check=partial(_fault, harness, model, tasks.select[0]),
        )
        start = _start(config, tasks, session.check)
        _first_events(session, opening, folder=folder, events=events, dropped=journal.dropped)
        yield OpenRun(folder, session, start)


def _spare_tasks(config: RunConfig) -> int:
    """Select-role tasks beyond the select set: fresh ones for each generation, or a pilot's."""
    if config.gate.kind == "fresh":
        return config.gate.fresh * config.search.generations
    if config.gate.kind == "bayes_pilot" and config.gate.prior is None:
        return config.gate.pilot_tasks
    return 0


def _solver_model(config: RunConfig) -> Model:
    """The solver's model. Only the simulation is given the answers, as digests of inputs; no improver holds it."""
    if config.solver.model.name != "simulated":
        return make_model(config.solver.model)
    return make_model(config.solver.model, answer_key=answer_key(load_source(config.tasks).items()))


def _improver_model(config: RunConfig) -> Model:
    """A model of its own, so that nothing of the solver's is reachable from an improver."""
    return make_model(config.improver.model or config.solver.model)


def _folder(config: RunConfig, opening: Opening) -> RunFolder:
    """The run's folder: new, or the one to resume, whose config must be the same but for limits and executor."""
    if not opening.resume:
        return RunFolder.create(opening.folder)
    folder = RunFolder.find(opening.folder)
    changed = changed_keys(folder.load_config(), config)
    if changed:
        raise SetupError(
            f"{str(folder.path)!r} was written by another config, so it cannot be resumed with this one. Changed:\n  "
            + "\n  ".join(changed)
            + "\nResume with the config it has, or start another run with --out."
        )
    return folder


def _fault(harness: Harness, model: Model, task: Task, candidate: Candidate) -> str | None:
    """What keeps the harness from running a candidate, or None."""
    try:
        harness.bound(candidate, task, model)
    except HarnessError as error:
        return str(error)
    return None


def _start(config: RunConfig, tasks: TaskSet, check: Callable[[Candidate], str | None]) -> Candidate:
    if config.solver.start is not None:
        start = read_folder(Path(config.solver.start))
    else:
        instruction = config.solver.instruction or tasks.instruction
        start = Candidate(files={"instruction.md": instruction.strip() + "\n", "demonstrations.jsonl": ""})
    fault = check(start)
    if fault is not None:
        raise SetupError(f"the start candidate is not usable: {fault}")
    return start


def _first_events(
    session: Session, opening: Opening, *, folder: RunFolder, events: Sequence[Event], dropped: str
) -> None:
    """What a run begins with, or the note that it goes on."""
    config, recorder = session.config, session.recorder
    if recorder.find("run.started", "", RunStarted) is None:
        started = RunStarted(
            run=folder.name,
            loop=config.loop,
            config_digest=config_digest(config),
            heldout=heldout.__version__,
            command=opening.command,
            simulated=session.engine.model.simulated,
            solver=session.engine.model.name,
            improver=config.improver.kind,
            description=session.tasks.description,
            source=config.tasks.source,
        )
        recorder.record("run.started", started)
    if events:
        recorder.add("run.resumed", RunResumed(events=len(events), dropped=dropped))
    split = SplitMade(roles=session.tasks.sizes, digest=session.tasks.plan_digest, dropped=session.tasks.dropped)
    recorder.record("split", split)
