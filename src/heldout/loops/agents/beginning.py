"""Round 0: the start on train and select, the noise, and what a no-effect edit would show."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heldout.config import GateConfig
from heldout.errors import SetupError
from heldout.gates import Gate, make_gate
from heldout.improvers.method import check_method, method_candidate
from heldout.loops.agents.experiments import noise_of_probes
from heldout.loops.agents.options import VerseOptions
from heldout.loops.agents.state import HARNESS, METHOD, Agents, Kept
from heldout.loops.agents.sweeping import measured_sweep, sweep_train
from heldout.loops.noise import measure_noise
from heldout.loops.session import Scored, Session
from heldout.options import read_options
from heldout.probes import ProbeNoise
from heldout.records import Candidate
from heldout.rollouts import Sweep
from heldout.store import read_folder
from heldout.store.agent_events import RoundStarted
from heldout.store.events import CandidateAdded

__all__ = ["begin"]

NO_NOISE = ProbeNoise(
    disagreement=0.0, false_flip=0.0, false_confirmed=0.0, false_support=0.0, screen_net=0.0, screen_best=0.0
)
"""Until the start was measured."""


def begin(session: Session, start: Candidate) -> Agents:
    """The state before round 1. `SetupError` for an improver that is no agent, a gate that asks for what this loop does
    not measure, or a method folder with faults."""
    options = read_options(VerseOptions, session.config.options, where="the loop 'verse'")
    if session.agent is None:
        raise SetupError(f"improver.kind = {session.config.improver.kind!r} edits no folders; use catalog or llm")
    _check_gate(session)
    method = _start_method(session, options)
    first = _score_start(session, start, options)
    session.add_candidate(
        method, CandidateAdded(digest=method.digest, parent=None, track=METHOD, generation=0, index=0)
    )
    noise = measure_noise(session, first, _calibrated(session))
    agents = Agents(session, options, session.agent, NO_NOISE, start, method)
    agents.kept.append(Kept(0, start, first.scores[:, 0]))
    started = RoundStarted(round=0, head=start.digest, method=method.digest, swept=True, why="the start")
    session.recorder.record("round.started", started)
    swept = sweep_train(agents)
    agents.noise = noise_of_probes(agents, noise, swept)
    return agents


def _check_gate(session: Session) -> None:
    """A round's table has one measurement of each select task, no new tasks, and no pilot before it."""
    gate, config = session.gate, session.config.gate
    unlearned = config.kind == "bayes_pilot" and config.prior is None
    if gate.repeats > 1 or gate.fresh_tasks or unlearned:
        wants = "a pilot, or gate.prior" if unlearned else "repeats" if gate.repeats > 1 else "new tasks"
        raise SetupError(
            f"gate.kind = {config.kind!r} asks for {wants}, which the loop 'verse' does not measure: it confirms flips "
            "instead; use keep_all, net, dual_split, near_best or manifest"
        )


def _score_start(session: Session, start: Candidate, options: VerseOptions) -> Scored:
    """The start on select, what is missing retried as in every select sweep, once anything could be measured."""
    first = session.score_start(start, track=HARNESS)
    if not np.isnan(first.scores).any():
        return first
    measured_sweep(session, Sweep(start, session.tasks.select, "select"), options.select)
    return session.score_start(start, track=HARNESS)


def _start_method(session: Session, options: VerseOptions) -> Candidate:
    assert session.agent is not None
    folder = options.method.start
    files = session.agent.start_method if folder is None else read_folder(Path(folder)).files
    method = method_candidate(files)
    ids = frozenset(task for members in session.tasks.plan.values() for task, _ in members)
    faults = check_method(method.files, task_ids=ids)
    if faults:
        raise SetupError(f"the start method folder is not usable: {'; '.join(faults)}")
    return method


def _calibrated(session: Session) -> list[Gate]:
    """The run's own rule and `net`, for comparison."""
    own = session.gate
    return [own] if own.name == "net" else [own, make_gate(GateConfig(kind="net"))]
