"""How much of a gain over no skill on train is there on tasks that no decision saw.

Specification: `systems/gso.md`, sections 4 and 6.3 (arXiv 2609.39148).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from heldout.stats.distributions import t_quantile
from heldout.stats.paired import EQUAL_WITHIN, mean_interval, paired_difference, task_differences

__all__ = [
    "RetentionEstimate",
    "RetentionLabel",
    "RoleScores",
    "retention_label",
    "retention_of",
    "retention_refusal",
    "robust_label",
]

_FEWEST = 2
"""Paired tasks of a role below which a mean has no interval."""


class RetentionLabel(StrEnum):
    """What became of a train gain; see `retention_label`."""

    KEPT = "kept"
    PARTLY_KEPT = "partly kept"
    LOST = "lost"
    HARMFUL = "harmful"
    NO_TRAIN_GAIN = "no train gain"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, eq=False)
class RoleScores:
    """Scores of one role's tasks, (tasks,) or (tasks, repeats), with a skill and without; NaN is *not measured*."""

    none: NDArray[np.float64] | None
    """Under no skill; None where that arm was not run."""
    skill: NDArray[np.float64]
    families: Sequence[str] = ()
    """The family of each task, or none: then they are all of one."""

    def __post_init__(self) -> None:
        if self.families and len(self.families) != len(self.skill):
            raise ValueError(f"expected a family of each of {len(self.skill)} tasks, got {len(self.families)}")


@dataclass(frozen=True, slots=True)
class RetentionEstimate:
    """Gains over no skill and what is kept of them, as fractions of one, each with an interval over tasks."""

    n_train: int
    """Tasks measured under both, as in `n_audit`; means and gains are over them alone."""
    n_audit: int
    none_train: float
    none_audit: float
    train_gain: float
    train_interval: tuple[float, float]
    audit_gain: float
    audit_interval: tuple[float, float]
    retention: float
    """audit_gain - train_gain."""
    retention_interval: tuple[float, float]
    label: RetentionLabel
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class _Resampled:
    """The gain of one role, resampled."""

    gain: float
    none: float
    draws: NDArray[np.float64]
    df: int
    """Degrees of freedom: tasks minus strata."""
    slack: tuple[float, float]
    """How far below and above the gain the mean may lie where the differences have no spread; else 0 and 0."""
    n: int

    @property
    def variance(self) -> float:
        return float(self.draws.var())


def retention_refusal(train: RoleScores, audit: RoleScores, *, coverage: float = 0.0) -> str:
    """Why there is no retention; empty where there is one. Without the arm of no skill there is none, and never 0.

    `coverage`: the share of a role's tasks that must be measured under both.
    """
    faults = []
    for name, role in (("train", train), ("audit", audit)):
        if role.none is None or np.isnan(role.none).all():
            faults.append(f"no skill was not measured on {name}")
            continue
        paired = int((~np.isnan(task_differences(role.none, role.skill))).sum())
        if paired < _FEWEST:
            faults.append(
                f"of {name} {paired} tasks were measured with the skill and without, and {_FEWEST} are needed"
            )
        elif paired < coverage * len(role.skill) - EQUAL_WITHIN:
            share = f"{paired} of {len(role.skill)} tasks"
            faults.append(f"of {name} {share} were measured with the skill and without, and {coverage:.0%} are needed")
    return "; ".join(faults)


def retention_of(
    train: RoleScores, audit: RoleScores, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> RetentionEstimate:
    """Gains on both roles, their difference, and the label. `ValueError` where `retention_refusal` has a reason.

    The intervals are paired bootstraps over tasks (Efron 1979), stratified by role and family: each stratum of n_h
    tasks gives n_h - 1 draws, which makes their variance unbiased (McCarthy and Snowden 1985), and the percentiles are
    widened from the normal to the t distribution (Hesterberg 2015, "expanded percentiles"). Families of one task
    share a stratum. Without any spread in a role the bound of `mean_interval` takes the bootstrap's place.
    """
    refusal = retention_refusal(train, audit)
    if refusal:
        raise ValueError(f"retention is refused: {refusal}")
    before = _resampled(train, np.random.default_rng([seed, 0]), resamples=resamples, confidence=confidence)
    after = _resampled(audit, np.random.default_rng([seed, 1]), resamples=resamples, confidence=confidence)
    kept = after.gain - before.gain
    slack = (after.slack[0] - before.slack[1], after.slack[1] - before.slack[0])
    draws = after.draws - before.draws
    low, high = _expanded(draws, slack, df=_joint_df(before, after), confidence=confidence)
    intervals = [_expanded(role.draws, role.slack, df=role.df, confidence=confidence) for role in (before, after)]
    train_interval, audit_interval = ((max(-1.0, least), min(1.0, most)) for least, most in intervals)
    retention_interval = (max(-2.0, low), min(2.0, high))
    return RetentionEstimate(
        n_train=before.n,
        n_audit=after.n,
        none_train=before.none,
        none_audit=after.none,
        train_gain=before.gain,
        train_interval=train_interval,
        audit_gain=after.gain,
        audit_interval=audit_interval,
        retention=kept,
        retention_interval=retention_interval,
        label=retention_label(before.gain, after.gain, audit=audit_interval, retention=retention_interval),
        confidence=confidence,
    )


def robust_label(found: RetentionEstimate, train: RoleScores, audit: RoleScores, *, seed: int = 0) -> RetentionLabel:
    """The label of an estimate, undecided where a good one rests on what only the skill lacks on audit.

    A skill whose failures go missing would keep its gain by them: a label of a gain that is there must survive counting
    them as failures, as the verdict of an audit does. `found` is `retention_of` the two roles, with its default
    resamples and this seed.
    """
    if found.label not in (RetentionLabel.KEPT, RetentionLabel.PARTLY_KEPT) or audit.none is None:
        return found.label
    lacks = np.isnan(audit.skill) & ~np.isnan(audit.none)
    if not lacks.any():
        return found.label
    worst = RoleScores(audit.none, np.where(lacks, 0.0, audit.skill), audit.families)
    again = retention_of(train, worst, confidence=found.confidence, seed=seed)
    return found.label if again.label is found.label else RetentionLabel.UNDECIDED


def retention_label(
    train_gain: float, audit_gain: float, *, audit: tuple[float, float], retention: tuple[float, float]
) -> RetentionLabel:
    """The label of two gains, given the intervals of the audit gain and of the retention.

    By the point estimates, with a train gain: kept where the retention is at least 0, else partly kept where the audit
    gains, else lost, and harmful where it loses. A label is given only where the intervals exclude its neighbours:

    * kept: the audit gain's lies above 0 (not lost);
    * partly kept: the retention's lies below 0 (not kept), the audit gain's above 0 (not lost);
    * lost: the retention's lies below 0 (not kept); harmful: the audit gain's lies below 0 besides.

    Without a train gain there is nothing to keep, and no label of the four.
    """
    if train_gain <= EQUAL_WITHIN:
        return RetentionLabel.NO_TRAIN_GAIN
    fell, gains = retention[1] < -EQUAL_WITHIN, audit[0] > EQUAL_WITHIN
    if audit_gain - train_gain >= -EQUAL_WITHIN:
        return RetentionLabel.KEPT if gains else RetentionLabel.UNDECIDED
    if audit_gain > EQUAL_WITHIN:
        return RetentionLabel.PARTLY_KEPT if fell and gains else RetentionLabel.UNDECIDED
    if not fell:
        return RetentionLabel.UNDECIDED
    return RetentionLabel.HARMFUL if audit[1] < -EQUAL_WITHIN else RetentionLabel.LOST


def _resampled(role: RoleScores, rng: np.random.Generator, *, resamples: int, confidence: float) -> _Resampled:
    assert role.none is not None
    differences = task_differences(role.none, role.skill)
    measured = ~np.isnan(differences)
    kept = differences[measured]
    strata = _strata(kept, np.array(role.families or ("",) * len(differences))[measured])
    if not any(np.ptp(stratum) > EQUAL_WITHIN for stratum in strata):
        strata = [kept]  # what spread there is lies between the families
    none = paired_difference(role.none, role.skill).a_mean
    summary = mean_interval(kept, confidence=confidence)
    assert none is not None
    assert summary.mean is not None
    gain, slack = summary.mean, (0.0, 0.0)
    if summary.interval is not None and summary.method == "no spread":
        slack = (summary.interval[0] - gain, summary.interval[1] - gain)
    draws = np.zeros(resamples)
    for stratum in strata:
        draws += len(stratum) / len(kept) * _stratum_means(stratum, rng, resamples=resamples)
    return _Resampled(gain, none, draws, len(kept) - len(strata), slack, len(kept))


def _strata(differences: NDArray[np.float64], families: NDArray[np.str_]) -> list[NDArray[np.float64]]:
    """Differences by family, two or more in each: families of one task are taken together, or join the smallest."""
    groups = [differences[families == name] for name in sorted(set(families.tolist()))]
    strata = sorted((group for group in groups if len(group) >= _FEWEST), key=len)
    single = [group for group in groups if len(group) < _FEWEST]
    if len(single) == 1 and strata:
        single.append(strata.pop(0))
    return [*strata, np.concatenate(single)] if single else strata


def _stratum_means(stratum: NDArray[np.float64], rng: np.random.Generator, *, resamples: int) -> NDArray[np.float64]:
    """Means of n - 1 draws each. Equal differences are interchangeable, so a resample is one multinomial draw."""
    values, counts = np.unique(stratum, return_counts=True)
    drawn = len(stratum) - 1
    means: NDArray[np.float64] = rng.multinomial(drawn, counts / len(stratum), size=resamples) @ values / drawn
    return means


def _expanded(
    draws: NDArray[np.float64], slack: tuple[float, float], *, df: int, confidence: float
) -> tuple[float, float]:
    tail = NormalDist().cdf(-t_quantile(confidence, df))
    low, high = np.quantile(draws, [tail, 1.0 - tail])
    return float(low) + slack[0], float(high) + slack[1]


def _joint_df(a: _Resampled, b: _Resampled) -> int:
    """Degrees of freedom of a difference of two means with unequal variances (Welch 1947)."""
    parts = a.variance**2 / a.df + b.variance**2 / b.df
    return a.df + b.df if parts <= 0.0 else max(1, int((a.variance + b.variance) ** 2 / parts + 1e-9))
