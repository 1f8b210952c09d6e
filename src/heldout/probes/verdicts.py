"""From raw results to a verdict, for each kind of probe (arXiv 2610.02616; the table of the specification, §4.B).

A score is None where nothing was measured; that makes a result inconclusive and never refutes. In a world without
noise a replay always reproduces and refutes nothing: refutations of traces are real only where two runs of the same
commands can differ (nondeterminism ν), and then they say that the trace was an accident, not that a step was harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heldout.records import EvidenceVerdict

__all__ = ["TargetRun", "ablate_verdict", "fix_verdict", "is_pass", "replay_verdict", "substitute_verdict"]


@dataclass(frozen=True, slots=True)
class TargetRun:
    """A draft on one target that fails now: the run, and the second one that a pass must stand."""

    task: str
    first: float | None
    second: float | None = None
    """None too where no second run was due."""

    @property
    def flipped(self) -> bool:
        """A pass that the second run confirmed."""
        return is_pass(self.first) and is_pass(self.second)

    @property
    def unconfirmed(self) -> bool:
        """A pass that the second run denied."""
        return is_pass(self.first) and self.second is not None and not is_pass(self.second)

    @property
    def unmeasured(self) -> bool:
        """A run was due and gave nothing."""
        return self.first is None or (is_pass(self.first) and self.second is None)


def is_pass(score: float | None) -> bool:
    """A measured score of at least ½."""
    return score is not None and score >= 0.5


def replay_verdict(passed: bool, score: float | None) -> EvidenceVerdict:
    """Not reproduced refutes every step claim on the trace; reproduced says only that the trace is valid."""
    if score is None or is_pass(score) == passed:
        return EvidenceVerdict.INCONCLUSIVE
    return EvidenceVerdict.REFUTES


def ablate_verdict(passed: bool, full: float | None, without: float | None) -> EvidenceVerdict:
    """The whole must reproduce first. A flip without the step supports that it is the cause (failing trace) or that
    it is necessary (passing trace); no flip is never a refutation, since several steps may each suffice."""
    if full is None or without is None or is_pass(full) != passed:
        return EvidenceVerdict.INCONCLUSIVE
    return EvidenceVerdict.INCONCLUSIVE if is_pass(without) == passed else EvidenceVerdict.SUPPORTS


def substitute_verdict(score: float | None) -> EvidenceVerdict:
    """A failing trace that passes with the other command supports exactly that command."""
    return EvidenceVerdict.SUPPORTS if is_pass(score) else EvidenceVerdict.INCONCLUSIVE


def fix_verdict(runs: Sequence[TargetRun]) -> EvidenceVerdict:
    """One confirmed flip supports; no pass at all, with everything measured, refutes; anything between says nothing."""
    if any(run.flipped for run in runs):
        return EvidenceVerdict.SUPPORTS
    if not runs or any(run.unconfirmed or run.unmeasured for run in runs):
        return EvidenceVerdict.INCONCLUSIVE
    return EvidenceVerdict.REFUTES
