"""A round's experiments: the probe kit with its pool, the improver's episodes that use it, and attribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from heldout.errors import HeldoutError, ImproverError, ModelError, boundary
from heldout.harness.base import Replayer
from heldout.ledger import lost_with
from heldout.loops.agents.showing import known_signatures, traces_of
from heldout.loops.agents.state import Agents, Round, Swept
from heldout.loops.paying import journal_lost, keep_lost
from heldout.probes import (
    Attribution,
    Laboratory,
    Minimiser,
    MinimiserSettings,
    ProbeKit,
    ProbeNoise,
    ProbePool,
    ProbeRound,
    ProbeSettings,
    ReplayRunner,
    Suggestion,
    Trace,
    probe_noise,
    rates_at_half,
    run_episodes,
)
from heldout.probes.replays import ATTEMPTS, REQUESTS
from heldout.records import Evidence, ProbeKind, Spend
from heldout.store.agent_events import TraceMinimised
from heldout.store.events import NoiseMeasured

__all__ = ["Experiments", "attribute", "noise_of_probes", "offered"]

META_EPISODE = -1

T = TypeVar("T")


@dataclass(slots=True)
class Experiments:
    """One round's laboratory. Episodes run side by side where the executor has several workers."""

    agents: Agents
    kit: ProbeKit

    @classmethod
    def of_round(cls, agents: Agents, which: Round) -> Experiments:
        """The kit of a round, with what it has on record already spent."""
        session, options = agents.session, agents.options.probe
        engine, count = session.engine, session.config.search.candidates
        swept = agents.sweeps[-1]
        kit = ProbeKit(
            round=ProbeRound(
                which.number, agents.head.candidate, agents.bases, traces_of(agents, swept), draw=which.draw
            ),
            engine=engine,
            replays=_replays(agents, purpose="probe"),
            grade=session.tasks.grade,
            check=session.check,
            pool=ProbePool(
                units=options.units * count,
                episodes=count,
                clock=session.clock,
                share=options.share,
                phase_s=options.wall_s,
            ),
            book=session.recorder,
            settings=ProbeSettings(
                kinds=offered(agents), schedule=options.schedule, on=options.on, seed=session.config.seed
            ),
        )
        return cls(agents, kit)

    def episodes(self, jobs: Sequence[Callable[[Laboratory], T]]) -> list[T]:
        """Each job as an episode of its own; what a job raised is raised here, after all of them ended."""
        workers = self.agents.session.engine.executor.workers if self.agents.improver.uses_model else 1
        return [_value(found) for found in run_episodes(jobs, self.kit, workers=workers)]

    def again(self, episode: int, job: Callable[[Laboratory], T], *, attempt: int) -> T:
        """A further phase of an episode: a repair, from 1. Its number alone says where its experiments are on record,
        whatever of the episode this process has run."""
        return _value(run_episodes([job], self.kit, workers=1, episodes=[episode], attempt=attempt)[0])

    def meta(self, job: Callable[[Laboratory], T], *, attempt: int) -> T:
        """A phase of the meta-episode, from 0, which may spend what the round has left."""
        return self.again(META_EPISODE, job, attempt=attempt)

    def evidence(self, *, repairs: bool = True) -> tuple[Evidence, ...]:
        """The round's probes by its proposing episodes, in order; without those of repairs where that is asked.

        A resumed run's journal may hold more than there was when a step was first taken, so each step says which
        probes it rests on.
        """
        recorded = self.agents.session.recorder.every("probe", Evidence)
        last = ATTEMPTS * REQUESTS if repairs else REQUESTS
        chosen = [
            one
            for one in recorded
            if one.round == self.kit.round.number and one.episode != META_EPISODE and one.ordinal < last
        ]
        return tuple(sorted(chosen, key=lambda one: (one.episode, one.ordinal)))


def offered(agents: Agents) -> tuple[ProbeKind, ...]:
    """The kinds of probe of this arm."""
    verify = agents.options.probe.verify
    return {"none": (), "run_episode": (ProbeKind.RUN_EPISODE,), "full": tuple(ProbeKind)}[verify]


def attribute(agents: Agents, number: int, traces: dict[str, Trace]) -> tuple[Attribution, ...]:
    """The minimised traces of a round (spec §4.A); none without full verification or a harness that replays."""
    session, options = agents.session, agents.options.attribute
    replays = _replays(agents, purpose="attribute")
    if replays is None or agents.options.probe.verify != "full" or not options.failures + options.successes:
        return ()
    suggestions = _Suggestions(agents)
    minimiser = Minimiser(
        replays=replays,
        book=session.recorder,
        suggest=suggestions.ask,
        spent=suggestions.spent,
        clock=session.clock,
        seed=session.config.seed,
        settings=MinimiserSettings(
            failures=options.failures,
            successes=options.successes,
            wall_s=options.wall_s,
            workers=min(3, session.engine.executor.workers),
        ),
    )
    try:
        return minimiser.minimise(number, traces.values(), known=known_signatures(agents, number - 1).known)
    except HeldoutError:
        suggestions.keep_lost(number)
        raise


@dataclass(slots=True)
class _Suggestions:
    """The improver's guesses for the minimiser, paid on the ledger and counted by task."""

    agents: Agents
    _spent: dict[str, Spend] = field(default_factory=dict)

    def ask(self, trace: Trace, fault: str) -> tuple[int, ...] | None:
        """None where the improver has no idea, or its model did not answer."""
        found = self._paid(partial(self.agents.improver.suggestion, trace, fault))
        self._spent[trace.task.id] = self.spent(trace.task.id) + found.spend
        return found.keep

    def spent(self, task: str) -> Spend:
        """What was paid for a task's suggestions."""
        return self._spent.get(task, Spend())

    def keep_lost(self, number: int) -> None:
        """Journal what was paid for traces of this round that will not be finished."""
        session = self.agents.session
        for task, spend in self._spent.items():
            if session.recorder.find("attribution", f"{number}/{task}", TraceMinimised) is None:
                journal_lost(session, "attribute", spend)

    def _paid(self, ask: Callable[[], Suggestion]) -> Suggestion:
        session, improver = self.agents.session, self.agents.improver
        reservation = session.ledger.reserve("attribute", session.ledger.price(session.improver_model, improver.bound))
        try:
            with boundary(ImproverError, "the improver raised when it was asked which commands to keep"):
                found = ask()
        except ModelError as error:
            found = Suggestion(None, lost_with(error))
        except HeldoutError as error:
            keep_lost(session, reservation, error)
            raise
        spend = session.ledger.price(session.improver_model, found.spend)
        reservation.settle(spend)
        return Suggestion(found.keep, spend)


def noise_of_probes(agents: Agents, noise: NoiseMeasured, swept: Swept) -> ProbeNoise:
    """What a draft without effect would show, from the run's own start against itself."""
    scores = np.array([np.nan if one.score is None else one.score for one in swept.outcomes.values()])
    measured = scores[~np.isnan(scores)]
    failing = float((measured < 0.5).mean()) if measured.size else 0.5
    differ = noise.flip_rate if noise.flip_rate is not None else noise.disagreement
    screen = agents.options.screen
    return probe_noise(
        rates_at_half(min(differ, 0.5), failing=failing),
        failing=screen.tasks - screen.canaries,
        passing=screen.canaries,
        screens=agents.session.config.search.candidates,
    )


def _replays(agents: Agents, *, purpose: str) -> ReplayRunner | None:
    session = agents.session
    harness: Replayer | None = session.replayer
    return None if harness is None else ReplayRunner(harness, session.ledger, session.tasks.grade, purpose)


def _value(found: T | BaseException) -> T:
    if isinstance(found, BaseException):
        raise found
    return found
