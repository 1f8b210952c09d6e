"""All seeds of one simulated arm, summed up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from heldout.stats import VarianceComponents, committed_overstatement
from heldout.studies.tables import Estimate, mean_estimate, share_estimate
from heldout.studies.winners_curse.arms import Arm
from heldout.studies.winners_curse.simulated_items import chance_right, difficulties
from heldout.studies.winners_curse.simulation import AUDIT_TASKS, Commit, SimulatedRun, simulate

__all__ = ["ArmRuns", "expected_components", "rmse", "run_arm"]

_MODEL_DRAWS = 400_000
"""Simulated candidates behind each value of the noise model; its Monte-Carlo error is below 0.1 points."""


@dataclass(frozen=True)
class ArmRuns:
    """The runs of an arm; estimates are in points, with standard errors over seeds."""

    arm: Arm
    runs: tuple[SimulatedRun, ...]

    @cached_property
    def inflation(self) -> Estimate | None:
        return mean_estimate([run.inflation for run in self.runs])

    @cached_property
    def reported(self) -> Estimate | None:
        return mean_estimate([run.reported for run in self.runs])

    @cached_property
    def gain(self) -> Estimate | None:
        return mean_estimate(self.gains)

    @cached_property
    def gains(self) -> NDArray[np.float64]:
        """True gain of each run, a fraction of one."""
        return np.array([run.gain for run in self.runs])

    @cached_property
    def audited(self) -> Estimate | None:
        """Gain by the 64-item audit."""
        return mean_estimate([run.audit_gain for run in self.runs])

    @cached_property
    def audit_errors(self) -> NDArray[np.float64]:
        """Audited minus true gain of each run."""
        return np.array([run.audit_gain for run in self.runs]) - self.gains

    @property
    def audit_formula(self) -> float:
        """√((p_d − δ²) / n) of the 64-item audit, in points, with the mean over runs inside the root."""
        spread = math.fsum(run.audit_disagreement - run.gain**2 for run in self.runs) / len(self.runs)
        return 100.0 * math.sqrt(spread / AUDIT_TASKS)

    @property
    def rmse_reported(self) -> Estimate:
        return rmse([run.reported - run.gain for run in self.runs])

    @property
    def rmse_audit(self) -> Estimate:
        return rmse(self.audit_errors)

    def commits(self, *, first: bool) -> list[Commit]:
        return [commit for run in self.runs for commit in run.commits if commit.first == first]

    def overstatement(self, *, first: bool) -> Estimate | None:
        """Measured minus true gain of the accepted rewrites."""
        return mean_estimate([commit.measured - commit.real for commit in self.commits(first=first)])

    def model(self, *, first: bool) -> Estimate | None:
        """The noise model's overstatement on a fresh set, at the mean skill of the incumbents that were replaced.

        None for rules that the model has no simulation of, where rewrites inherit outcomes, and without commits.
        """
        replaced = self.commits(first=first)
        if self.arm.rule not in ("greedy", "bayes") or self.arm.world.redraw != 1.0 or not replaced:
            return None
        skill = math.fsum(commit.skill for commit in replaced) / len(replaced)
        known = expected_components(self.arm, skill=skill, later=not first)
        rule: Literal["greedy", "bayes"] = "greedy" if self.arm.rule == "greedy" else "bayes"
        found = committed_overstatement(known, rule=rule, draws=_MODEL_DRAWS // known.k)
        if found.overstatement is None or found.standard_error is None:
            return None
        return Estimate(value=100.0 * found.overstatement, standard_error=100.0 * found.standard_error)

    @property
    def helpful(self) -> Estimate | None:
        """Percent of rewrites after the first commit that are truly better than their incumbent."""
        return share_estimate(sum(run.later_helpful for run in self.runs), sum(run.later_rewrites for run in self.runs))

    @property
    def harmful_later(self) -> Estimate | None:
        """Percent of commits after the first that lower the true skill."""
        later = self.commits(first=False)
        return share_estimate(sum(commit.real < 0.0 for commit in later), len(later))

    @property
    def harmful_commits(self) -> Estimate | None:
        """Per run."""
        return mean_estimate([sum(commit.real < 0.0 for commit in run.commits) for run in self.runs], scale=1.0)

    @property
    def commit_count(self) -> Estimate | None:
        return mean_estimate([len(run.commits) for run in self.runs], scale=1.0)

    @property
    def evaluations(self) -> float:
        return math.fsum(run.evaluations for run in self.runs) / len(self.runs)


def run_arm(arm: Arm, seeds: int) -> ArmRuns:
    """Seeds 0, 1, …"""
    return ArmRuns(arm, tuple(simulate(arm, seed) for seed in range(seeds)))


def rmse(errors: Sequence[float] | NDArray[np.float64]) -> Estimate:
    """Root mean square in points; its standard error is that of the mean square, by the delta method."""
    squares = np.square(np.asarray(errors, dtype=np.float64))
    root = math.sqrt(float(squares.mean()))
    error = float(squares.std(ddof=1)) / math.sqrt(len(squares)) / (2.0 * root) if root > 0.0 else 0.0
    return Estimate(value=100.0 * root, standard_error=100.0 * error)


def expected_components(arm: Arm, *, skill: float, later: bool) -> VarianceComponents:
    """The noise model's components for one fresh generation of this simulator, where rewrites redraw every item.

    With p(z) and p'(z) the chances of a right answer under the incumbent and under a mean rewrite, candidates share
    the incumbent's luck and the items: σ0² = (E p(1 − p) + Var(p' − p)) / n. Their own is σ² = E p'(1 − p') / n.
    """
    if arm.world.redraw != 1.0:
        raise ValueError("candidates that inherit outcomes are outside the noise model")
    mean, sd = arm.world.later if later else arm.world.first
    z, weight = difficulties()
    old, new = (chance_right(q, z) for q in (skill, skill + mean))
    shared = weight @ (old * (1.0 - old)) + weight @ (new - old) ** 2 - (weight @ (new - old)) ** 2
    return VarianceComponents(
        mu=mean,
        s=sd,
        sigma=float(np.sqrt(weight @ (new * (1.0 - new)) / arm.n)),
        sigma0=float(np.sqrt(shared / arm.n)),
        k=arm.candidates,
        n=arm.n,
    )
