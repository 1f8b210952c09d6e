"""Open a run's folder and assemble everything that a loop or an audit needs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import heldout
from heldout.config import ImproverConfig, RunConfig, changed_keys, config_digest
from heldout.errors import BudgetExhausted, HarnessError, SetupError, TaskError, boundary
from heldout.gates import Gate, make_gate
from heldout.harness import Harness, Replayer, make_harness, start_files
from heldout.harness.prompt_files import INSTRUCTION_FILE
from heldout.improvers import (
    Improver,
    improver_class,
    make_agent_improver,
    make_improver,
    make_skill_improver,
    make_training_improver,
)
from heldout.improvers.agent import AgentImprover
from heldout.improvers.skill_roles import SkillImprover
from heldout.improvers.training_roles import TrainingImprover
from heldout.ledger import Ledger
from heldout.loops import CandidateStore, Recorder, Session, edits_of
from heldout.models import SIMULATIONS, Model, check_bound, check_model, check_simulation, make_model
from heldout.models.simulated import answer_key
from heldout.records import Candidate, Spend, Task
from heldout.rollouts import Engine, Executor, Progress, QuietProgress, make_executor
from heldout.store import FolderTraces, Journal, RunFolder, RunLock, read_folder, save_blob
from heldout.store.events import Event, Prepared, RunResumed, RunStarted, SplitMade
from heldout.tasks import TaskSet, load_source, load_tasks
from heldout.workbench.guards import guard_harness, guard_model
from heldout.workbench.judging import judging_model
from heldout.workbench.replaying import elapsed_s, replay_ledger
from heldout.workbench.serving import serve_weights, with_weights

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


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a config names, made; nothing is written or asked yet."""

    tasks: TaskSet
    model: Model
    improver_model: Model
    executor: Executor
    harness: Harness
    improver: Improver | None
    agent: AgentImprover | None
    skills: SkillImprover | None
    trainer: TrainingImprover | None
    replayer: Replayer | None
    gate: Gate
    check: Callable[[Candidate], str | None]
    start: Candidate

    @property
    def asks_model(self) -> bool:
        """Whether proposals cost model calls."""
        return any(one is not None and one.uses_model for one in (self.improver, self.agent, self.skills, self.trainer))


@dataclass(frozen=True, slots=True)
class _Improvers:
    """One of them is there: what the improver changes decides which."""

    whole: Improver | None = None
    agent: AgentImprover | None = None
    skills: SkillImprover | None = None
    trainer: TrainingImprover | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """The run's folder, locked, with its journal open."""

    folder: RunFolder
    journal: Journal


@contextmanager
def open_run(config: RunConfig, opening: Opening) -> Iterator[OpenRun]:
    """Lock the folder, replay its journal, and close everything at the end, whatever happened.

    Raises `SetupError` or `TaskError` before anything is written where the tasks, the models, the gate or the folder
    are not usable. Each opening asks every model one tiny question first, which is journaled and counted as `check`.
    """
    with ExitStack() as stack:
        parts = _make(config, stack)
        written = _reopen(config, opening, stack) if opening.resume else None
        events = () if written is None else tuple(written.journal.read_from(0))
        begun = time.monotonic() - elapsed_s(events)
        ledger = replay_ledger(config, events, elapsed_s=lambda: time.monotonic() - begun)
        checks = _check_models(config, parts, ledger)
        written = written or _create(config, opening, stack)
        served = serve_weights(parts.model, written.folder)
        recorder = Recorder.replay(written.journal, events)
        session = _session(config, parts, opening, written=written, recorder=recorder, ledger=ledger)
        session.ground = None if served is None else served.ground
        _first_events(session, opening, folder=written.folder, events=events, dropped=written.journal.dropped)
        for number, spend in enumerate(checks):
            key = f"check/{len(events)}/{number}"
            written.journal.append("prepared", Prepared(key=key, purpose="check", values={}, spend=spend))
        yield OpenRun(written.folder, session, with_weights(parts.start, served))


def _make(config: RunConfig, stack: ExitStack) -> _Parts:
    with boundary(TaskError, f"the task source {config.tasks.source!r}"):
        tasks = load_tasks(config.tasks, fresh=_spare_tasks(config))
    solver, proposer = config.solver, config.improver
    in_folders = tasks.environment is not None and ":" not in solver.harness
    check_simulation(solver.model.name, source=config.tasks.source, in_folders=in_folders)
    with boundary(SetupError, f"the model {solver.model.name!r} cannot be made"):
        model = guard_model(_solver_model(config))
    stack.callback(model.close)
    # A model of its own, so that nothing of the solver's is reachable from an improver.
    improver_config = proposer.model or solver.model
    with boundary(SetupError, f"the model {improver_config.name!r} cannot be made"):
        improver_model = guard_model(make_model(improver_config))
    stack.callback(improver_model.close)
    _refuse_hasty_executor(config)
    executor = make_executor(config.executor)
    stack.callback(executor.close)
    _refuse_images(config, tasks)
    with boundary(SetupError, f"the harness {solver.harness!r} cannot be made"):
        made = make_harness(solver, labels=tasks.labels, environment=tasks.environment)
        harness = guard_harness(made, name=solver.harness)
    with boundary(SetupError, f"the improver {proposer.kind!r} cannot be made"):
        improvers = _improvers(proposer, improver_model)
    with boundary(SetupError, f"the gate {config.gate.kind!r} cannot be made"):
        gate = make_gate(config.gate, prior=config.gate.prior or BEFORE_THE_PILOT)
    check = partial(_fault, harness, model, tasks.select[0])
    start = _start(config, tasks, check)
    return _Parts(
        tasks=tasks,
        model=model,
        improver_model=improver_model,
        executor=executor,
        harness=harness,
        replayer=cast(Replayer, harness) if harness.replayable else None,
        improver=improvers.whole,
        agent=improvers.agent,
        skills=improvers.skills,
        trainer=improvers.trainer,
        gate=gate,
        check=check,
        start=start,
    )


def _improvers(config: ImproverConfig, model: Model) -> _Improvers:
    edits = edits_of(improver_class(config.kind))
    if edits == "weights":
        return _Improvers(trainer=make_training_improver(config, model=model))
    if edits == "skills":
        return _Improvers(skills=make_skill_improver(config, model=model))
    if edits == "folders":
        return _Improvers(agent=make_agent_improver(config, model=model))
    return _Improvers(whole=make_improver(config, model=model))


def _session(
    config: RunConfig, parts: _Parts, opening: Opening, *, written: _Written, recorder: Recorder, ledger: Ledger
) -> Session:
    traces = FolderTraces(written.folder.traces)
    engine = Engine(
        harness=parts.harness,
        model=parts.model,
        executor=parts.executor,
        ledger=ledger,
        append=written.journal.append,
        seed=config.seed,
        attempts=1 if parts.model.simulated else 1 + config.solver.model.retries,
        recorded=recorder.outcomes,
        prepared=recorder.prepared,
        progress=opening.progress,
        keep_trace=traces.save,
        keep_artifact=partial(_keep_artifact, written.folder),
    )
    return Session(
        config=config,
        tasks=parts.tasks,
        recorder=recorder,
        ledger=ledger,
        engine=engine,
        improver=parts.improver,
        improver_model=parts.improver_model.name,
        gate=parts.gate,
        store=CandidateStore(save=written.folder.save, load=written.folder.load),
        check=parts.check,
        agent=parts.agent,
        skills=parts.skills,
        trainer=parts.trainer,
        replayer=parts.replayer,
        traces=traces,
    )


def _keep_artifact(folder: RunFolder, name: str, text: str) -> str:
    """In the folder of its digest, like a candidate; it enters no lineage."""
    kept = Candidate(files={name: text})
    folder.save(kept)
    return kept.digest


def _check_models(config: RunConfig, parts: _Parts, ledger: Ledger) -> tuple[Spend, ...]:
    """Ask the solver's model, and the improver's where it is another one that is used; what that cost.

    A simulation is not asked, and neither is anything that the budget has no room for.
    """
    asked = [(parts.model, config.solver.model, config.solver.answer == "choose", _system_turn(config, parts))]
    if config.improver.model is not None and parts.asks_model:
        asked.append((parts.improver_model, config.improver.model, False, ""))
    spends = []
    for model, settings, choose, instruction in asked:
        if model.simulated:
            continue
        bound = check_bound(instruction).model_copy(update={"calls": 1 + settings.retries})
        try:
            reservation = ledger.reserve("check", ledger.price(model.name, bound))
        except BudgetExhausted:
            continue
        reply = check_model(model, choose=choose, instruction=instruction)
        spend = Spend(calls=reply.calls, tokens_in=reply.tokens_in, tokens_out=reply.tokens_out)
        spends.append(ledger.price(model.name, spend))
        reservation.settle(spends[-1])
    return tuple(spends)


def _system_turn(config: RunConfig, parts: _Parts) -> str:
    """What a harness of one request says before the task, to a model whose chat template is a file of the user's."""
    if config.solver.harness not in ("prompt", "completion") or not getattr(parts.model, "serves_weights", False):
        return ""
    return parts.start.files.get(INSTRUCTION_FILE, "").strip()


def _refuse_images(config: RunConfig, tasks: TaskSet) -> None:
    """A sandbox without images would measure no task that needs one."""
    kind = str(config.solver.options.get("sandbox", "bubblewrap"))
    if tasks.environment is None or kind != "bubblewrap":
        return
    image = tasks.environment.scene(tasks.select[0], seed=0).image
    if image is not None:
        raise SetupError(
            f"the tasks of {config.tasks.source!r} need container images (the first {image!r}), which bubblewrap "
            "cannot run: set solver.options.sandbox = 'docker'"
        )


def _refuse_hasty_executor(config: RunConfig) -> None:
    """A job that is killed while its model still retries would turn an outage into failures."""
    model, executor = config.solver.model, config.executor
    patience_s = model.timeout_s * (1 + model.retries)
    if executor.kind == "process" and model.name != "simulated" and executor.timeout_s < patience_s:
        raise SetupError(
            f"executor.timeout_s = {executor.timeout_s:g} is less than what the model may take with its retries "
            f"({patience_s:g} s): raise it, or lower solver.model.timeout_s or solver.model.retries"
        )


def _spare_tasks(config: RunConfig) -> int:
    """Select-role tasks beyond the select set: fresh ones for each generation, or a pilot's."""
    if config.gate.kind == "fresh":
        return config.gate.fresh * config.search.generations
    if config.gate.kind == "bayes_pilot" and config.gate.prior is None:
        return config.gate.pilot_tasks
    return 0


def _solver_model(config: RunConfig) -> Model:
    """The solver's model. Only the simulation is given the answers, as digests of inputs; no improver holds it."""
    if config.solver.model.name.partition(":")[0] not in SIMULATIONS:
        return make_model(config.solver.model)
    return make_model(config.solver.model, answer_key=answer_key(load_source(config.tasks).items()))


def _reopen(config: RunConfig, opening: Opening, stack: ExitStack) -> _Written:
    """The folder to resume, whose config must be the same but for limits and executor."""
    folder = RunFolder.find(opening.folder)
    changed = changed_keys(folder.load_config(), config)
    if changed:
        raise SetupError(
            f"{str(folder.path)!r} was written by another config, so it cannot be resumed with this one. Changed:\n  "
            + "\n  ".join(changed)
            + "\nResume with the config it has, or start another run with --out."
        )
    return _locked(folder, stack, config=None)


def _create(config: RunConfig, opening: Opening, stack: ExitStack) -> _Written:
    return _locked(RunFolder.create(opening.folder), stack, config=config)


def _locked(folder: RunFolder, stack: ExitStack, *, config: RunConfig | None) -> _Written:
    stack.enter_context(RunLock.acquire(folder.lock))
    if config is not None:
        folder.save_config(config)
    journal = Journal.open(folder.events)
    stack.callback(journal.close)
    return _Written(folder, journal)


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
        start = Candidate(files=start_files(config.solver, _instruction(config, tasks)))
    fault = check(start)
    if fault is not None:
        raise SetupError(f"the start candidate is not usable: {fault}")
    return start


def _instruction(config: RunConfig, tasks: TaskSet) -> str:
    return tasks.instruction if config.solver.instruction is None else config.solver.instruction


def _unpriced(config: RunConfig, session: Session) -> tuple[str, ...]:
    """Served models that a dollar limit cannot see."""
    called = {session.engine.model.name}
    if session.asks_model:
        called.add(session.improver_model)
    judge = judging_model(config)
    if judge is not None:
        called.add(judge.name)
    return tuple(sorted(name for name in called if name.startswith("openai") and name not in config.budget.prices))


def _simulates_improver(session: Session) -> bool:
    """An improver's class says so with the flag `simulated`."""
    improvers = (session.improver, session.agent, session.skills, session.trainer)
    return any(bool(getattr(one, "simulated", False)) for one in improvers)


def _first_events(
    session: Session, opening: Opening, *, folder: RunFolder, events: Sequence[Event], dropped: str
) -> None:
    """What a run begins with, or the note that it goes on."""
    config, recorder = session.config, session.recorder
    begun = recorder.find("run.started", "", RunStarted)
    if begun is not None and begun.config_digest != config_digest(config):
        raise SetupError(
            f"{str(folder.config)!r} was changed since the run began: its digest is {config_digest(config)[:12]}, and "
            f"the journal says {begun.config_digest[:12]}. Restore it, or start another run."
        )
    if begun is None:
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
            unpriced=_unpriced(config, session),
            simulated_improver=_simulates_improver(session),
        )
        recorder.record("run.started", started)
    if events:
        recorder.add("run.resumed", RunResumed(events=len(events), dropped=dropped))
    split = SplitMade(roles=session.tasks.sizes, digest=session.tasks.plan_digest, dropped=session.tasks.dropped)
    recorder.record("split", split)
    save_blob(folder.blobs, json.dumps(session.tasks.plan), name="splits.json")
