"""Is the improver's edited method any better? One round under each, on the same head and seeds (spec §6, point 6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from heldout.loops.agents.attempting import attempt
from heldout.loops.agents.experiments import Experiments
from heldout.loops.agents.showing import show, traces_of
from heldout.loops.agents.state import METHOD, Agents, Round
from heldout.loops.agents.sweeping import confirm, sweep_train
from heldout.records import Candidate
from heldout.stats import mean_interval
from heldout.store.agent_events import MethodAudited
from heldout.store.events import CandidateAdded

__all__ = ["audit_method"]


def audit_method(agents: Agents) -> None:
    """Recorded as `meta_audit`; nothing is kept of what these two rounds propose."""
    session = agents.session
    start_method = _start_method(agents)
    if not agents.options.method.audit or start_method.digest == agents.method.digest:
        return
    if agents.sweeps[-1].candidate.digest != agents.head.candidate.digest:
        sweep_train(agents)
    draw = session.config.search.generations + 1
    gains = [
        _gain(agents, Round(draw + index, draw=draw), method)
        for index, method in enumerate((start_method, agents.method))
    ]
    session.recorder.record("meta_audit", _judged(agents, start_method, *gains))


def _start_method(agents: Agents) -> Candidate:
    """The folder that the method track began with."""
    entries = agents.session.recorder.every("candidate", CandidateAdded)
    return agents.session.store.load(next(one.digest for one in entries if one.track == METHOD))


def _gain(agents: Agents, which: Round, method: Candidate) -> NDArray[np.float64]:
    """Per select task, what one round under this method gains on the head, shape (n,); all zero without a candidate."""
    swept = agents.sweeps[-1]
    shown = show(agents, which.draw, traces_of(agents, swept))
    experiments = Experiments.of_round(agents, which)
    attempted = attempt(agents, which, shown, method, experiments)
    head = agents.head.select
    if attempted.winner is None or attempted.winner.digest is None:
        return np.where(np.isnan(head), np.nan, 0.0)
    candidate = agents.session.store.load(attempted.winner.digest)
    _, measured = confirm(agents, which, candidate, base=agents.head)
    return measured.select - head


def _judged(
    agents: Agents, start_method: Candidate, start: NDArray[np.float64], final: NDArray[np.float64]
) -> MethodAudited:
    difference = final - start
    measured = difference[~np.isnan(difference)]
    found = mean_interval(measured, confidence=0.95)
    return MethodAudited(
        head=agents.head.candidate.digest,
        start_method=start_method.digest,
        final_method=agents.method.digest,
        start_gain=_mean(start),
        final_gain=_mean(final),
        n=int(measured.size),
        difference=_mean(difference),
        interval=found.interval,
        sentence=_sentence(found.interval),
    )


def _mean(values: NDArray[np.float64]) -> float | None:
    measured = values[~np.isnan(values)]
    return float(measured.mean()) if measured.size else None


def _sentence(interval: tuple[float, float] | None) -> str:
    once = "one round under each method, on the select tasks"
    if interval is None or interval[0] <= 0.0 <= interval[1]:
        return f"Whether the edited method proposes better edits is undecided ({once})."
    better = "better" if interval[0] > 0.0 else "worse"
    return f"The edited method proposed the {better} edit ({once}); one round says little of the next."
