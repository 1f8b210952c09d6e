"""Round 0: what fits together, the start on select, and the noise."""

from __future__ import annotations

import math

from heldout.config import GateConfig
from heldout.errors import SetupError
from heldout.gates import Gate, make_gate
from heldout.gates.two_noises import TwoNoises
from heldout.improvers.training_roles import TrainingImprover
from heldout.loops.noise import measure_noise
from heldout.loops.session import Session, TrainingGround
from heldout.loops.trainings import Trainings
from heldout.loops.weights.evaluating import score
from heldout.loops.weights.options import ImproveOptions
from heldout.loops.weights.state import TRACK, WeightsSearch, weights_of
from heldout.records import Candidate

__all__ = ["begin"]


def begin(session: Session, start: Candidate, options: ImproveOptions) -> WeightsSearch:
    """The state before round 1. `SetupError` for a start, improver, gate or select set that does not fit the loop."""
    improver, ground = _improver(session), _ground(session, start)
    _check_base(ground, start, options)
    Trainings(session, ground, options.backend).check(options.train)
    _check_search(session)
    _check_gate(session, options)
    _check_resolution(session, options)
    _check_floor(session, options)
    scored = session.score_start(start, track=TRACK)
    measure_noise(session, scored, _calibrated(session))
    search = WeightsSearch(session, options, improver, ground, scored, scored)
    if options.decide_on == "train":
        search.start = search.head = session.start = session.heads[TRACK] = score(search, start)
    search.pool.append((0, search.start))
    return search


def _improver(session: Session) -> TrainingImprover:
    if session.trainer is None:
        raise SetupError(
            f"improver.kind = {session.config.improver.kind!r} trains nothing; use training_catalog or training_llm"
        )
    return session.trainer


def _ground(session: Session, start: Candidate) -> TrainingGround:
    if session.ground is None or start.weights is None:
        raise SetupError(
            f"the loop {session.config.loop!r} trains weights, and solver.model.name = "
            f"{session.config.solver.model.name!r} has none that can be trained: use pocket:base, pocket:instruct, "
            "local:FOLDER, or simulated_formats"
        )
    return session.ground


def _check_base(ground: TrainingGround, start: Candidate, options: ImproveOptions) -> None:
    weights = weights_of(start)
    if options.allowed_bases and weights not in options.allowed_bases:
        raise SetupError(
            f"the start's weights {weights} are not among options.allowed_bases "
            f"({', '.join(digest[:12] for digest in options.allowed_bases)})"
        )
    ground.store.check(weights)


def _check_search(session: Session) -> None:
    """What this loop does not do is refused, not passed over."""
    search, loop = session.config.search, session.config.loop
    wrong = {
        "search.candidates": (search.candidates, 1, search.candidates != 1),
        "search.iterate": (search.iterate, True, not search.iterate),
        "search.rerun_incumbent": (search.rerun_incumbent, False, search.rerun_incumbent),
    }
    for key, (value, only, refused) in wrong.items():
        if refused:
            raise SetupError(
                f"{key} = {str(value).lower()} is nothing that the loop {loop!r} can do: it trains one child of the "
                f"head in each round; set {key}={str(only).lower()}"
            )


def _check_gate(session: Session, options: ImproveOptions) -> None:
    """A round's table has the gate's repeats of each select task, no new tasks, and no pilot before it."""
    gate, config = session.gate, session.config.gate
    unlearned = config.kind == "bayes_pilot" and config.prior is None
    if gate.fresh_tasks or unlearned:
        wants = "a pilot, or gate.prior" if unlearned else "new tasks"
        raise SetupError(
            f"gate.kind = {config.kind!r} asks for {wants}, which the loop {session.config.loop!r} does not measure: "
            "use net, greedy, noise or mcnemar"
        )
    if gate.name == TwoNoises.name and not options.training_noise:
        raise SetupError(
            f"gate.kind = {config.kind!r} asks for more than the noise of training, which options.training_noise = "
            "false leaves unmeasured: set options.training_noise=true, or take another gate"
        )


def _check_floor(session: Session, options: ImproveOptions) -> None:
    """A floor decides with its role: that may be neither the audit nor the oracle, which no decision reads."""
    role, config = options.retain.role, session.config
    if options.retain.floor is None:
        return
    reports = config.tasks.reports.keys() & session.tasks.sealed.keys() - {config.audit.oracle}
    if role not in reports:
        there = ", ".join(sorted(reports)) or "none"
        raise SetupError(
            f"options.retain.floor is about the role {role!r}, and a floor decides with a report role (there is "
            f"{there}), never with the audit or the oracle: set tasks.reports.retain, or leave the floor out"
        )


def _check_resolution(session: Session, options: ImproveOptions) -> None:
    """A gain g is resolved where its standard error √(p/n) is at most g/2, with p of the tasks changing."""
    if options.target_gain is None:
        return
    changing, role = session.config.noise.disagreement, options.decide_on
    n = len(session.tasks.select if role == "select" else session.tasks.train)
    needed = math.ceil(changing / (options.target_gain / 200.0) ** 2)
    if n < needed:
        raise SetupError(
            f"{n} {role} tasks cannot resolve a gain of {options.target_gain:g} points (two standard errors, with "
            f"{changing:.0%} of the tasks changing): set tasks.{role} to {needed} or more, or options.target_gain to "
            f"{200 * math.sqrt(changing / n):.1f}"
        )


def _calibrated(session: Session) -> list[Gate]:
    """The run's own rule and the plain one, more fixed than broken, for comparison."""
    own = session.gate
    return [own] if own.name == "net" else [own, make_gate(GateConfig(kind="net"))]
