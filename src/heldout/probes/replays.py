"""Runs commands again in a fresh environment: reserved on the ledger, graded, and settled, with no model involved."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from heldout.errors import BoundaryError, SetupError, TaskError
from heldout.harness.base import Replayed, Replayer
from heldout.ledger import Ledger
from heldout.probes.base import Trace
from heldout.records import Spend
from heldout.rollouts.engine import Grade

__all__ = ["ATTEMPTS", "REQUESTS", "Replay", "ReplayRunner", "attribution_repeat", "probe_repeat"]

ATTEMPTS = 16
"""Phases that one episode may have: the proposal itself, then repairs."""

REQUESTS = 256
"""Probes that one phase may ask for, refused ones included."""

EPISODES = 1022
"""Episodes of a round, with the meta-episode."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay gave."""

    replayed: Replayed | None
    """None where nothing could be run."""
    score: float | None
    """None where it was not measured."""
    error: str
    spend: Spend


@dataclass(frozen=True, slots=True)
class ReplayRunner:
    """Replays commands of traces for one purpose of the ledger. Safe to use from several threads."""

    replayer: Replayer
    ledger: Ledger
    grade: Grade
    purpose: str = "probe"
    clock: Callable[[], float] = time.perf_counter
    cpu_clock: Callable[[], float] = time.thread_time

    def run(self, trace: Trace, commands: Sequence[str], *, seed: int) -> Replay:
        """Run `commands` on the trace's task. A sandbox or a harness that fails is *not measured*, never a zero.

        `BudgetExhausted` before anything is run; `TaskError` where the grader fails, once what was run is counted.
        """
        reservation = self.ledger.reserve(self.purpose, Spend(evaluations=1))
        begun, cpu = self.clock(), self.cpu_clock()
        replayed: Replayed | None = None
        score: float | None = None
        fault: BoundaryError | None = None
        try:
            replayed = self.replayer.replay(trace.task, commands, seed=seed)
            score = self.grade(trace.task.id, replayed.answer)
        except SetupError:
            reservation.refund()
            raise
        except BoundaryError as error:
            fault = error
        spend = (replayed.spend if replayed else Spend()).model_copy(
            update={
                "evaluations": 1,
                "wall_s": round(self.clock() - begun, 6),
                "cpu_s": round(self.cpu_clock() - cpu, 6),
            }
        )
        reservation.settle(spend)
        if isinstance(fault, TaskError):
            raise fault
        return Replay(replayed, score, str(fault) if fault else "", spend)


def probe_repeat(round: int, episode: int, ordinal: int, *, confirm: bool = False) -> int:
    """The repeat index, and so the paired seed, of one probe: no other probe and no sweep has the same.

    Sweeps number their repeats from 0 and stay far below the first of these.
    """
    if not (round >= 0 and -1 <= episode < EPISODES and 0 <= ordinal < ATTEMPTS * REQUESTS):
        raise ValueError(f"no probe {round!r}/{episode!r}/{ordinal!r}")
    place = (round + 1) * (EPISODES + 2) + episode + 2
    return (place * ATTEMPTS * REQUESTS + ordinal) * 2 + confirm


def attribution_repeat(round: int) -> int:
    """The repeat index of a round's attribution, in the gap that `probe_repeat` leaves."""
    return (round + 1) * (EPISODES + 2) * ATTEMPTS * REQUESTS * 2
