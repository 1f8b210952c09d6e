"""What a round's improvers are shown: traces with feedback, minimised failures, the ledger, a report."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

from heldout.harness import ended_by, steps_of
from heldout.improvers.agent import RoundView
from heldout.improvers.evidence import Materials, make_evidence, mean_turns
from heldout.improvers.guidance import round_guidance
from heldout.loops.agents.state import Agents, Round, Shown, Swept
from heldout.loops.proposing import step_seed
from heldout.probes import FailureLedger, Trace, seen_in_sweep
from heldout.records import Candidate, TrainTask
from heldout.rollouts import Sweep
from heldout.store.agent_events import RoundStarted, SignatureSeen

__all__ = ["HISTORY", "known_signatures", "record_signatures", "round_views", "show", "traces_of"]

HISTORY = 8
"""Rounds that an improver is told of."""

EXECUTOR_FILES = ("protocol.py", "loop_episode.py", "observations.py", "context.py", "hook_surface.py")
"""Of the tool loop: its rules, its turns, what it cuts, and what hooks may do."""


def traces_of(agents: Agents, swept: Swept) -> dict[str, Trace]:
    """The newest episode of every train task, without its reference answer."""
    session = agents.session
    sweep = Sweep(swept.candidate, session.tasks.train, "train", swept.repeat)
    keys = session.engine.keys(sweep)
    return {task.id: _trace(agents, swept, task, key) for task, key in zip(session.tasks.train, keys, strict=True)}


def _trace(agents: Agents, swept: Swept, task: TrainTask, key: str) -> Trace:
    session, outcome = agents.session, swept.outcomes[task.id]
    kept = session.traces.load(key)
    passed = swept.passed(task.id)
    failed = passed is False and kept is not None
    return Trace(
        task=task.model_copy(update={"reference": ""}),
        passed=passed,
        steps=() if kept is None else steps_of(kept),
        feedback=session.tasks.explain(task.id, kept.answer) if failed and kept is not None else "",
        error=outcome.error or ended_by(outcome.measures),
        measures=outcome.measures,
    )


def record_signatures(agents: Agents, number: int, traces: dict[str, Trace]) -> None:
    """Put a sweep's failures in the ledger, with what attribution found of them."""
    for seen in seen_in_sweep(number, traces.values(), attributions=agents.attributions):
        agents.session.recorder.record("ledger.signature", seen)


def known_signatures(agents: Agents, number: int) -> FailureLedger:
    """The failure ledger as it was on record in this round; a resumed run's journal may know later ones."""
    recorder = agents.session.recorder
    started = [one for one in recorder.every("round.started", RoundStarted) if 0 < one.round <= number]
    sweeps = [one.round for one in started if one.swept or one.round == 1]
    seen = [one for one in recorder.every("ledger.signature", SignatureSeen) if one.round <= number]
    return FailureLedger.replay(seen, sweeps=sweeps)


def show(agents: Agents, number: int, traces: dict[str, Trace]) -> Shown:
    """The evidence that all of a round's episodes share."""
    attributions, ledger = agents.attributions, known_signatures(agents, number)
    turns_passed, turns_failed = mean_turns(traces.values())
    verified = agents.options.probe.verify != "none"
    entries = ledger.entries() if verified and agents.options.attribute.ledger else ()
    materials = Materials(
        round=number,
        traces=traces,
        attributions=attributions,
        ledger=entries,
        history=tuple(agents.notes[-HISTORY:]),
        turns_passed=turns_passed,
        source=executor_source(),
        turns_failed=turns_failed,
    )
    report = make_evidence(agents.options.evidence).report(materials)
    return Shown(report.text, report.files, traces, attributions, entries)


def round_views(agents: Agents, which: Round, shown: Shown, method: Candidate) -> list[RoundView]:
    """One view for each of the round's episodes; they differ in guidance and seed."""
    session = agents.session
    count = session.config.search.candidates
    blocks = round_guidance(
        method.files,
        count,
        self_edit=agents.options.method.self_edit,
        probes=agents.options.probe.verify != "none",
    )
    return [
        RoundView(
            round=which.number,
            episode=episode,
            seed=step_seed(session.config.seed, which.draw, episode),
            head=_copy(agents.head.candidate),
            bases={round_: _copy(base) for round_, base in agents.bases.items()},
            method=_copy(method),
            guidance=blocks[episode],
            description=session.tasks.description,
            report=shown.report,
            traces=shown.traces,
            attributions=shown.attributions,
            ledger=shown.ledger,
            history=tuple(agents.notes[-HISTORY:]),
            noise=agents.noise,
            dead_edits=frozenset(agents.dead),
            run_seed=session.config.seed,
            files=shown.files,
        )
        for episode in range(count)
    ]


@lru_cache(maxsize=1)
def executor_source() -> Mapping[str, str]:
    """The code that runs an agent's episodes, which an improver may read and not edit."""
    folder = resources.files("heldout.harness")
    return {name: (folder / name).read_text(encoding="utf-8") for name in EXECUTOR_FILES}


def _copy(candidate: Candidate) -> Candidate:
    """An improver that edits what it was shown changes nobody's head."""
    return candidate.model_copy(update={"files": dict(candidate.files)})
