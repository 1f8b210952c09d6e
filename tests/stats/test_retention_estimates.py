"""Gains over no skill, what is kept of them, and the labels; gso.md, sections 4 and 6.3, invariant 10."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heldout.stats import (
    RetentionLabel,
    RoleScores,
    bootstrap_interval,
    mean_interval,
    retention_label,
    retention_of,
    retention_refusal,
    robust_label,
)

NAN = math.nan


def role(gain: float, *, n: int = 100, base: float = 0.3, families: int = 1, lost: float = 0.05) -> RoleScores:
    """Tasks with scores of 0 and 1: `base` pass without a skill, `lost` no longer with it, and so many more do that
    the mean rises by `gain`."""
    passing, broken, fixed = round(base * n), round(lost * n), round((gain + lost) * n)
    none, skill = np.zeros(n), np.zeros(n)
    none[:passing] = 1.0
    skill[broken : passing + fixed] = 1.0
    return RoleScores(none, skill, [f"f{i % families}" for i in range(n)])


def test_gains_and_retention_by_hand() -> None:
    """Train: 2 of 4 pass, then 4 of 4. Audit: 1 of 5, then 2 of 5. 0.5, 0.2, and -0.3."""
    train = RoleScores(np.array([0.0, 0, 1, 1]), np.array([1.0, 1, 1, 1]))
    audit = RoleScores(np.array([1.0, 0, 0, 0, 0]), np.array([1.0, 1, 0, 0, 0]))
    found = retention_of(train, audit, resamples=200)
    assert (found.n_train, found.n_audit) == (4, 5)
    assert (found.none_train, found.none_audit) == pytest.approx((0.5, 0.2))
    assert (found.train_gain, found.audit_gain, found.retention) == pytest.approx((0.5, 0.2, -0.3))
    assert found.label is RetentionLabel.UNDECIDED
    assert found.confidence == 0.95
    for low, high in (found.train_interval, found.audit_interval):
        assert -1.0 <= low <= high <= 1.0


def test_invariant_10_retention_is_refused_and_not_zero_without_a_no_skill_arm_on_either_role() -> None:
    whole = role(0.1)
    absent = RoleScores(None, whole.skill)
    unmeasured = RoleScores(np.full(100, NAN), whole.skill)
    for missing in (absent, unmeasured):
        assert retention_refusal(missing, whole) == "no skill was not measured on train"
        assert retention_refusal(whole, missing) == "no skill was not measured on audit"
        for sides in ((missing, whole), (whole, missing)):
            with pytest.raises(ValueError, match="retention is refused: no skill was not measured on"):
                retention_of(*sides)
    assert retention_refusal(absent, absent).count("no skill was not measured") == 2
    assert retention_refusal(whole, whole) == ""


def test_a_role_that_is_hardly_measured_is_refused_where_a_coverage_is_asked_for() -> None:
    whole, few = role(0.5, n=40), role(0.5, n=40)
    few.skill[3:] = NAN
    assert retention_refusal(whole, few) == ""
    told = "of audit 3 of 40 tasks were measured with the skill and without, and 80% are needed"
    assert retention_refusal(whole, few, coverage=0.8) == told
    assert retention_refusal(few, few, coverage=0.8).count("3 of 40") == 2
    few.skill[3:32] = 0.0
    assert retention_refusal(whole, few, coverage=0.8) == "", "32 of 40 are enough"


def test_no_gain_is_kept_by_going_missing() -> None:
    """Without a skill 20 of 40 pass. The skill passes 14 others and 10 of these, and is missing on the last 10: +14 of
    30, and +4 of 40 where those are failures."""
    none, skill = np.repeat([1.0, 0.0], 20), np.zeros(40)
    skill[:10], skill[20:34] = NAN, 1.0
    skill[10:20] = 1.0
    train = RoleScores(np.zeros(40), np.repeat([1.0, 0.0], [12, 28]))
    audit = RoleScores(none, skill)
    found = retention_of(train, audit)
    assert found.audit_gain == pytest.approx(14 / 30)
    assert found.label is RetentionLabel.KEPT
    assert robust_label(found, train, audit) is RetentionLabel.UNDECIDED
    there = RoleScores(none, np.where(np.isnan(skill), 1.0, skill))
    whole = retention_of(train, there)
    assert robust_label(whole, train, there) is whole.label is RetentionLabel.KEPT
    lost = RoleScores(none, np.where(np.isnan(skill), NAN, 0.0))
    bad = retention_of(train, lost)
    assert robust_label(bad, train, lost) is bad.label is RetentionLabel.HARMFUL


def test_a_gain_that_is_partly_kept_must_survive_what_only_the_skill_lacks_too() -> None:
    """Audit: 20 of 30 pairs gain, and the skill lacks 14 tasks that pass without one: at worst (20 - 14) / 44."""
    train = RoleScores(np.zeros(40), np.ones(40))
    none, skill = np.repeat([0.0, 1.0], [30, 14]), np.repeat([1.0, 0.0, NAN], [20, 10, 14])
    audit = RoleScores(none, skill)
    found = retention_of(train, audit)
    assert found.audit_gain == pytest.approx(20 / 30)
    assert found.label is RetentionLabel.PARTLY_KEPT
    assert robust_label(found, train, audit) is RetentionLabel.UNDECIDED


def test_one_pair_is_no_interval() -> None:
    one = RoleScores(np.array([0.0, NAN]), np.array([1.0, 1.0]))
    assert retention_refusal(role(0.1), one) == (
        "of audit 1 tasks were measured with the skill and without, and 2 are needed"
    )


def test_missing_scores_leave_their_pairs_and_nothing_else() -> None:
    train, audit = role(0.2), role(0.1)
    assert train.none is not None
    holes = RoleScores(np.append(train.none, [NAN, 1.0]), np.append(train.skill, [1.0, NAN]))
    whole, gap = retention_of(RoleScores(train.none, train.skill), audit), retention_of(holes, audit)
    assert whole == gap


def test_repeats_of_a_task_are_averaged_first() -> None:
    train = role(0.2)
    assert train.none is not None
    twice = RoleScores(np.stack([train.none] * 2, axis=1), np.stack([train.skill] * 3, axis=1))
    assert retention_of(twice, role(0.1)) == retention_of(RoleScores(train.none, train.skill), role(0.1))


def test_intervals_are_seeded_and_near_the_usual_ones_without_families() -> None:
    train, audit = role(0.2, n=200), role(0.1, n=300)
    assert train.none is not None
    found = retention_of(train, audit, seed=1)
    assert found == retention_of(train, audit, seed=1)
    assert found != retention_of(train, audit, seed=2)
    differences = train.skill - train.none
    assert found.train_interval == pytest.approx(mean_interval(differences).interval, abs=0.012)
    assert found.train_interval == pytest.approx(bootstrap_interval(train.none, train.skill), abs=0.012)
    assert audit.none is not None
    spread = math.hypot(
        *(np.std(side.skill - side.none, ddof=1) / math.sqrt(len(side.skill)) for side in (train, audit))
    )  # type: ignore[operator]
    low, high = found.retention_interval
    assert (high - low) / 2 == pytest.approx(1.96 * spread, rel=0.06)


def test_strata_take_what_lies_between_the_families_out_of_the_interval() -> None:
    """Family a gains 0.8 and b nothing: over 100 tasks of each, within variances 0.16 and 0.0198."""
    none = np.zeros(200)
    skill = np.concatenate([np.repeat([1.0, 0.0], [80, 20]), np.repeat([1.0, 0.0], [2, 98])])
    audit = role(0.1)
    apart = retention_of(RoleScores(none, skill, ["a"] * 100 + ["b"] * 100), audit)
    together = retention_of(RoleScores(none, skill), audit)
    within = math.sqrt((0.8 * 0.2 + 0.02 * 0.98) / 99 / 4)
    assert np.ptp(apart.train_interval) / 2 == pytest.approx(1.972 * within, rel=0.06)
    assert np.ptp(together.train_interval) > 1.5 * np.ptp(apart.train_interval)


def test_small_families_do_not_shrink_the_interval() -> None:
    """Four tasks a family: n - 1 draws keep the variance that n draws would make a quarter smaller."""
    rng = np.random.default_rng(3)
    none, skill = np.zeros(40), (rng.random(40) < 0.5).astype(float)
    families = [str(i % 10) for i in range(40)]
    found = retention_of(RoleScores(none, skill, families), role(0.1))
    strata = [skill[[f == name for f in families]] for name in sorted(set(families))]
    expected = math.sqrt(sum(stratum.var(ddof=1) / 4 for stratum in strata) / 100)
    assert np.ptp(found.train_interval) / 2 == pytest.approx(2.042 * expected, rel=0.1)


def test_families_of_one_task_share_a_stratum() -> None:
    none = np.zeros(10)
    skill = np.array([1.0, 0, 1, 0, 1, 0, 1, 0, 1, 0])
    single = retention_of(RoleScores(none, skill, list("abcdefghij")), role(0.1))
    whole = retention_of(RoleScores(none, skill), role(0.1))
    assert single == whole
    left_over = retention_of(RoleScores(none, skill, list("aaaaabbbbc")), role(0.1))
    assert np.ptp(left_over.train_interval) > 0.4


def test_no_spread_is_no_certainty() -> None:
    """Every audit task is lost: a bound in place of the interval, so that a few tasks decide nothing."""

    def flat(n: int) -> RoleScores:
        return RoleScores(np.ones(n), np.ones(n))

    few = retention_of(role(0.3), flat(4))
    assert few.audit_gain == 0.0
    assert few.audit_interval == pytest.approx(mean_interval(np.zeros(4)).interval)
    assert few.label is RetentionLabel.UNDECIDED
    many = retention_of(role(0.3), flat(200))
    assert many.label is RetentionLabel.LOST
    assert many.retention_interval[1] < 0
    wide = np.ptp(few.retention_interval) - np.ptp(few.audit_interval)
    assert wide == pytest.approx(np.ptp(few.train_interval), abs=0.02), "the bound is added, not squared"


def test_spread_that_lies_between_families_alone_still_has_an_interval() -> None:
    none, skill = np.zeros(20), np.repeat([1.0, 0.0], 10)
    found = retention_of(RoleScores(none, skill, ["a"] * 10 + ["b"] * 10), role(0.1))
    assert np.ptp(found.train_interval) > 0.3


@pytest.mark.parametrize(
    ("gains", "n", "label"),
    [
        ((0.3, 0.35), 300, "kept"),
        ((0.4, 0.15), 300, "partly kept"),
        ((0.3, 0.0), 300, "lost"),
        ((0.3, -0.2), 300, "harmful"),
        ((-0.1, 0.2), 300, "no train gain"),
        ((0.0, 0.2), 300, "no train gain"),
        ((0.3, 0.28), 300, "undecided"),
        ((0.3, 0.1), 20, "undecided"),
        ((0.3, 0.0), 20, "undecided"),
    ],
)
def test_labels_of_whole_tables(gains: tuple[float, float], n: int, label: str) -> None:
    train, audit = (role(gain, n=n, lost=0.25) for gain in gains)
    assert retention_of(train, audit, resamples=2000).label == label


@pytest.mark.parametrize(
    ("train", "audit", "audit_interval", "retention_interval", "label"),
    [
        (0.10, 0.12, (0.02, 0.22), (-0.1, 0.14), "kept"),
        (0.10, 0.12, (-0.01, 0.25), (-0.1, 0.14), "undecided"),  # it may be lost
        (0.10, 0.10, (0.01, 0.19), (-0.1, 0.10), "kept"),  # a retention of 0
        (0.30, 0.10, (0.02, 0.18), (-0.3, -0.1), "partly kept"),
        (0.30, 0.10, (0.02, 0.18), (-0.4, 0.01), "undecided"),  # it may be kept
        (0.30, 0.10, (-0.02, 0.22), (-0.3, -0.1), "undecided"),  # it may be lost
        (0.30, 0.00, (-0.08, 0.08), (-0.4, -0.2), "lost"),
        (0.30, 0.00, (-0.08, 0.08), (-0.5, 0.01), "undecided"),
        (0.30, -0.05, (-0.13, 0.03), (-0.5, -0.2), "lost"),
        (0.30, -0.20, (-0.28, -0.12), (-0.7, -0.3), "harmful"),
        (0.00, 0.20, (0.12, 0.28), (0.1, 0.3), "no train gain"),
    ],
)
def test_a_label_is_given_only_where_the_interval_excludes_the_other(
    train: float,
    audit: float,
    audit_interval: tuple[float, float],
    retention_interval: tuple[float, float],
    label: str,
) -> None:
    assert retention_label(train, audit, audit=audit_interval, retention=retention_interval) == label


def test_families_of_other_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="a family of each of 3 tasks, got 2"):
        RoleScores(np.zeros(3), np.zeros(3), ["a", "b"])
    with pytest.raises(ValueError, match="same tasks"):
        retention_of(RoleScores(np.zeros(3), np.zeros(4)), role(0.1))


def _drawn(rng: np.random.Generator, n: int, gains: np.ndarray) -> tuple[RoleScores, float]:
    """Tasks in ten families with their own pass rates; the true gain over just these families."""
    family = np.arange(n) % len(gains)
    base = np.linspace(0.2, 0.7, len(gains))[family]
    none = (rng.random(n) < base).astype(float)
    fixed = (none == 0) & (rng.random(n) < gains[family] / (1 - base))
    broken = (none == 1) & (rng.random(n) < 0.06)
    skill = np.where(fixed, 1.0, np.where(broken, 0.0, none))
    return RoleScores(none, skill, [str(name) for name in family]), float((gains[family] - 0.06 * base).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("n_train", "n_audit"), [(40, 40), (40, 200)])
def test_the_intervals_cover_the_truth_about_as_often_as_they_say(n_train: int, n_audit: int) -> None:
    rng, runs = np.random.default_rng(n_audit), 2000
    gains = np.linspace(0.05, 0.35, 10)
    covered = np.zeros(3)
    for run in range(runs):
        (train, first), (audit, second) = _drawn(rng, n_train, gains), _drawn(rng, n_audit, 0.4 * gains)
        found = retention_of(train, audit, resamples=1000, seed=run)
        intervals = (found.train_interval, found.audit_interval, found.retention_interval)
        truths = (first, second, second - first)
        covered += [low <= truth <= high for (low, high), truth in zip(intervals, truths, strict=True)]
    assert min(covered / runs) >= 0.915
    assert max(covered / runs) <= 0.975
