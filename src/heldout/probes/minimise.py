"""Attribution: the smallest part of a trace that still shows what happened (arXiv 2610.02616; specification, §4.A)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from heldout.harness.base import Replayed
from heldout.probes.base import Attribution, Trace
from heldout.probes.book import Book
from heldout.probes.ledger import clustered
from heldout.probes.reduction import Reduction, Shown, Suggest
from heldout.probes.replays import ReplayRunner, attribution_repeat
from heldout.probes.signatures import replayed_classes, signature
from heldout.records import Record, Spend, digest_of
from heldout.rollouts.engine import ANSWER_CHARACTERS, paired_seed
from heldout.rollouts.executors import ThreadExecutor
from heldout.store.agent_events import CommandsReplayed, TraceMinimised

__all__ = ["Minimiser", "MinimiserSettings", "chosen_traces"]


class MinimiserSettings(Record):
    """How much is minimised in a round, outside the pool of probes."""

    failures: int = 6
    successes: int = 2
    wall_s: float = 2400.0
    """When this has passed no further replay begins, and what is unfinished is discarded."""
    workers: int = 3


@dataclass(frozen=True, slots=True)
class Minimiser:
    """Minimises traces. Every replay and every finished trace is on record, so that nothing is paid twice.

    All replays of a trace run at one seed, a new one: they differ in their commands alone, and a failure that was an
    accident of its own seed does not reproduce and is discarded.
    """

    replays: ReplayRunner
    book: Book
    suggest: Suggest
    clock: Callable[[], float]
    """Seconds, ascending."""
    seed: int
    """The run's."""
    settings: MinimiserSettings = field(default_factory=MinimiserSettings)
    spent: Callable[[str], Spend] = lambda _task: Spend()
    """What the suggestions for a task cost, which goes on record with its trace."""

    def minimise(self, round: int, traces: Iterable[Trace], *, known: Collection[str] = ()) -> tuple[Attribution, ...]:
        """What was found of the round's traces, in the order of the choice; `known` are the ledger's signatures."""
        limits = self.settings
        chosen = chosen_traces(traces, failures=limits.failures, successes=limits.successes, known=known)
        deadline = self.clock() + limits.wall_s
        if limits.workers <= 1:
            found = [self._trace(round, trace, deadline) for trace in chosen]
        else:
            executor = ThreadExecutor(limits.workers)
            try:
                waiting = [executor.submit(self._trace, round, trace, deadline) for trace in chosen]
                for future in waiting:
                    future.exception()  # everything in flight is on record before an error leaves
                found = [future.result() for future in waiting]
            finally:
                executor.close()
        return tuple(_attribution(event) for event in found if not event.discarded)

    def _trace(self, round: int, trace: Trace, deadline: float) -> TraceMinimised:
        recorded = self.book.find("attribution", f"{round}/{trace.task.id}", TraceMinimised)
        if recorded is not None:
            return recorded
        search = Reduction(trace, lambda keep: self._show(round, trace, keep, deadline=deadline), self.suggest)
        found = search.search() if self.clock() <= deadline else None
        keep = found.keep if found else ()
        event = TraceMinimised(
            round=round,
            task=trace.task.id,
            signature=signature(trace),
            passed=bool(trace.passed),
            keep=keep,
            commands=_picked(trace, keep),
            cause=found.cause if found else "unknown",
            replays=len(search.tried),
            discarded=found is None,
            spend=self.spent(trace.task.id),
        )
        return self.book.record("attribution", event)

    def _show(self, round: int, trace: Trace, keep: tuple[int, ...], *, deadline: float) -> Shown | None:
        """Replay a part, or read it where it is on record; None where the time is up."""
        commands = _picked(trace, keep)
        seed = paired_seed(self.seed, trace.task.id, attribution_repeat(round))
        key = digest_of([trace.task.id, trace.task.input, seed, commands])
        event = self.book.find("replay", f"{round}/{key}", CommandsReplayed)
        if event is None:
            if self.clock() > deadline:
                return None
            event = self.book.record("replay", self._replay(round, key, trace, commands=commands, seed=seed))
        if not event.outputs:
            return Shown(event.score, frozenset())
        replayed = Replayed(answer=event.answer, outputs=event.outputs, exit_codes=event.exit_codes)
        return Shown(event.score, replayed_classes(commands, replayed))

    def _replay(self, round: int, key: str, trace: Trace, *, commands: tuple[str, ...], seed: int) -> CommandsReplayed:
        found = self.replays.run(trace, commands, seed=seed)
        replayed = found.replayed
        return CommandsReplayed(
            round=round,
            key=key,
            answer=None if replayed is None or replayed.answer is None else replayed.answer[:ANSWER_CHARACTERS],
            outputs=replayed.outputs if replayed else (),
            exit_codes=replayed.exit_codes if replayed else (),
            score=found.score,
            spend=found.spend,
        )


def chosen_traces(
    traces: Iterable[Trace], *, failures: int, successes: int, known: Collection[str] = ()
) -> tuple[Trace, ...]:
    """The traces that are worth minimising; those without a command are not.

    Failures one cluster after another, round and round: clusters with a signature that is not in `known` first, then
    the larger ones, then by signature. Within a cluster, and among successes, the fewest commands first, then by id.
    """
    able = sorted((trace for trace in traces if trace.commands), key=lambda trace: (len(trace.commands), trace.task.id))
    clusters = sorted(clustered(able).items(), key=lambda item: (item[0] in known, -len(item[1]), item[0]))
    deepest = max((len(cluster) for _, cluster in clusters), default=0)
    failing = [cluster[turn] for turn in range(deepest) for _, cluster in clusters if turn < len(cluster)]
    passing = [trace for trace in able if trace.passed]
    return (*failing[:failures], *passing[:successes])


def _picked(trace: Trace, keep: tuple[int, ...]) -> tuple[str, ...]:
    commands = trace.commands
    return tuple(commands[index] for index in keep)


def _attribution(event: TraceMinimised) -> Attribution:
    return Attribution(
        task=event.task,
        signature=event.signature,
        passed=event.passed,
        keep=event.keep,
        commands=event.commands,
        cause=event.cause,
        replays=event.replays,
    )
