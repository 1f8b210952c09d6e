"""The experiments of one episode of the catalogue improver: which it asks for, and what it makes of the answers.

Under a schedule without agency another experiment may come back than was asked for, so every answer is taken for what
it says it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from heldout.improvers.catalog_choice import Case, Draft
from heldout.improvers.policy import Policy
from heldout.probes.base import Laboratory, Trace
from heldout.records import Edit, Evidence, EvidenceVerdict, ProbeKind

__all__ = ["CLEAR", "DRAFT_PROBES", "Trial", "Trials", "passed_plain_run", "suspect_step"]

DRAFT_PROBES = frozenset({ProbeKind.FIX_PROBE, ProbeKind.RUN_EPISODE})
"""Kinds that say something of a draft."""

CLEAR = 5
"""Rank of a draft after which nothing better is sought."""

_REPLAYS = 2
"""Replays before one draft: after so many failures that do not reproduce, the case is put off."""

_ASKS = 12
"""Answers that one draft waits for."""

_LIMITS = ("the count", "the clock")
"""How a refusal begins that would meet every further request too; any other is about the request itself."""

_REWRITES = re.compile(r"(?:cp|mv|git|patch|rsync|sed -i)\s|python3? \S*(?:format|fix|clean|restore)")
"""Commands that may put back or write over what was there."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A draft and what is known of it."""

    draft: Draft
    targets: tuple[str, ...]
    """Failing tasks that it was run on, or that it is believed to mend."""
    verdict: EvidenceVerdict = EvidenceVerdict.NONE
    """`none` for a draft that was not tried."""
    passed: tuple[str, ...] = ()
    """Targets that passed, confirmed where the kind of probe confirms."""
    broken: tuple[str, ...] = ()
    """Passing tasks that failed under it."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def rank(self) -> int:
        """5 supported on half of the targets or more (a draft without effect is seldom seen to do that); 4 supported;
        3 supported with something broken; 2 inconclusive; 1 untried; 0 refuted or not usable."""
        if self.verdict is EvidenceVerdict.SUPPORTS:
            return 3 if self.broken else 4 + (2 * len(self.passed) >= len(self.targets))
        return {EvidenceVerdict.INCONCLUSIVE: 2, EvidenceVerdict.NONE: 1}.get(self.verdict, 0)

    def evidence_on(self, task: str) -> tuple[str, ...]:
        """Ids of the evidence in which the task was a target."""
        return tuple(one.id for one in self.evidence if task in one.tasks)


@dataclass(slots=True)
class Trials:
    """Spends up to the policy's units in a laboratory, and remembers what came out."""

    laboratory: Laboratory
    traces: Mapping[str, Trace]
    policy: Policy
    targets: int
    """Failing tasks that one draft is run on."""
    rng: Random
    commission: frozenset[str]
    """Classes of edits that are for mistakes of commission."""
    base_round: int | None = None
    """What drafts are made to."""
    drafts: int = 0
    """Drafts that were run."""
    spent: int = 0
    closed: bool = False
    """A limit was met; nothing more is asked."""
    gone: set[str] = field(default_factory=set)
    """Tasks whose recorded failure does not reproduce."""
    settled: set[str] = field(default_factory=set)
    """Tasks whose failure was replayed, or cannot be."""
    about: dict[str, list[str]] = field(default_factory=dict)
    """Task to the evidence on its trace."""
    blamed: dict[str, int] = field(default_factory=dict)
    """Task to the command without which it passes."""
    tried: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Evidence id to the entries of the draft."""

    @property
    def left(self) -> int:
        """Units that this episode may still spend."""
        return 0 if self.closed else min(self.policy.probes - self.spent, self.laboratory.units_left())

    def can_try(self) -> bool:
        """Whether another draft can be run on something."""
        return bool(DRAFT_PROBES & self.laboratory.available) and self.left >= 1

    def attempt(self, draft: Draft) -> Trial | None:
        """Verify the failure that the draft is for, then run the draft; None where no failure of it reproduces."""
        targets = self._real_targets(draft.case)
        if not targets:
            return None
        if draft.edit_class in self.commission:
            self._blame(targets[0])
        if self.left < 1:
            return Trial(draft, targets)
        self.drafts += 1
        if ProbeKind.FIX_PROBE in self.laboratory.available:
            return self._spared(self._fix_probe(draft, targets))
        return self._plain_runs(draft, targets)

    def _real_targets(self, case: Case) -> tuple[str, ...]:
        """Up to `targets` tasks of the case; the first has a failure that is known to reproduce, where that can be
        told and paid for."""
        ordered = _shuffled(case, self.rng)
        for _ in range(_REPLAYS):
            ordered = [task for task in ordered if task not in self.gone]
            if not ordered or ordered[0] in case.minimised or ordered[0] in self.settled:
                break
            if ProbeKind.REPLAY not in self.laboratory.available or self.left < 2:
                break
            self._ask(ProbeKind.REPLAY, ordered[:1])
        return tuple(task for task in ordered if task not in self.gone)[: self.targets]

    def _blame(self, task: str) -> None:
        """Leave out the command that looks guilty; that no flip follows says nothing."""
        step = suspect_step(self.traces[task])
        if step is None or task in self.blamed or ProbeKind.ABLATE not in self.laboratory.available or self.left < 2:
            return
        self._ask(ProbeKind.ABLATE, (task,), step=step)

    def _fix_probe(self, draft: Draft, targets: Sequence[str]) -> Trial:
        """The draft on its targets, asked for until a `fix_probe` comes back or nothing is left to pay it with."""
        plain: list[Evidence] = []
        for _ in range(_ASKS):
            if self.left < 1:
                break
            evidence = self._ask(ProbeKind.FIX_PROBE, targets[: self.left], draft=draft)
            if evidence.refused:
                return Trial(draft, tuple(targets), self._refusal())
            if evidence.kind is ProbeKind.FIX_PROBE:
                return Trial(draft, evidence.tasks, evidence.verdict, evidence.flips, evidence.broken, (evidence,))
            plain += [evidence] if evidence.kind is ProbeKind.RUN_EPISODE else []
        hopeful = any(passed_plain_run(one) for one in plain)
        verdict = EvidenceVerdict.INCONCLUSIVE if hopeful else EvidenceVerdict.NONE
        return Trial(draft, tuple(targets), verdict, evidence=tuple(plain))

    def _plain_runs(self, draft: Draft, targets: Sequence[str]) -> Trial:
        """Simple verification: one unconfirmed run for each target, taken at its word."""
        runs: list[Evidence] = []
        for task in targets:
            if self.left < 1:
                break
            evidence = self._ask(ProbeKind.RUN_EPISODE, (task,), draft=draft)
            if evidence.refused:
                if not runs:
                    return Trial(draft, tuple(targets), self._refusal())
                break
            runs.append(evidence)
        said = [passed_plain_run(one) for one in runs]
        verdict = EvidenceVerdict.SUPPORTS if any(said) else EvidenceVerdict.REFUTES
        if all(result is None for result in said):
            verdict = EvidenceVerdict.INCONCLUSIVE
        # Under a schedule without agency a run may be of another task than the one asked for.
        passed = dict.fromkeys(task for one in runs for task in one.passed if self.traces[task].passed is False)
        broken = dict.fromkeys(task for one in runs for task in one.broken)
        return Trial(draft, tuple(targets), verdict, tuple(passed), tuple(broken), tuple(runs))

    def _spared(self, trial: Trial) -> Trial:
        """A supported draft, run on as many passing tasks as the policy asks for."""
        if trial.rank < 4 or ProbeKind.RUN_EPISODE not in self.laboratory.available:
            return trial
        passing = sorted(task for task, trace in self.traces.items() if trace.passed)
        broken: list[str] = []
        for task in self.rng.sample(passing, min(self.policy.canaries, len(passing))):
            if self.left < 1:
                break
            evidence = self._ask(ProbeKind.RUN_EPISODE, (task,), draft=trial.draft)
            if passed_plain_run(evidence) is False and self.traces[evidence.tasks[0]].passed:
                broken.append(evidence.tasks[0])
        return replace(trial, broken=tuple(broken))

    def _refusal(self) -> EvidenceVerdict:
        """What a refused draft is: not tried where a limit was met, else of no use."""
        return EvidenceVerdict.NONE if self.closed else EvidenceVerdict.REFUTES

    def _ask(
        self, kind: ProbeKind, tasks: Sequence[str], *, step: int | None = None, draft: Draft | None = None
    ) -> Evidence:
        edits: Iterable[Edit] = draft.edits if draft else ()
        base_round = self.base_round if draft else None
        evidence = self.laboratory.probe(kind, tuple(tasks), step=step, edits=edits, base_round=base_round)
        self.spent += evidence.units
        if evidence.refused:
            self.closed = self.closed or evidence.refused.startswith(_LIMITS)
            self.settled.update(tasks if kind is ProbeKind.REPLAY else ())
        elif evidence.kind in DRAFT_PROBES:
            if draft is not None and evidence.edits:
                self.tried[evidence.id] = draft.names
        else:
            self._learn(evidence)
        return evidence

    def _learn(self, evidence: Evidence) -> None:
        """From a probe of a trace."""
        task = evidence.tasks[0]
        self.about.setdefault(task, []).append(evidence.id)
        if evidence.kind is ProbeKind.REPLAY:
            found = self.gone if evidence.verdict is EvidenceVerdict.REFUTES else self.settled
            found.add(task)
        elif evidence.verdict is EvidenceVerdict.SUPPORTS and evidence.step is not None:
            self.blamed.setdefault(task, evidence.step)


def suspect_step(trace: Trace) -> int | None:
    """The last command that may have undone what another did before it; None where there is none."""
    found = [index for index, command in enumerate(trace.commands) if _REWRITES.match(command.lstrip())]
    return found[-1] if found and found[-1] > 0 else None


def passed_plain_run(evidence: Evidence) -> bool | None:
    """Whether the task of a `run_episode` passed; None where it was not run or not measured."""
    if evidence.refused or evidence.unmeasured or evidence.kind is not ProbeKind.RUN_EPISODE:
        return None
    return bool(evidence.passed)


def _shuffled(case: Case, rng: Random) -> list[str]:
    """The case's tasks in random order, minimised ones first."""
    proven = [task for task in case.tasks if task in case.minimised]
    rest = [task for task in case.tasks if task not in case.minimised]
    return rng.sample(proven, len(proven)) + rng.sample(rest, len(rest))
