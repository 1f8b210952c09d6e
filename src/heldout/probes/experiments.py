"""The experiments themselves: each runs what it must, at its own seeds, and says what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heldout.probes.base import Trace
from heldout.probes.replays import Replay, ReplayRunner, probe_repeat
from heldout.probes.verdicts import (
    TargetRun,
    ablate_verdict,
    fix_verdict,
    is_pass,
    replay_verdict,
    substitute_verdict,
)
from heldout.records import Candidate, EvidenceVerdict, Spend
from heldout.rollouts.engine import Engine, Grade, Sweep, paired_seed

__all__ = ["Experiments", "Finding"]

PURPOSE = "probe"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one experiment found; the fields are those of `Evidence`."""

    verdict: EvidenceVerdict
    detail: str
    flips: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()
    spend: Spend = field(default_factory=Spend)


@dataclass(frozen=True, slots=True)
class Experiments:
    """Runs one probe of one place (round, episode, ordinal). It pays on the ledger and knows nothing of units."""

    engine: Engine
    replays: ReplayRunner | None
    grade: Grade
    place: tuple[int, int, int]

    def replay(self, trace: Trace) -> Finding:
        """The trace's commands again. The seed is new, so that only what does not depend on it reproduces."""
        found = self._replay(trace, trace.commands)
        ended = "not measured" if found.score is None else _ended(is_pass(found.score))
        reproduced = (
            "" if found.score is None else ("; reproduced", "; not reproduced")[is_pass(found.score) != trace.passed]
        )
        return self._of_trace(
            trace,
            replay_verdict(bool(trace.passed), found.score),
            f"the trace {_ended(bool(trace.passed))}, its replay {ended}{reproduced}{_because(found)}",
            found,
        )

    def ablate(self, trace: Trace, step: int) -> Finding:
        """The whole first, at the same seed, and only where it reproduces the trace without one command."""
        passed, commands = bool(trace.passed), trace.commands
        full = self._replay(trace, commands)
        if full.score is None or is_pass(full.score) != passed:
            said = "could not be measured" if full.score is None else "did not reproduce the trace"
            verdict = ablate_verdict(passed, full.score, None)
            return self._of_trace(
                trace, verdict, f"the whole replay {said}, so nothing was left out{_because(full)}", full
            )
        without = self._replay(trace, (*commands[:step], *commands[step + 1 :]))
        ended = "could not be measured" if without.score is None else _ended(is_pass(without.score))
        said = f"the whole trace {_ended(passed)} again; without command {step} it {ended}{_because(without)}"
        return self._of_trace(trace, ablate_verdict(passed, full.score, without.score), said, full, without)

    def substitute(self, trace: Trace, step: int, command: str) -> Finding:
        """A failing trace with one command replaced."""
        commands = (*trace.commands[:step], command, *trace.commands[step + 1 :])
        found = self._replay(trace, commands)
        ended = "could not be measured" if found.score is None else _ended(is_pass(found.score))
        said = f"with command {step} replaced the trace {ended}{_because(found)}"
        return self._of_trace(trace, substitute_verdict(found.score), said, found)

    def fix_probe(self, draft: Candidate, targets: Sequence[Trace], canary: Trace | None) -> Finding:
        """The draft on targets that fail now, and a second run of each pass, which takes no unit."""
        runs, lost = self._draft(draft, targets, canary=canary)
        runs = [self._confirmed(draft, target, run) for target, run in zip(targets, runs, strict=True)]
        flips = tuple(run.task for run in runs if run.flipped)
        unconfirmed = tuple(run.task for run in runs if run.unconfirmed)
        unmeasured = tuple(run.task for run in runs if run.unmeasured)
        said = f"of {len(runs)} failing tasks {len(flips)} passed twice, {len(unconfirmed)} once and not again"
        said += f", {len(unmeasured)} could not be measured" if unmeasured else ""
        return Finding(
            fix_verdict(runs),
            said + _canary(canary, lost),
            flips=flips,
            unconfirmed=unconfirmed,
            broken=(canary.task.id,) if canary and lost else (),
            unmeasured=unmeasured,
        )

    def run_episode(self, candidate: Candidate, target: Trace, canary: Trace | None) -> Finding:
        """One plain run, with or without a draft; it has no verdict and is not run again."""
        (run,), lost = self._draft(candidate, (target,), canary=canary)
        ended = "could not be measured" if run.first is None else _ended(is_pass(run.first))
        return Finding(
            EvidenceVerdict.NONE,
            f"one run {ended}; the trace {_ended(bool(target.passed))}{_canary(canary, lost)}",
            passed=(run.task,) if is_pass(run.first) else (),
            broken=(canary.task.id,) if canary and lost else (),
            unmeasured=(run.task,) if run.first is None else (),
        )

    def _replay(self, trace: Trace, commands: Sequence[str]) -> Replay:
        if self.replays is None:
            raise ValueError("this harness cannot replay, and its kit offers no probe of a trace")
        seed = paired_seed(self.engine.seed, trace.task.id, probe_repeat(*self.place))
        return self.replays.run(trace, commands, seed=seed)

    def _of_trace(self, trace: Trace, verdict: EvidenceVerdict, detail: str, *replays: Replay) -> Finding:
        missing = any(found.score is None for found in replays)
        spend = sum((found.spend for found in replays), start=Spend())
        return Finding(verdict, detail, unmeasured=(trace.task.id,) if missing else (), spend=spend)

    def _draft(
        self, draft: Candidate, targets: Sequence[Trace], *, canary: Trace | None
    ) -> tuple[list[TargetRun], bool]:
        """First runs of the targets, and whether the canary was lost (one that is not measured was not)."""
        asked = [*targets, canary] if canary else list(targets)
        sweep = Sweep(draft, [trace.task for trace in asked], PURPOSE, probe_repeat(*self.place))
        scores = [outcome.score for outcome in self.engine.evaluate(sweep, grade=self.grade)]
        runs = [TargetRun(trace.task.id, score) for trace, score in zip(targets, scores[: len(targets)], strict=True)]
        return runs, canary is not None and scores[-1] is not None and not is_pass(scores[-1])

    def _confirmed(self, draft: Candidate, target: Trace, run: TargetRun) -> TargetRun:
        if not is_pass(run.first):
            return run
        sweep = Sweep(draft, (target.task,), PURPOSE, probe_repeat(*self.place, confirm=True))
        (again,) = self.engine.evaluate(sweep, grade=self.grade)
        return TargetRun(run.task, run.first, again.score)


def _ended(passed: bool) -> str:
    return "passed" if passed else "failed"


def _because(found: Replay) -> str:
    return f" ({found.error[:200]})" if found.error else ""


def _canary(canary: Trace | None, lost: bool) -> str:
    if canary is None:
        return ""
    return f"; the canary {canary.task.id} {'failed' if lost else 'did not fail'}"
